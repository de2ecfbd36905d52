"""Router: an event to every device of a user, on whichever node it is connected.

It is for everything but entries: their nodes come with the index call (deliver/route.py). Connections of this node get
the event at once, other nodes through the bus. The events of one turn of the loop ask for their leases together, and
keep their order while the keyspace is down. A lost event is harmless: the next one repeats it, or the client reads it
again. Receipts of one member may come from several nodes and cross on the way, so none is pushed lower than one before
it. A close is published to every node, so that it depends on no lease.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from tidings.bounds import BUS_WAITING_MAX, KEYSPACE_RETRY_S, RECEIPTS_KNOWN_MAX
from tidings.errors import Close, StoreError
from tidings.model import ReadState
from tidings.pushes import Event, ReadSynced, Receipt
from tidings.routing.bus import Bus, Closing, Item, Pushed
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.tasks import Listeners, Recent, cancel

log = logging.getLogger("tidings.router")


@dataclass(eq=False, repr=False)
class Router:
    """`counts_pushed` and `user_revoked` are the events of this node that the router causes."""

    hub: Hub
    registry: Registry
    bus: Bus
    counts_pushed: Listeners[[str, str, str]]
    user_revoked: Listeners[[str]]

    def __post_init__(self) -> None:
        self._waiting: list[tuple[str, Item]] = []
        self._sending: asyncio.Task[None] | None = None
        self._known = Recent[tuple[str, str], Receipt](RECEIPTS_KNOWN_MAX)  # by (conversation, member): the highest

    def push(self, user_id: str, event: Event, *, but: str | None = None) -> None:
        """Push to every device of a user. Never blocks. `but`: the connection that caused the event."""
        event = self._forward(event)
        self.hub.push(user_id, event, but=but)
        if type(event) is ReadSynced and self.registry.has_others:
            self.counts_pushed(user_id, _counted_id(event.state), "")
        self._elsewhere(user_id, Pushed(user_id, event, but))

    def may_reach(self, user_id: str) -> bool:
        """False for a user who is connected nowhere: then no event needs to be made."""
        return self.registry.has_others or bool(self.hub.of_user(user_id))

    def has_pushed(self, receipt: Receipt) -> bool:
        """True when a receipt at least as high has passed this node."""
        known = self._known.get((receipt.conversation_id, receipt.user_id))
        return known is not None and known.delivered_seq >= receipt.delivered_seq and known.read_seq >= receipt.read_seq

    def close(self, user_id: str, code: Close) -> None:
        """Close every connection of a user, on every node."""
        for connection in list(self.hub.of_user(user_id)):
            connection.close(code)
        for node_id in self.registry.others:
            self.bus.publish(node_id, Closing(code, user_id))

    async def settle(self) -> None:
        """Returns when every event is on the bus."""
        while self._sending is not None:
            await asyncio.wait([self._sending])

    async def stop(self) -> None:
        """End the task that publishes. The other nodes read what was not published."""
        await cancel(self._sending)

    def take(self, item: Pushed | Closing, node_id: str) -> None:
        """Carry out what another node published to this one."""
        if isinstance(item, Pushed):
            self.hub.push(item.user_id, self._forward(item.event), but=item.but)
            if type(item.event) is ReadSynced:
                self.counts_pushed(item.user_id, _counted_id(item.event.state), node_id)
            return
        if item.code == Close.REVOKED:
            self.user_revoked(item.user_id)
        for connection in list(self.hub.of_user(item.user_id)):
            if item.connection_id in (None, connection.connection_id):
                connection.close(Close(item.code))

    def _forward(self, event: Event) -> Event:
        if type(event) is not Receipt:
            return event
        key = (event.conversation_id, event.user_id)
        known = self._known.get(key, event)
        delivered, read = max(event.delivered_seq, known.delivered_seq), max(event.read_seq, known.read_seq)
        newest = Receipt(event.conversation_id, event.user_id, delivered, read)
        self._known.put(key, newest)
        return newest

    def _elsewhere(self, user_id: str, item: Item) -> None:
        if not self.registry.has_others:
            return
        self._waiting.append((user_id, item))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send(), name="router")

    async def _send(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._publish(waiting)
                except StoreError as error:
                    log.info("events wait for the keyspace", extra={"op": "read leases", "cause": str(error)})
                    self._waiting = (waiting + self._waiting)[-BUS_WAITING_MAX:]
                    await asyncio.sleep(KEYSPACE_RETRY_S)
        finally:
            self._sending = None

    async def _publish(self, waiting: list[tuple[str, Item]]) -> None:
        nodes = await self.registry.nodes_of({user_id for user_id, _ in waiting})
        for node_id, user_ids in nodes.items():
            for user_id, item in waiting:
                if user_id in user_ids:
                    self.bus.publish(node_id, item)


def _counted_id(state: ReadState) -> str:
    """The conversation or the thread whose counts these are."""
    in_thread = "" if state.thread_seq is None else f"/{state.thread_seq}"
    return state.conversation_id + in_thread
