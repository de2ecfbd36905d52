"""Stores that fail when a test says so, a clock that a test turns, and nodes on them.

The stores below are the real ones: a fault only loses a request before it arrives, loses its answer, or holds it up.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from tidings.clock import Clock
from tidings.config.settings import Node, Settings
from tidings.errors import Close, Problem, Throttled, Unavailable
from tidings.messaging.send.draft import Companion, Draft
from tidings.model import Content, Entry, Sent
from tidings.node import graph
from tidings.node.graph import Core, Stores
from tidings.pushes import Event, MessageNew
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.scripts import audit as scripts_audit
from tidings.stores.keyspace.scripts import tally as scripts_tally
from tidings.stores.keyspace.scripts.messaging import SOURCES
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Group

Do = Callable[[], Awaitable[Any]]
Fault = Callable[[Do], Awaitable[Any]]
_NAMES = {
    hashlib.sha1(source.encode()).hexdigest().encode(): name
    for name, source in (SOURCES | scripts_audit.SOURCES | scripts_tally.SOURCES).items()
}


async def down(do: Do) -> Any:
    """Refused: nothing happened, and the caller knows it."""
    raise Unavailable("down, says the test")


async def throttled(do: Do) -> Any:
    raise Throttled("less, says the test")


async def request_lost(do: Do) -> Any:
    """Nothing happened, and the caller cannot know."""
    raise Unavailable("no answer, says the test", is_ambiguous=True)


async def answer_lost(do: Do) -> Any:
    """It happened, and the caller cannot know."""
    await do()
    raise Unavailable("no answer, says the test", is_ambiguous=True)


class Gate:
    """Holds a request up: `reached` is set when it comes, and it goes on when `opened` is."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, do: Do) -> Any:
        self.reached.set()
        await self.opened.wait()
        return await do()


class After(Gate):
    """Lets the request through and holds up its answer."""

    async def __call__(self, do: Do) -> Any:
        answer = await do()
        self.reached.set()
        await self.opened.wait()
        return answer


class Late(Gate):
    """Holds a request up, then refuses it."""

    async def __call__(self, do: Do) -> Any:
        self.reached.set()
        await self.opened.wait()
        return await down(do)


class FaultyLog:
    """A real log, whose next appends meet the faults in `faults`, and its next pages those in `page_faults`."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.faults: deque[Fault] = deque()
        self.page_faults: deque[Fault] = deque()
        self.appends: list[Sequence[Group]] = []
        self.pages = 0  # reads of the log

    async def append(self, groups: Sequence[Group]) -> Any:
        self.appends.append(groups)
        if self.faults:
            return await self.faults.popleft()(lambda: self._log.append(groups))
        return await self._log.append(groups)

    async def page(self, *args: Any, **fields: Any) -> Any:
        self.pages += 1
        if self.page_faults:
            return await self.page_faults.popleft()(lambda: self._log.page(*args, **fields))
        return await self._log.page(*args, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class Recorded:
    """A real port of the tables that records the name of each operation."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._port, name)


def record_members(node: FaultyNode) -> list[str]:
    """The reads of heads and members by which this node decides who is a member, from now on."""
    recorded = Recorded(node.core.access._conversations)
    node.core.access._conversations = cast(Any, recorded)
    return recorded.asked


class FaultyKeyspace:
    """A real keyspace; `fail(name, fault)` meets the next run that has this script or command in it."""

    def __init__(self, keyspace: Any) -> None:
        self._keyspace = keyspace
        self._faults: dict[str, deque[Fault]] = {}
        self.runs: list[list[str]] = []  # scripts and commands, as they went together
        self.ahead_ms = 0  # what the test adds to the clock of the server

    def fail(self, name: str, *faults: Fault) -> None:
        self._faults.setdefault(name, deque()).extend(faults)

    def forget_faults(self) -> None:
        self._faults.clear()

    def begin(self, calls: Sequence[Call[Any]]) -> asyncio.Task[list[Any]]:
        return asyncio.get_running_loop().create_task(self.run(calls))

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        names = [_name(call) for call in calls]
        self.runs.append(names)
        for name in names:
            if self._faults.get(name):
                fault = self._faults[name].popleft()
                return await fault(lambda: self._run(calls))  # type: ignore[no-any-return]
        return await self._run(calls)

    async def _run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        replies: list[Any] = await self._keyspace.run(calls)
        if self.ahead_ms and _name(calls[0]) == "TIME":
            ((seconds, micros),) = replies
            there_us = int(seconds) * 1_000_000 + int(micros) + self.ahead_ms * 1000
            return [[str(part).encode() for part in divmod(there_us, 1_000_000)]]
        return replies

    async def one(self, call: Call[Any]) -> Any:
        return (await self.run((call,)))[0]

    @property
    def said(self) -> list[str]:
        return [name for run in self.runs for name in run]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keyspace, name)


def _name(call: Call[Any]) -> str:
    word = call.words[0]
    if word == b"EVALSHA":
        return _NAMES.get(call.words[1], "another script")  # type: ignore[arg-type]
    return word.decode() if isinstance(word, bytes) else str(word)


class TurnedClock(Clock):
    """Real time, and what the test adds to it."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.elapsed_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.elapsed_s


@dataclasses.dataclass(frozen=True)
class FaultyNode:
    """A node without sockets, on stores that fail when told to."""

    core: Core
    tables: Tables
    faulty_log: FaultyLog
    keyspace: FaultyKeyspace
    clock: TurnedClock
    answered_twice: list[str] = dataclasses.field(default_factory=list)

    async def send(self, sender_id: str, conversation_id: str, message_id: str, text: str = "hi") -> Sent:
        return await self.core.sends.send(sender_id, conversation_id, message_id, Content(text))

    def submit(
        self,
        sender_id: str,
        conversation_id: str,
        message_id: str,
        text: str = "hi",
        origin: str | None = None,
        replies: list[tuple[str, Sent | Problem]] | None = None,
        companion: Companion | None = None,
    ) -> asyncio.Future[Sent | Problem]:
        """Queued in this very moment. `replies` takes the answers in the order they come."""
        answer: asyncio.Future[Sent | Problem] = asyncio.get_running_loop().create_future()

        def reply(result: Sent | Problem) -> None:
            if answer.done():
                self.answered_twice.append(message_id)
                return
            answer.set_result(result)
            if replies is not None:
                replies.append((message_id, result))

        self.core.sends.submit(
            Draft(
                sender_id=sender_id,
                conversation_id=conversation_id,
                message_id=message_id,
                content=Content(text),
                companion=companion,
                origin=origin,
                reply=reply,
            )
        )
        return answer

    async def code(self, *args: Any, **fields: Any) -> str:
        """How a send is answered: the problem's code, `stored` or `duplicate`."""
        return code_of(await self.submit(*args, **fields))

    async def log(self, conversation_id: str) -> list[Entry]:
        return await self.tables.log.page(conversation_id, after=0, before=1 << 53, limit=100_000, newest_first=False)

    async def unread(self, user_id: str) -> int:
        return (await self.core.unread.totals(user_id)).total_unread

    async def wrong(self) -> list[Any]:
        """What verify finds."""
        return list((await self.core.verify.run(None, repair=False)).wrong)

    async def command(self, *words: str | int) -> Any:
        return await self.keyspace.one(plain(str(words[1]), *words))


def code_of(answer: Sent | Problem) -> str:
    if isinstance(answer, Problem):
        return answer.code
    return "duplicate" if answer.is_duplicate else "stored"


def told(log: Sequence[Entry]) -> list[tuple[int, str, str | None]]:
    """The log in short: seq, kind, message_id."""
    return [(entry.seq_no, entry.kind, entry.message_id) for entry in log]


@asynccontextmanager
async def open_faulty(settings: Settings, node_id: str) -> AsyncIterator[FaultyNode]:
    clock = TurnedClock()
    settings = dataclasses.replace(settings, node=Node(id=node_id))
    async with graph.open_core(settings, clock) as plain:
        keyspace, log = FaultyKeyspace(plain.keyspace), FaultyLog(plain.tables.log)
        tables = dataclasses.replace(plain.tables, log=cast(Any, log))
        stores = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Stores)}
        core = graph.build(Stores(**{**stores, "keyspace": keyspace, "tables": tables}))
        node = FaultyNode(core, tables, log, keyspace, clock)
        yield node
        assert node.answered_twice == []


class Device:
    """A connection that only listens."""

    def __init__(self, user_id: str, connection_id: str, device: str | None = None) -> None:
        self.user_id = user_id
        self.connection_id = connection_id
        self.device = device
        self.opened_s = time.monotonic()
        self.events: list[Event] = []
        self.closed: list[Close] = []

    def push(self, event: Event) -> None:
        self.events.append(event)

    def push_now(self, event: Event) -> None:
        self.events.append(event)

    def close(self, code: Close, reason: str = "") -> None:
        self.closed.append(code)

    async def drained(self) -> None:
        return None

    def seqs(self) -> list[int]:
        """Numbers of the entries that were pushed."""
        return [event.entry.seq_no for event in self.events if isinstance(event, MessageNew)]
