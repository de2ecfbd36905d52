"""A link keeps one connection to one server alive, and knows which life of the server it talks to.

It guards two invariants. A connection is offered only after it proved to be a usable primary (right password, not a
replica, no eviction), with our scripts loaded and its epoch read over that very connection. And no call waits for its
answer longer than KEYSPACE_COMMAND_S: the epoch is read again every second, and answers come in order. So an epoch that
does not come in time means that nothing before it came either. One server needs one link; a cluster is several.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidings.bounds import (
    EPOCH_CHECK_S,
    KEYSPACE_COMMAND_S,
    KEYSPACE_CONNECT_S,
    KEYSPACE_RETRY_S,
    KEYSPACE_WAIT_S,
    SENTINEL_CHECK_S,
)
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.wire import Address, ErrorReply, Run, Wire, dial
from tidings.tasks import cancel, wait_at_most

log = logging.getLogger("tidings.keyspace")

EpochListener = Callable[[str, str], None]
Locate = Callable[[], Awaitable[Address]]


class Facts(msgspec.Struct, frozen=True):
    """The facts of a server that a link needs, from INFO."""

    epoch: str
    is_primary: bool
    is_cluster: bool
    evicts: str  # the policy by which it would drop keys; empty: it never does


def read_facts(*sections: bytes) -> Facts:
    """Read the facts in INFO server and INFO replication, and in INFO memory where eviction matters."""
    info: dict[str, str] = {}
    for section in sections:
        lines = section.decode("utf-8", "replace").splitlines()
        info |= {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}
    policy = info.get("maxmemory_policy", "noeviction")
    return Facts(
        epoch=f"{info.get('run_id', '')[:12]}-{info.get('master_replid', '')[:12]}",
        is_primary=info.get("role") == "master",
        is_cluster=info.get("redis_mode", info.get("server_mode")) == "cluster",
        evicts="" if policy == "noeviction" or info.get("maxmemory", "0") == "0" else policy,
    )


class Link:
    """Calls go in, runs of answers come out; the connection below is replaced whenever it breaks."""

    def __init__(
        self,
        address: Address,
        scripts: Iterable[str],
        clock: Clock,
        count: Callable[[int], None],
        locate: Locate | None = None,
    ) -> None:
        """`locate` names the server before each connection, and again and again while one is used."""
        self.is_cluster = False
        self.address = address
        self._locate = locate
        self._located_s = 0.0
        self._scripts = tuple(scripts)
        self.clock = clock
        self._count = count
        self._listeners: list[EpochListener] = []
        self._on_lost: list[Callable[[], None]] = []
        self._wire: Wire | None = None
        self._epoch = ""  # the last one known, kept while the link is down
        self._up = asyncio.Event()
        self._nudge = asyncio.Event()  # ends the keeper's pause early
        self._down_since_s = clock.monotonic_s()
        self._down_reason = "not connected yet"
        self._keeper: asyncio.Task[None] | None = None

    @property
    def label(self) -> str:
        return self.address.label

    @property
    def is_up(self) -> bool:
        return self._wire is not None

    @property
    def is_busy(self) -> bool:
        """Whether calls wait for their answers."""
        return self._wire is not None and self._wire.is_busy

    @property
    def epoch(self) -> str:
        """The epoch of the current connection. Raises Unavailable when there is none."""
        if self._wire is None:
            raise self._unavailable()
        return self._wire.epoch

    @property
    def last_epoch(self) -> str:
        """The last epoch that was read, whether the link is up or down."""
        return self._epoch

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Called after every loss of the connection."""
        self._on_lost.append(listener)

    def on_epoch(self, listener: EpochListener) -> None:
        """Call `listener(old, new)` after every change of the epoch, before any call reaches the new life."""
        self._listeners.append(listener)

    async def open(self) -> None:
        """Connect for the first time. Raises Unavailable. From then on the link is kept up until `close`."""
        self._adopt(await self._connect())
        self._keeper = asyncio.create_task(self._keep(), name=f"keyspace-link {self.label}")

    async def close(self) -> None:
        await cancel(self._keeper)
        wire, self._wire = self._wire, None
        self._up.clear()
        self._down_since_s, self._down_reason = float("-inf"), "it was closed"  # refuses at once from here on
        if wire is not None:
            wire.cut(self._down_reason)

    async def exchange(self, calls: Sequence[Call[Any]], begun: asyncio.Future[Run] | None = None) -> Run:
        """Run all calls in one round trip. Error replies are answers here. Only missing scripts are loaded again."""
        if begun is None:
            begun = (self._wire or await self._wait_up()).send(calls)
        run = await begun
        if run.is_faulty:
            await self.mend(calls, run)
        return run

    def begin(self, calls: Sequence[Call[Any]]) -> asyncio.Future[Run] | None:
        """Start an exchange. The caller must load missing scripts with `mend`. None: the link is down."""
        return self._wire.send(calls) if self._wire is not None else None

    async def glance(self, calls: Sequence[Call[Any]]) -> Run:
        """Run one exchange over a connection of its own."""
        wire = await self.visit()
        try:
            async with asyncio.timeout(KEYSPACE_CONNECT_S):
                return await wire.send(calls)
        except TimeoutError:
            raise Unavailable(f"{self.label}: no answer within {KEYSPACE_CONNECT_S:g} s") from None
        finally:
            wire.cut("it was only asked once")

    async def visit(self) -> Wire:
        """Open a connection of its own, signed in, to a server of any kind: a replica knows its cluster too, and a
        server that evicts can still be examined. The caller cuts it."""
        wire = Wire(self.label, self._count, self._lose)
        try:
            async with asyncio.timeout(KEYSPACE_CONNECT_S):
                await dial(self.address, wire)
                await self._sign_in(wire)
        except BaseException as error:
            wire.cut("given up")
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{self.label}: no answer within {KEYSPACE_CONNECT_S:g} s") from None
            raise
        return wire

    async def mend(self, calls: Sequence[Call[Any]], run: Run) -> None:
        """Load the scripts and repeat the calls that missed them; the other calls of the run happened already."""
        missed = [at for at, answer in enumerate(run.answers) if is_refusal(answer, "NOSCRIPT")]
        if missed:
            try:
                wire = self._wire or await self._wait_up()
                await self._load(wire)
                again = await wire.send([calls[at] for at in missed])
            except Unavailable as error:
                is_ambiguous = error.is_ambiguous or len(missed) < len(calls)
                raise Unavailable(str(error), is_ambiguous=is_ambiguous) from error
            for at, answer in zip(missed, again.answers, strict=True):
                run.answers[at] = answer
        if any(is_refusal(answer, "READONLY") for answer in run.answers):
            self._nudge.set()
        run.is_faulty = any(isinstance(answer, ErrorReply) for answer in run.answers)

    async def _wait_up(self) -> Wire:
        """Wait for a link that just went down: it is usually back in a moment. Later the link refuses at once."""
        left_s = self._down_since_s + KEYSPACE_WAIT_S - self.clock.monotonic_s()
        if left_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._up.wait()
        if self._wire is None:
            raise self._unavailable()
        return self._wire

    def _unavailable(self) -> Unavailable:
        return Unavailable(f"{self.label} is down: {self._down_reason}")

    # the life of a connection

    async def _connect(self) -> Wire:
        if self._locate is not None:
            self.address = await self._locate()
            self._located_s = self.clock.monotonic_s()
        wire = Wire(self.label, self._count, self._lose)
        try:
            async with asyncio.timeout(KEYSPACE_CONNECT_S):
                await dial(self.address, wire)
                await self._greet(wire)
        except TimeoutError:
            wire.cut("no answer")
            raise Unavailable(f"{self.label}: no answer within {KEYSPACE_CONNECT_S:g} s") from None
        except Unavailable as error:
            wire.cut("refused")
            raise Unavailable(str(error)) from error  # a greeting changes nothing: never ambiguous
        except BaseException:
            wire.cut("given up")
            raise
        return wire

    async def _greet(self, wire: Wire) -> None:
        """Sign in, check that the server is a primary that a node can use, and load the scripts."""
        await self._sign_in(wire)
        facts = await self._ask_facts(wire, "server", "replication", "memory")
        if not facts.is_primary:
            raise Unavailable(f"{self.label}: it is a replica; Tidings needs the primary")
        if facts.evicts:
            raise Unavailable(f"{self.label}: it evicts keys ({facts.evicts}); set maxmemory-policy to noeviction")
        wire.epoch = facts.epoch
        self.is_cluster = facts.is_cluster
        await self._load(wire)

    async def _sign_in(self, wire: Wire) -> None:
        address = self.address
        words: list[tuple[str, ...]] = [("CLIENT", "SETNAME", "tidings"), ("PING",)]
        if address.db:
            words.insert(0, ("SELECT", str(address.db)))
        if password := address.secret():
            user = (address.user,) if address.user else ()
            words.insert(0, ("AUTH", *user, password))
        run = await wire.send([plain("", *each) for each in words])
        for (name, *_), answer in zip(words, run.answers, strict=True):
            if isinstance(answer, ErrorReply) and not (name == "CLIENT" or (name, answer.code) == ("PING", "NOPERM")):
                raise Unavailable(f"{self.label}: {_greeting_reason(name, answer)}")

    async def _ask_facts(self, wire: Wire, *sections: str) -> Facts:
        """Ask INFO once for each section: old servers take one section at a time."""
        run = await wire.send([plain("", "INFO", section) for section in sections])
        for answer in run.answers:
            if not isinstance(answer, bytes):
                raise Unavailable(f"{self.label}: INFO, which tells a failover, is refused ({_first_line(answer)})")
        return read_facts(*run.answers)

    async def _load(self, wire: Wire) -> None:
        run = await wire.send([plain("", "SCRIPT", "LOAD", script) for script in self._scripts])
        for answer in run.answers:
            if isinstance(answer, ErrorReply):
                raise Unavailable(f"{self.label}: a script was refused ({_first_line(answer)})")

    def _adopt(self, wire: Wire) -> None:
        if wire.is_lost:
            raise Unavailable(f"{self.label}: it closed the connection")
        self._wire = wire
        log.info("keyspace connected", extra={"address": self.label, "epoch": wire.epoch})
        self._tell(wire.epoch)
        self._up.set()

    def _lose(self, wire: Wire, reason: str) -> None:
        if wire is not self._wire:
            return  # a greeting that failed: the caller that connects reports it
        self._wire = None
        self._up.clear()
        self._down_since_s = self.clock.monotonic_s()
        self._down_reason = reason
        self._nudge.set()
        log.warning("keyspace lost", extra={"address": self.label, "cause": reason})
        for listener in self._on_lost:
            listener()

    def _tell(self, epoch: str) -> None:
        old, self._epoch = self._epoch, epoch
        if not old or old == epoch:
            return
        log.warning("keyspace epoch changed", extra={"address": self.label, "old": old, "new": epoch})
        for listener in self._listeners:
            try:
                listener(old, epoch)
            except Exception:
                log.exception("keyspace epoch listener failed")

    # the keeper

    async def _keep(self) -> None:
        while True:
            wire = self._wire
            if wire is None:
                await self._reconnect()
                continue
            await wait_at_most(self._nudge, EPOCH_CHECK_S)
            self._nudge.clear()
            if not wire.is_lost:
                await self._check(wire)
                await self._follow(wire)

    async def _reconnect(self) -> None:
        """Try once to connect. The pause always comes first: a server that drops connections must not spin us."""
        await asyncio.sleep(KEYSPACE_RETRY_S * (0.5 + self.clock.random_fraction()))
        try:
            self._adopt(await self._connect())
        except Unavailable as error:
            reason = str(error).removeprefix(f"{self.label}: ")
            if reason != self._down_reason:
                log.warning("keyspace still down", extra={"address": self.label, "cause": reason})
            self._down_reason = reason

    async def _follow(self, wire: Wire) -> None:
        """Leave a server that is the primary no longer, though it may think so: it was cut off from the others."""
        if self._locate is None or self.clock.monotonic_s() - self._located_s < SENTINEL_CHECK_S:
            return
        self._located_s = self.clock.monotonic_s()
        with suppress(Unavailable):  # no sentinel answers: the server may serve on
            if await self._locate() != self.address:
                wire.cut("another server is the primary now")

    async def _check(self, wire: Wire) -> None:
        try:
            async with asyncio.timeout(KEYSPACE_COMMAND_S):
                facts = await self._ask_facts(wire, "server", "replication")
        except TimeoutError:
            wire.cut(f"no answer within {KEYSPACE_COMMAND_S:g} s")
        except Unavailable as error:
            wire.cut(str(error))
        else:
            self._note(wire, facts)

    def _note(self, wire: Wire, facts: Facts) -> None:
        if wire.is_lost:
            return
        if not facts.is_primary:
            wire.cut("it is a replica now")
        elif facts.epoch != wire.epoch:
            wire.epoch = facts.epoch
            self._tell(facts.epoch)


def is_refusal(answer: Any, code: str) -> bool:
    return isinstance(answer, ErrorReply) and answer.code == code


def _greeting_reason(name: str, refusal: ErrorReply) -> str:
    if name == "AUTH":
        return f"wrong user or password ({_first_line(refusal)})"
    if refusal.code == "NOAUTH":
        return "it wants a password"
    return _first_line(refusal)


def _first_line(answer: Any) -> str:
    return (str(answer).splitlines() or [""])[0][:160]
