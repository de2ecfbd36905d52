"""Heartbeat: the loops that renew the leases of a node, take over the work of dead nodes and repair what was missed.

Two loops: one only renews leases, whatever else there is to do; the other does the rest, one thing after the other. The
heartbeat also notices when the node itself was stopped for longer than its lease. Then the node first drops its queued
sends, because other nodes may have taken over, and reads what was not published to it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice

from tidings.bounds import (
    BUS_PROBE_S,
    CLEAR_OPEN_S,
    KEYSPACE_COMMAND_S,
    LEASE_RENEW_S,
    LEASE_S,
    NODE_RENEW_S,
    OPEN_KEPT_S,
)
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.presence.live_status import LiveStatus
from tidings.messaging.send.lanes import Sends
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.takeover import Takeover
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.node.events import Events
from tidings.routing.bus import Bus, Closing, Delivery, Item, Joined, Known, Leave, Pushed, Signal
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.tasks import Loop, to_beat_s

log = logging.getLogger("tidings.node")
_DEAF_S = KEYSPACE_COMMAND_S + 2 * BUS_PROBE_S  # until a subscription that hears nothing is noticed
_SETTLE_S = 2.0  # a node that leaves publishes what it still has for the others, if the keyspace answers
_TOGETHER = 8  # users whose conversations are read at the same time


@dataclass(eq=False, repr=False, kw_only=True)
class Heartbeat:
    hub: Hub
    bus: Bus
    registry: Registry
    router: Router
    deliver: Deliver
    unknown_outcomes: UnknownOutcomes
    open_work: OpenWork
    takeover: Takeover
    sends: Sends
    live_status: LiveStatus
    events: Events
    clock: Clock

    def __post_init__(self) -> None:
        self._missed: dict[str, float] = {}  # user -> entries since then (monotonic) may not have reached this node
        self._suspect_s: float | None = None  # the same for the conversations that this node delivers
        self._rounds = 0
        self._was_gone = False  # our lease was, and not everything that follows from it is done
        self._is_behind = False  # this node was stopped, and does not know yet since when it must read
        self._well_s = self.clock.monotonic_s()  # the last moment when the others knew us and the subscription was up
        self._renewing = Loop("heartbeat", lambda: NODE_RENEW_S, self._beat, is_eager=True)
        self._working = Loop("repair", lambda: NODE_RENEW_S, self._work, is_eager=True)

    async def start(self) -> None:
        """Listen to the other nodes, announce this one, and begin. Before the first connection. Raises StoreError."""
        await self.bus.open(self._take, self._resubscribed)
        try:
            await self.registry.join()
            # The open work of an earlier process of this name is finished before new numbers overwrite its record.
            await self.takeover.finish_own()
        except StoreError:
            await self.bus.close()
            raise
        self._renewing.start()
        self._working.start()

    async def stop(self) -> None:
        """End the loops, after the last connection has closed."""
        await self._renewing.stop()
        await self._working.stop()
        await self.deliver.close()
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self.router.settle()
                await self.bus.settle()
                await self.registry.leave()
        except (StoreError, TimeoutError):
            pass  # the leases run out by themselves, and the other nodes read what was not published
        await self.router.stop()
        await self.bus.close()

    def _take(self, item: Item, node_id: str) -> None:
        if isinstance(item, Delivery):
            self.deliver.take(item, node_id)
        elif isinstance(item, Pushed | Closing):
            self.router.take(item, node_id)
        elif isinstance(item, Signal):
            self.live_status.take(item)
        elif isinstance(item, Leave):
            self.events.leave_requested()
        elif isinstance(item, Joined):
            self.registry.node_joined(item.node_id)
        else:
            assert isinstance(item, Known)
            self.registry.known_by(item.node_id)

    # --- leases -------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        await self._renew(has_connections=self._rounds % round(LEASE_RENEW_S / NODE_RENEW_S) == 0)
        self._rounds += 1

    async def _renew(self, *, has_connections: bool) -> None:
        """Renew the lease of this node, and sometimes those of its connections."""
        began_s = self.clock.monotonic_s()  # this node may be stopped anywhere below
        self._drop_if_stopped()
        self._was_gone |= await self.registry.renew_node() or self._is_behind
        self._is_behind = self._was_gone
        if self._was_gone:
            await self.registry.announce_node()
            self._resubscribed()
        if self._was_gone or has_connections:
            await self.registry.renew(self._lease_lost)
        self._was_gone = self._is_behind = False
        if self.bus.is_up:
            self._well_s = began_s

    def _drop_if_stopped(self) -> None:
        """Drop queued sends after this node was stopped (SIGSTOP, a long pause): others may know it as dead.

        No new entry goes out before the entries that it did not hear of were read."""
        if self.registry.has_lapsed() and not self._is_behind:
            self._is_behind = True
            self.deliver.must_wait()
            if dropped := self.sends.drop_queued():
                log.warning("queued sends dropped", extra={"sends": dropped, "cause": "the node was stopped too long"})

    def _resubscribed(self) -> None:
        """Suspect everything: publishes of the time without a subscription are gone."""
        since_s = self._well_s - _DEAF_S
        self._suspect(since_s)
        for user_id in self.hub.users():
            self._miss(user_id, since_s)

    def _lease_lost(self, user_id: str) -> None:
        self._miss(user_id, self.clock.monotonic_s() - 2 * LEASE_S)

    def _suspect(self, since_s: float) -> None:
        self._suspect_s = since_s if self._suspect_s is None else min(since_s, self._suspect_s)

    def _miss(self, user_id: str, since_s: float) -> None:
        self._missed[user_id] = min(since_s, self._missed.get(user_id, since_s))

    def _since_ms(self, since_s: float) -> int:
        """The lowest date of an entry since then. The server that dates entries may be another one by now."""
        return self.registry.earliest_ms(self.clock.monotonic_s() - since_s)

    # --- repair -------------------------------------------------------------------------------------

    async def _work(self) -> bool:
        """Do every step, though one fails. True when all are done: `_rest` was the pause."""
        steps = {
            "read missed": self._read_missed,
            "take over": self.takeover.finish_dead,
            "finish own": self.takeover.finish_own,
            "index again": self.takeover.index_again,
            "unknown outcomes": self.unknown_outcomes.settle,
            "clear finished": self._rest,
        }
        return all([await self._is_done(*step) for step in steps.items()])

    async def _is_done(self, name: str, step: Callable[[], Awaitable[object]]) -> bool:
        try:
            await step()
        except (StoreError, Problem) as error:
            log.info("repair waits for a store", extra={"step": name, "cause": str(error)})
        except Exception:
            log.exception("repair failed", extra={"step": name})
        else:
            return True
        return False

    async def _rest(self) -> None:
        for _ in range(int(NODE_RENEW_S / CLEAR_OPEN_S)):
            await asyncio.sleep(to_beat_s(CLEAR_OPEN_S))
            await self.open_work.clear_closed(OPEN_KEPT_S)
            await self._read_missed()

    async def _read_missed(self) -> None:
        """Read what may have been missed. A user or a conversation whose read fails stays on the list."""
        if self._missed or self._suspect_s is not None:
            await self.registry.read_clock()
        if self._suspect_s is not None:
            since_s, self._suspect_s = self._suspect_s, None
            try:
                await self.deliver.reread(self._since_ms(since_s))
            except BaseException:
                self._suspect(since_s)
                raise
        while self._missed:
            some = dict(islice(self._missed.items(), _TOGETHER))
            for user_id in some:
                del self._missed[user_id]
            try:
                await asyncio.gather(*(self._refresh(*pair) for pair in some.items()))
            except BaseException:
                for pair in some.items():
                    self._miss(*pair)
                raise
        if self._suspect_s is None and not self._is_behind and not self.registry.has_lapsed():
            self.deliver.catch_up()

    async def _refresh(self, user_id: str, since_s: float) -> None:
        """Check first whether the user may still be connected."""
        await self.events.may_have_missed(user_id)
        await self.deliver.refresh(user_id, self._since_ms(since_s))
