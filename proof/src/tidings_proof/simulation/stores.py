"""The stores of a simulated world, and the wires between them and the nodes.

The tables are the real SQLite adapter on a database in memory; the keyspace is `MemoryValkey`. The
way there and back is simulated: requests take time, get lost before or after they are carried out, are carried out
half, or long after the caller gave up. A request on its way survives the death of the node that sent it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import apsw

from tidings.bounds import BUS_PROBE_S
from tidings.clock import Clock
from tidings.errors import Throttled, Unavailable
from tidings.stores.keyspace.call import Call
from tidings.stores.tables.sqlite import archive, log, statuses
from tidings.stores.tables.sqlite.file.engine import Task, Transaction, read_together, write_together
from tidings.stores.tables.sqlite.file.schema import Identity, create
from tidings_proof.simulation.loop import START_MS, Party, SimLoop
from tidings_proof.simulation.memory_valkey import MemoryValkey

IDENTITY = Identity("the-store", "a1", "a secret of the simulated tables")
_TRIP_S = {"keyspace": 0.000_2, "tables": 0.001, "blobs": 0.005}  # one way, as a rule


class SimClock(Clock):
    """Virtual time with a node's own error, and randomness of the seed."""

    def __init__(self, loop: SimLoop, dice: random.Random, ahead_ms: int = 0) -> None:
        self._loop = loop
        self._dice = dice
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000) + self._ahead_ms

    def set_back(self, ms: int) -> None:
        self._ahead_ms -= ms

    def monotonic_s(self) -> float:
        return self._loop.time()

    def random_id(self, size: int = 16) -> str:
        return f"{self._dice.getrandbits(8 * size):0{2 * size}x}"

    def random_fraction(self) -> float:
        return self._dice.random()


class Weather:
    """How the wires behave now. `trouble` is the share of requests that meet some."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.trouble = {"keyspace": 0.0, "tables": 0.0, "blobs": 0.0}
        self.slowness = 0.0  # the share of trips that take long
        self.throttle = 0.0  # the share of transactions that the tables refuse, because a key is too hot
        self.slow_stores = tuple(self.trouble)

    def calm(self) -> None:
        self.trouble = dict.fromkeys(self.trouble, 0.0)
        self.slowness = 0.0

    def trip_s(self, store: str) -> float:
        dice = self.dice
        if self.slowness and store in self.slow_stores and dice.random() < self.slowness:
            return dice.random() * 0.4
        return _TRIP_S[store] * (0.5 + dice.random())

    def fate(self, store: str) -> str:
        if store == "tables" and self.throttle and self.dice.random() < self.throttle:
            return "throttled"
        trouble = self.trouble[store]
        if not trouble or self.dice.random() >= trouble:
            return "well"
        # Late, long after the caller gave up: only on the tables. A cut connection's commands die with it at a Valkey.
        late = "late" if store == "tables" else "request_lost"
        return self.dice.choice(("refused", "request_lost", "answer_lost", "half", late))


class Wire:
    """From one node to one store and back, in order both ways."""

    def __init__(self, loop: SimLoop, weather: Weather, party: Party, store: str) -> None:
        self._loop = loop
        self._weather = weather
        self._party = party
        self._store = store
        self._there_s = self._back_s = 0.0

    async def ask(self, carry_out: Callable[[str], Any]) -> Any:
        """`carry_out(fate)` at the store; it may raise a store error. Raises Unavailable when the wire fails."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        fate = self._weather.fate(self._store)
        trip_s = self._weather.trip_s(self._store)
        if fate == "throttled":
            self._loop.in_world(trip_s, self._settle, answer, None, Throttled("a key is too hot"))
        elif fate == "refused":
            self._loop.in_world(trip_s, self._settle, answer, None, Unavailable("refused"))
        elif fate == "request_lost":
            self._loop.in_world(trip_s, self._settle, answer, None, Unavailable("lost", is_ambiguous=True))
        elif fate == "late":
            self._loop.in_world(trip_s, self._settle, answer, None, Unavailable("no answer yet", is_ambiguous=True))
            self._loop.in_world(trip_s + self._weather.dice.random() * 2, self._too_late, carry_out)
        else:
            self._there_s = max(self._there_s, self._loop.time() + trip_s)
            self._loop.in_world(self._there_s - self._loop.time(), self._arrive, answer, carry_out, fate)
        return await answer

    def _too_late(self, carry_out: Callable[[str], Any]) -> None:
        try:
            carry_out("late")
        except Exception:
            return  # nobody hears of it

    def _arrive(self, answer: asyncio.Future[Any], carry_out: Callable[[str], Any], fate: str) -> None:
        result, error = None, None
        try:
            result = carry_out(fate)
        except Exception as raised:
            error = raised
        if fate in ("answer_lost", "half"):
            error = Unavailable("the answer was lost", is_ambiguous=True)
        self._back_s = max(self._back_s, self._loop.time() + self._weather.trip_s(self._store))
        self._loop.in_world(self._back_s - self._loop.time(), self._settle, answer, result, error)

    def _settle(self, answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if self._party.is_dead or answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)


# --- tables ---------------------------------------------------------------------------------------


@cache
def _empty_database() -> bytes:
    connection = apsw.Connection(":memory:")
    create(connection, IDENTITY)
    return connection.serialize("main")


def _random_bytes(dice: random.Random) -> Callable[..., bytes]:
    return lambda size: dice.randbytes(size)


def _epoch_s(now_ms: Callable[[], int]) -> Callable[..., float]:
    return lambda kind: now_ms() / 1000


def open_database(dice: random.Random, now_ms: Callable[[], int]) -> Transaction:
    """One connection for all: what is committed is seen by everybody. Time and randomness in SQL are the seed's."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", _empty_database())
    connection.create_scalar_function("randomblob", _random_bytes(dice), 1)
    connection.create_scalar_function("unixepoch", _epoch_s(now_ms), 1)
    return Transaction(connection)


class SimThreads:
    """Stands for engine.Threads: a task is one transaction, carried out when the wire has brought it."""

    def __init__(self, wire: Wire, tx: Transaction, *, is_writer: bool) -> None:
        self._wire = wire
        self._tx = tx
        self._carry = write_together if is_writer else read_together

    async def run(self, work: Callable[[Transaction], Any]) -> Any:
        return await self._wire.ask(lambda fate: self._carry_out(work, fate))

    def _carry_out(self, work: Callable[[Transaction], Any], fate: str) -> Any:
        if fate == "half" or (fate == "late" and getattr(work, "func", work) not in _MAY_BE_LATE):
            return None  # a transaction has no halves: here nothing of it happened
        task: Task[Any] = Task(work, _NOBODY)
        self._carry(self._tx, [task])
        self._tx.take_tally()
        if task.error is not None:
            raise task.error
        return task.result

    async def close(self) -> None:
        return None


# What is written on a condition, so that its time does not matter.
_MAY_BE_LATE = (log.append, statuses._put_each, archive._move)
_NOBODY: Any = None  # the future of a task whose outcome is read from it


# --- the keyspace ---------------------------------------------------------------------------------


class SimFeed:
    """A subscription. It may be deaf for a while before anybody notices."""

    def __init__(
        self, link: SimKeyspace, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        self.link = link
        self.party = link.party
        self.on_message = on_message
        self.on_subscribed = on_subscribed
        self.is_up = True
        self.is_deaf = False
        self.last_s = 0.0

    async def close(self) -> None:
        self.is_up, self.is_deaf = False, True


class SimServer:
    """The one Valkey of a world, with its channels."""

    def __init__(self, loop: SimLoop, weather: Weather) -> None:
        self._loop = loop
        self._weather = weather
        self.ahead_ms = 0  # of its clock
        self._lives = 1
        self.valkey = self._started(self._epoch)
        self.feeds: dict[bytes, list[SimFeed]] = {}
        self.links: list[SimKeyspace] = []

    @property
    def _epoch(self) -> str:
        return f"epoch-{self._lives}"

    def _started(self, epoch: str) -> MemoryValkey:
        valkey = MemoryValkey(self._now_us, epoch)
        valkey.publish = partial(self._publish, valkey)
        return valkey

    def _now_us(self) -> int:
        return (START_MS + self.ahead_ms) * 1000 + int(self._loop.time() * 1_000_000)

    def begin_anew(self) -> None:
        """Another life: connections are cut, and taken up again a little later."""
        self._lives += 1
        self.valkey.epoch = self._epoch
        self._move(self.links)

    def split(self, staying: Collection[Party]) -> None:
        """A replica becomes another primary, and the old one goes on for the nodes that stay with it."""
        self._lives += 1
        replica = self._started(self._epoch)
        replica.restore(self.valkey.snapshot())
        self.valkey = replica
        self._move([link for link in self.links if link.party not in staying])

    def join(self) -> None:
        """Bring the nodes that are still with an old primary to the new one."""
        self._move([link for link in self.links if link.primary is not self.valkey])

    def _move(self, links: Sequence[SimKeyspace]) -> None:
        """Cut these links and their feeds; they come to the primary of now a little later."""
        moved = [link for link in links if not link.party.is_dead]
        for link in moved:
            link.primary = self.valkey
            self._loop.in_world(self._weather.dice.random() * 0.3, link.reconnect)
        for feed in [feed for feeds in self.feeds.values() for feed in feeds if feed.link in moved]:
            self.deafen(feed, 0.0)

    def deafen(self, feed: SimFeed, for_s: float) -> None:
        """Lose everything that is published from now on, until the node notices and subscribes again."""
        feed.is_deaf = True
        self._loop.in_world(for_s, self._notice, feed)

    def _notice(self, feed: SimFeed) -> None:
        feed.is_up = False
        self._loop.in_world(0.1 + self._weather.dice.random() * 0.3, self._resubscribe, feed)

    def _resubscribe(self, feed: SimFeed) -> None:
        if not feed.party.is_dead:
            feed.is_up, feed.is_deaf = True, False
            self._loop.call_soon(feed.on_subscribed, context=feed.party.context)

    def any_feed(self) -> SimFeed | None:
        live = [feed for feeds in self.feeds.values() for feed in feeds if feed.is_up and not feed.party.is_dead]
        return self._weather.dice.choice(live) if live else None

    @property
    def deaf_s(self) -> float:
        return self._weather.dice.random() * 2 * BUS_PROBE_S

    def _publish(self, valkey: MemoryValkey, channel: bytes, data: bytes) -> int:
        there = [feed for feed in self.feeds.get(channel, ()) if feed.link.primary is valkey]
        feeds = [feed for feed in there if feed.is_up and not feed.party.is_dead]
        for feed in feeds:
            feed.last_s = max(feed.last_s, self._loop.time() + self._weather.trip_s("keyspace"))
            self._loop.in_world(feed.last_s - self._loop.time(), self._hand_over, feed, data)
        return len(feeds)

    def _hand_over(self, feed: SimFeed, data: bytes) -> None:
        if not feed.is_deaf and not feed.party.is_dead:
            self._loop.call_soon(feed.on_message, data, context=feed.party.context)


class SimKeyspace:
    """One node's link to the server: the `Keyspace` of calls.py."""

    is_cluster = False

    def __init__(self, loop: SimLoop, wire: Wire, server: SimServer, party: Party) -> None:
        self._loop = loop
        self._wire = wire
        self._server = server
        self.party = party
        self.primary = server.valkey  # the server that this node reaches
        self._epoch = self.primary.epoch
        self._listeners: list[Callable[[str, str], None]] = []
        server.links.append(self)

    def begin(self, calls: Sequence[Call[Any]]) -> asyncio.Task[list[Any]]:
        return asyncio.get_running_loop().create_task(self.run(calls))

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        epoch = self._epoch
        replies = await self._wire.ask(lambda fate: self._carry_out(calls, epoch, fate))
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]

    async def one(self, call: Call[Any]) -> Any:
        return (await self.run((call,)))[0]

    def _carry_out(self, calls: Sequence[Call[Any]], epoch: str, fate: str) -> list[Any]:
        if epoch != self.primary.epoch:
            raise Unavailable("the connection was cut", is_ambiguous=True)
        if fate == "half":
            calls = calls[: int(len(calls) * self._server._weather.dice.random())]
        return [self.primary.execute(_words(call, epoch)) for call in calls]

    def epoch(self, key: str) -> str:
        return self._epoch

    def is_up(self) -> bool:
        return self._epoch == self.primary.epoch

    def server_of(self, key: str) -> str:
        return ""

    def on_epoch(self, listener: Callable[[str, str], None]) -> None:
        self._listeners.append(listener)

    def reconnect(self) -> None:
        if self.party.is_dead or self._epoch == self.primary.epoch:
            return
        old, self._epoch = self._epoch, self.primary.epoch
        for listener in self._listeners:
            self.party.context.copy().run(listener, old, self._epoch)

    async def subscribe(
        self, channel: str, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> SimFeed:
        feed = SimFeed(self, on_message, on_subscribed)
        await self._wire.ask(lambda fate: self._server.feeds.setdefault(channel.encode(), []).append(feed))
        on_subscribed()
        return feed

    async def close(self) -> None:
        return None


def _words(call: Call[Any], epoch: str) -> Sequence[Any]:
    if call.epoch_at is None:
        return call.words
    return (*call.words[: call.epoch_at], epoch + call.epoch_tag, *call.words[call.epoch_at :])
