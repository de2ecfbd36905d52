"""Bus: what a node publishes to another. Each node listens to a sharded channel of its own, and
to one that all nodes share: how many hear a publish there says how many nodes there are, whatever the keyspace forgot.

All items of one turn of the loop for one node leave in one publish. A publish that the keyspace did not answer is
repeated; a publish that no node heard is not. That is enough, because nothing depends on it: a missed entry shows as a
gap and is read from the log, a repeated entry is recognised, and after every (re)subscribe the node reads what changed
for its users (`on_subscribed`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from tidings.bounds import BUS_BYTES_MAX, BUS_WAITING_MAX, KEYSPACE_RETRY_S
from tidings.errors import StoreError
from tidings.model import Entry
from tidings.pushes import Event, Presence, ThreadsOf, Typing
from tidings.stores.keyspace.call import Keyspace, Subscription, plain
from tidings.stores.keyspace.keys import Keys
from tidings.tasks import cancel

log = logging.getLogger("tidings.bus")

# unread_count, unread_capped, total_unread, mention_count, total_mentions, threads
Counts = tuple[int | None, bool, int | None, int | None, int | None, ThreadsOf | None]


class Delivery(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Entries of one conversation, for those of its members who are connected there."""

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
    """A node announces itself."""

    node_id: str


class Known(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The answer to `Joined`: from here on this node routes to the newcomer."""

    node_id: str


class Signal(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An event that is true for a moment, for the connections there that watch one of these conversations."""

    conversation_ids: tuple[str, ...]
    event: Typing | Presence


class Leave(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator wants the node to leave, as on SIGTERM."""


Item = Delivery | Pushed | Closing | Joined | Known | Signal | Leave
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, list[Item]])  # the node that publishes, and its items


class Bus:
    def __init__(self, keyspace: Keyspace, keys: Keys, node_id: str) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._node_id = node_id
        self._waiting: dict[str, list[Item]] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._feeds: list[Subscription] = []

    async def open(self, on_item: Callable[[Item, str], None], on_subscribed: Callable[[], None]) -> None:
        """Listen: `on_item(item, node_id)` for each item that node publishes to this one. Raises Unavailable."""

        def take(data: bytes) -> None:
            try:
                node_id, items = _decoder.decode(data)
            except msgspec.MsgspecError:
                log.warning("publish ignored", extra={"cause": "it is of another version"})
                return
            for item in items:
                on_item(item, node_id)

        for channel in (self._keys.bus_of_all, self._keys.bus(self._node_id)):
            try:
                self._feeds.append(await self._keyspace.subscribe(channel, take, on_subscribed))
            except BaseException:
                await self.close()
                raise

    @property
    def is_up(self) -> bool:
        return bool(self._feeds) and all(feed.is_up for feed in self._feeds)

    async def settle(self) -> None:
        """Returns when every queued item has left."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def close(self) -> None:
        await cancel(self._flushing)
        feeds, self._feeds = self._feeds, []
        for feed in feeds:
            await feed.close()

    def publish(self, node_id: str, item: Item) -> None:
        """Queue an item for another node. Never blocks; all items of one turn leave together."""
        self._waiting.setdefault(node_id, []).append(item)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="bus")

    async def publish_now(self, node_id: str, item: Item) -> int:
        """Publish one item at once. Returns how many listeners there were."""
        return await self._publish_to(self._keys.bus(node_id), item)

    async def publish_to_all(self, item: Item) -> int:
        """Publish one item to every node at once, this one included. Returns how many listeners there were."""
        return await self._publish_to(self._keys.bus_of_all, item)

    async def _publish_to(self, channel: str, item: Item) -> int:
        call = plain(channel, b"SPUBLISH", channel, _encoder.encode((self._node_id, [item])))
        return int(await self._keyspace.one(call))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                outcomes = await asyncio.gather(*(self._send(*pair) for pair in waiting.items()))
                if not all(outcomes):
                    self._keep([pair for pair, is_out in zip(waiting.items(), outcomes, strict=True) if not is_out])
                    await asyncio.sleep(KEYSPACE_RETRY_S)
        finally:
            self._flushing = None

    async def _send(self, node_id: str, items: list[Item]) -> bool:
        """Publish to one node alone: where its keyspace server is down, the other nodes do not hear twice."""
        channel = self._keys.bus(node_id)
        calls = [plain(channel, b"SPUBLISH", channel, one) for one in _payloads(self._node_id, items)]
        try:
            if calls:
                await self._keyspace.run(calls)
        except StoreError as error:
            log.info("publish waits for the keyspace", extra={"to": node_id, "cause": str(error)})
            return False
        return True

    def _keep(self, refused: list[tuple[str, list[Item]]]) -> None:
        """Queue the items again, ahead of newer ones; but drop those that were true for a moment only."""
        for node_id, items in refused:
            lasting = [item for item in (*items, *self._waiting.get(node_id, ())) if not isinstance(item, Signal)]
            if lasting:
                self._waiting[node_id] = lasting[-BUS_WAITING_MAX:]


def _payloads(node_id: str, items: list[Item]) -> list[bytes]:
    """The items in payloads that are small enough: usually one, else halves of halves.

    An item that cannot be encoded is left out alone. The other node reads a missed entry from the log.
    """
    try:
        payload = _encoder.encode((node_id, items))
    except (OverflowError, TypeError, ValueError) as error:
        if len(items) == 1:
            log.error("publish left out", extra={"item": type(items[0]).__name__, "cause": str(error)})
            return []
    else:
        if len(payload) <= BUS_BYTES_MAX or len(items) == 1:
            return [payload]
    middle = len(items) // 2
    return _payloads(node_id, items[:middle]) + _payloads(node_id, items[middle:])
