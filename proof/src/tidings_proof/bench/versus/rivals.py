"""Rivals: how a server under comparison is started, and how each work is put on it.

Every server gets the same users, conversations and texts. A work that a server does not have is None there, and its
cell in the table is a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tidings_proof.bench.load.plan import Channel, Pair, Pairs, Reader, Readers
from tidings_proof.bench.target.target import Target

TEXT = "x" * 64
PAGE = 20
TALK, WRITER = "talk", "writer"  # the conversation that is paged through, and the sender of all that is seeded
OPENER = "opener"  # the user whose inbox is opened


@dataclass(frozen=True)
class Sizes:
    pairs: int = 100
    in_flight: int = 4
    rate: float = 500.0
    readers: int = 16
    messages: int = 2_000  # of the conversation that is paged through
    inbox: int = 500  # conversations of the inbox
    unread: int = 4  # messages in each of them
    members: tuple[int, ...] = (200, 1_000)
    connections: int = 2_000
    seconds: float = 2.0
    warm_up_s: float = 1.0
    idle_s: float = 26.0  # longer than the 25 s between two pings

    @property
    def inbox_ids(self) -> list[str]:
        return [f"group{number}" for number in range(self.inbox)]

    @property
    def talkers(self) -> list[str]:
        return [WRITER, *(f"reader{number}" for number in range(self.readers))]


QUICK = Sizes(
    pairs=5,
    readers=2,
    rate=50.0,
    messages=100,
    inbox=30,
    members=(10, 20),
    connections=30,
    seconds=0.4,
    warm_up_s=0.1,
    idle_s=0.5,
)


@dataclass(frozen=True)
class Opens:
    """Opens of an inbox. One open may be several requests, and its answer has so many bytes."""

    load: Readers
    requests: int
    size_bytes: int


class Server:
    """A running server with our REST calls to create conversations. It offers the live works and no reading."""

    dialect = "tidings"

    def __init__(self, target: Target, sizes: Sizes) -> None:
        self.url, self.parts = target.url, target.parts
        self.target = target
        self.sizes = sizes

    def token(self, user_id: str) -> str:
        return self.target.token(user_id)

    @cached_property
    def pairs(self) -> list[Pair]:
        names = [(f"sender{number}", f"recipient{number}") for number in range(self.sizes.pairs)]
        return [Pair(self.token(one), self.token(other), self.target.direct(one, other)) for one, other in names]

    def sending(self, run: str, rate: float | None) -> Pairs:
        return Pairs(self.pairs, TEXT, run, in_flight=self.sizes.in_flight, rate=rate)

    def channel(self, members: int) -> Channel:
        """All members are online. One of them sends, and the others listen."""
        names = [f"member{number}" for number in range(members)]
        conversation_id = self.target.together("channel", names)
        sender, *listeners = map(self.token, names)
        return Channel(conversation_id, sender, {self.url: listeners}, TEXT, "", in_flight=self.sizes.in_flight)

    def history(self, transport: str) -> Readers | None:
        return None

    def inbox(self) -> Opens | None:
        return None


class ReadingServer(Server):
    """A server that also has our REST calls for history and inbox. Its data was seeded before it started."""

    inbox_path = f"/v1/inbox?limit={PAGE}"

    def history(self, transport: str) -> Readers | None:
        if transport != "http":
            return None
        return Readers([self._reader(number) for number in range(self.sizes.readers)], "http", items=PAGE)

    def _reader(self, number: int) -> Reader:
        """The pages from the newest to the oldest; each reader begins at another one."""
        pages = [self.page(before) for before in range(self.sizes.messages + 1, PAGE, -PAGE)]
        first = number * len(pages) // self.sizes.readers
        return Reader(self.token(f"reader{number}"), pages[first:] + pages[:first])

    def page(self, before_seq: int) -> str:
        return f"/v1/conversations/{TALK}/messages?before_seq={before_seq}&limit={PAGE}"

    def inbox(self) -> Opens | None:
        load = Readers([Reader(self.token(OPENER), [self.inbox_path])], "http", items=PAGE)
        return Opens(load, 1, self.target.size_bytes(self.inbox_path, user_id=OPENER))


@dataclass(frozen=True)
class Rival:
    key: str  # as the command line names it
    name: str
    stores: str  # and acknowledges, in a sentence
    start: Callable[[Path, Sizes], AbstractContextManager[Server]]
    missing: Callable[[], str | None] = lambda: None  # how to get it, when it is not there


def there(rivals: Sequence[Rival]) -> tuple[list[Rival], dict[str, str]]:
    """The rivals that can run on this machine, and how to get each of the others."""
    lacks = {rival.name: lack for rival in rivals if (lack := rival.missing()) is not None}
    return [rival for rival in rivals if rival.name not in lacks], lacks
