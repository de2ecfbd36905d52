"""What a node does beside answering: renew its leases, finish the work of dead nodes, read what it may have missed.

One task, so that these never run over each other. It also notices when the node itself was stopped for longer than its
lease: what waits in the lanes then is dropped before anything else, because others may have gone on in its place.
"""

from __future__ import annotations

import asyncio
import logging

from tidings.bounds import CLEAR_OPEN_S, LEASE_RENEW_S, LEASE_S, NODE_LEASE_S, NODE_RENEW_S, OPEN_KEPT_S
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.deliver import Deliver
from tidings.messaging.repair import Repair
from tidings.messaging.send import Sends
from tidings.messaging.signals import Signals
from tidings.routing.bus import Bus, Closing, Delivery, Item, Joined, Pushed, Signal
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router

log = logging.getLogger("tidings.node")


class Tending:
    def __init__(
        self,
        *,
        hub: Hub,
        bus: Bus,
        registry: Registry,
        router: Router,
        deliver: Deliver,
        repair: Repair,
        sends: Sends,
        signals: Signals,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._bus = bus
        self._registry = registry
        self._router = router
        self._deliver = deliver
        self._repair = repair
        self._sends = sends
        self._signals = signals
        self._clock = clock
        self._missed: dict[str, int] = {}  # user -> entries since then may have passed by
        self._renewed_s = clock.monotonic_s()
        self._heard_ms = clock.now_ms()  # the last moment we know the subscription stood
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen to the others, tell them, and begin. Before the first socket."""
        await self._bus.open(self._take, self._resubscribed)
        await self._registry.join()
        self._renewed_s = self._clock.monotonic_s()
        self._task = asyncio.get_running_loop().create_task(self._tend(), name="tending")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._bus.close()
        try:
            await self._registry.leave()
        except StoreError:
            pass  # the lease runs out by itself

    def _take(self, item: Item) -> None:
        if isinstance(item, Delivery):
            self._deliver.take(item)
        elif isinstance(item, Pushed | Closing):
            self._router.take(item)
        elif isinstance(item, Signal):
            self._signals.take(item)
        else:
            assert isinstance(item, Joined)
            self._registry.heard_of(item.node_id)

    def _resubscribed(self) -> None:
        """What was published meanwhile is gone: everybody here may have missed it."""
        for user_id in self._hub.users():
            self._missed.setdefault(user_id, self._heard_ms)

    def _lease_lost(self, user_id: str) -> None:
        self._missed.setdefault(user_id, self._clock.now_ms() - int(2 * LEASE_S * 1000))

    async def _tend(self) -> None:
        rounds = 0
        while True:
            try:
                self._drop_if_stopped()
                await self._registry.renew_node()
                self._renewed_s = self._clock.monotonic_s()
                if rounds % round(LEASE_RENEW_S / NODE_RENEW_S) == 0:
                    await self._registry.renew(self._lease_lost)
                rounds += 1
                await self._repair.finish_dead()
                await self._repair.finish_own()
                await self._read_missed()
                await self._pause()
            except (StoreError, Problem) as error:
                log.info("tending waits for the stores: %s", error)
                await asyncio.sleep(NODE_RENEW_S)

    async def _pause(self) -> None:
        for _ in range(int(NODE_RENEW_S / CLEAR_OPEN_S)):
            await asyncio.sleep(CLEAR_OPEN_S)
            self._drop_if_stopped()
            await self._repair.clear_finished(OPEN_KEPT_S)
            if self._bus.is_up:
                self._heard_ms = self._clock.now_ms()
            if self._missed:
                await self._read_missed()

    def _drop_if_stopped(self) -> None:
        """A node that was stopped (SIGSTOP, a long pause) does not send what it had queued: it may be known as dead."""
        if self._clock.monotonic_s() - self._renewed_s > NODE_LEASE_S:
            dropped = self._sends.drop_queued()
            self._renewed_s = self._clock.monotonic_s()
            if dropped:
                log.warning("the node was stopped for longer than its lease; dropped=%d", dropped)

    async def _read_missed(self) -> None:
        missed, self._missed = self._missed, {}
        for user_id, since_ms in missed.items():
            await self._deliver.refresh(user_id, since_ms - 1000)
