"""An event to every device of a user, wherever it is connected: local sockets at once, other nodes through the bus.

For everything but entries, whose nodes come with the index call (messaging/deliver.py). What is queued in one turn is
looked up together, and waits in its order while the keyspace is down. A lost event is harmless: each is either repeated
by the next one or read again by the client. Receipts of one member may come from several nodes and cross on the way:
none goes out lower than one before it. A close is told to every node, so that it depends on no lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidings.bounds import BUS_WAITING_MAX, KEYSPACE_RETRY_S, TICKS_KNOWN_MAX
from tidings.errors import Close, StoreError
from tidings.model import Event, ReadSynced, Receipt
from tidings.routing.bus import Bus, Closing, Item, Pushed
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry

log = logging.getLogger("tidings.router")


class Router:
    def __init__(self, hub: Hub, registry: Registry, bus: Bus) -> None:
        self._hub = hub
        self._registry = registry
        self._bus = bus
        self._waiting: list[tuple[str, Item]] = []
        self._sending: asyncio.Task[None] | None = None
        self.on_counts: Callable[[str, str, str], None] = lambda user_id, conversation_id, node_id: None  # crossings.py
        self.on_revoked: Callable[[str], None] = lambda user_id: None  # what is remembered of the user is out of date
        self._known: dict[tuple[str, str], Receipt] = {}  # (conversation, member) -> the highest marks seen here

    def push(self, user_id: str, event: Event, *, but: str | None = None) -> None:
        """Never blocks. `but`: the connection that caused it."""
        event = self._forward(event)
        self._hub.push(user_id, event, but=but)
        if type(event) is ReadSynced and self._registry.has_others:
            self.on_counts(user_id, event.state.conversation_id, "")
        self._elsewhere(user_id, Pushed(user_id, event, but))

    def may_reach(self, user_id: str) -> bool:
        """Is it worth making an event? Not for a user who has no connection here while we are alone."""
        return self._registry.has_others or bool(self._hub.of_user(user_id))

    def has_told(self, receipt: Receipt) -> bool:
        """Whether one as high has passed this node."""
        known = self._known.get((receipt.conversation_id, receipt.user_id))
        return known is not None and known.delivered_seq >= receipt.delivered_seq and known.read_seq >= receipt.read_seq

    def close(self, user_id: str, code: Close) -> None:
        """Every connection of a user, on every node."""
        for outbound in list(self._hub.of_user(user_id)):
            outbound.close(code)
        for node_id in self._registry.others:
            self._bus.post(node_id, Closing(code, user_id))

    async def settle(self) -> None:
        """Returns when every event is on the bus."""
        while self._sending is not None:
            await asyncio.wait([self._sending])

    def take(self, item: Pushed | Closing, node_id: str) -> None:
        """What another node has for ours."""
        if isinstance(item, Pushed):
            self._hub.push(item.user_id, self._forward(item.event), but=item.but)
            if type(item.event) is ReadSynced:
                self.on_counts(item.user_id, item.event.state.conversation_id, node_id)
            return
        if item.code == Close.REVOKED:
            self.on_revoked(item.user_id)
        for outbound in list(self._hub.of_user(item.user_id)):
            if item.connection_id in (None, outbound.connection_id):
                outbound.close(Close(item.code))

    def _forward(self, event: Event) -> Event:
        if type(event) is not Receipt:
            return event
        key = (event.conversation_id, event.user_id)
        known = self._known.pop(key, event)
        delivered, read = max(event.delivered_seq, known.delivered_seq), max(event.read_seq, known.read_seq)
        newest = self._known[key] = Receipt(event.conversation_id, event.user_id, delivered, read)
        if len(self._known) > TICKS_KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return newest

    def _elsewhere(self, user_id: str, item: Item) -> None:
        if not self._registry.has_others:
            return
        self._waiting.append((user_id, item))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send(), name="router")

    async def _send(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._post(waiting)
                except StoreError as error:
                    log.info("events not routed yet: %s", error)
                    self._waiting = (waiting + self._waiting)[-BUS_WAITING_MAX:]
                    await asyncio.sleep(KEYSPACE_RETRY_S)
        finally:
            self._sending = None

    async def _post(self, waiting: list[tuple[str, Item]]) -> None:
        nodes = await self._registry.nodes_of({user_id for user_id, _ in waiting})
        for node_id, user_ids in nodes.items():
            for user_id, item in waiting:
                if user_id in user_ids:
                    self._bus.post(node_id, item)
