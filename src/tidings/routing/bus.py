"""Node to node: each node listens to one sharded channel, and what others have for it comes in one publish per turn.

A publish that the keyspace did not answer is repeated; one that nobody heard is not. That is enough, because nothing
depends on it: a missed entry shows as a gap and is read from the log, a repeated one is known, and after every
(re)subscribe the node reads what changed for its users (`on_subscribed`). Posted to by deliver.py and router.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from tidings.bounds import BUS_BYTES_MAX, BUS_WAITING_MAX, KEYSPACE_RETRY_S
from tidings.errors import StoreError
from tidings.model import Entry, Event, Presence, Typing
from tidings.stores.calls import Keyspace, Subscription, plain
from tidings.stores.keys import Keys

log = logging.getLogger("tidings.bus")

Counts = tuple[int | None, bool, int | None]  # unread_count, unread_capped, total_unread


class Delivery(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Entries of one conversation for whoever of its members is connected there."""

    conversation_id: str
    members_seq: int
    entries: tuple[Entry, ...]
    counts: dict[str, Counts]


class Pushed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An event for one user's connections, except connection `but`."""

    user_id: str
    event: Event
    but: str | None = None


class Closing(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Close a connection, or every connection of a user."""

    code: int
    user_id: str
    connection_id: str | None = None


class Joined(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A node says that it exists."""

    node_id: str


class Known(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The answer to that: from here on this node routes to who joined."""

    node_id: str


class Signal(msgspec.Struct, frozen=True, tag=True, gc=False):
    """True for a moment: for whoever watches one of these conversations there."""

    conversation_ids: tuple[str, ...]
    event: Typing | Presence


class Leave(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator wants the node to go, as on SIGTERM."""


Item = Delivery | Pushed | Closing | Joined | Known | Signal | Leave
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, list[Item]])  # the node that tells, and what


class Bus:
    def __init__(self, keyspace: Keyspace, keys: Keys, node_id: str) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._node_id = node_id
        self._waiting: dict[str, list[Item]] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._feed: Subscription | None = None

    async def open(self, on_item: Callable[[Item, str], None], on_subscribed: Callable[[], None]) -> None:
        """Listen: `on_item(item, node_id)`. Raises Unavailable."""

        def take(data: bytes) -> None:
            try:
                node_id, items = _decoder.decode(data)
            except msgspec.MsgspecError:
                log.warning("a publish of another version was passed over")
                return
            for item in items:
                on_item(item, node_id)

        self._feed = await self._keyspace.subscribe(self._keys.bus(self._node_id), take, on_subscribed)

    @property
    def is_up(self) -> bool:
        return self._feed is not None and self._feed.is_up

    async def settle(self) -> None:
        """Returns when everything posted has left."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def close(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        if self._feed is not None:
            await self._feed.close()

    def post(self, node_id: str, item: Item) -> None:
        """Queue for another node. Never blocks; everything of one turn leaves together."""
        self._waiting.setdefault(node_id, []).append(item)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="bus")

    async def tell(self, node_id: str, item: Item) -> int:
        """At once; how many were listening?"""
        channel = self._keys.bus(node_id)
        call = plain(channel, b"SPUBLISH", channel, _encoder.encode((self._node_id, [item])))
        return int(await self._keyspace.one(call))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                outcomes = await asyncio.gather(*(self._publish(*pair) for pair in waiting.items()))
                if not all(outcomes):
                    self._keep([pair for pair, is_out in zip(waiting.items(), outcomes, strict=True) if not is_out])
                    await asyncio.sleep(KEYSPACE_RETRY_S)
        finally:
            self._flushing = None

    async def _publish(self, node_id: str, items: list[Item]) -> bool:
        """Each node by itself: where one cannot be told now, the others are not told twice."""
        channel = self._keys.bus(node_id)
        try:
            await self._keyspace.run(
                [plain(channel, b"SPUBLISH", channel, one) for one in _payloads(self._node_id, items)]
            )
        except StoreError as error:
            log.info("not published yet: %s", error)
            return False
        return True

    def _keep(self, refused: list[tuple[str, list[Item]]]) -> None:
        """Again, ahead of what came since; but not what was true for a moment only."""
        for node_id, items in refused:
            lasting = [item for item in (*items, *self._waiting.get(node_id, ())) if not isinstance(item, Signal)]
            if lasting:
                self._waiting[node_id] = lasting[-BUS_WAITING_MAX:]


def _payloads(node_id: str, items: list[Item]) -> list[bytes]:
    """Usually one; halved until each is small enough."""
    payload = _encoder.encode((node_id, items))
    if len(payload) <= BUS_BYTES_MAX or len(items) == 1:
        return [payload]
    middle = len(items) // 2
    return _payloads(node_id, items[:middle]) + _payloads(node_id, items[middle:])
