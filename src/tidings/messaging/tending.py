"""What a node does beside answering: renew its leases, finish the work of dead nodes, read what it may have missed.

Two tasks: one says that the node lives, whatever else there is to do; the other works, one thing after the other. It
also notices when the node itself was stopped for longer than its lease: what waits in the lanes then is dropped before
anything else, because others may have gone on in its place, and what they did not tell us meanwhile is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice

from tidings.bounds import (
    BUS_PROBE_S,
    CLEAR_OPEN_S,
    KEYSPACE_COMMAND_S,
    LEASE_RENEW_S,
    LEASE_S,
    NODE_LEASE_S,
    NODE_RENEW_S,
    OPEN_KEPT_S,
)
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.deliver import Deliver
from tidings.messaging.doubts import Doubts
from tidings.messaging.repair import Repair
from tidings.messaging.send import Sends
from tidings.messaging.signals import Signals
from tidings.routing.bus import Bus, Closing, Delivery, Item, Joined, Known, Leave, Pushed, Signal
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router

log = logging.getLogger("tidings.node")
_DEAF_MS = int((KEYSPACE_COMMAND_S + 2 * BUS_PROBE_S) * 1000)  # until a subscription that hears nothing is found out
_SETTLE_S = 2.0  # a node that leaves tells the others what it still has for them, if they can be told
_TOGETHER = 8  # users whose conversations are read at the same time


class Tending:
    def __init__(
        self,
        *,
        hub: Hub,
        bus: Bus,
        registry: Registry,
        router: Router,
        deliver: Deliver,
        doubts: Doubts,
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
        self._doubts = doubts
        self._repair = repair
        self._sends = sends
        self._signals = signals
        self._clock = clock
        self._missed: dict[str, int] = {}  # user -> entries since then may have passed by
        self._suspect_ms: int | None = None  # the same for the streams of this node
        self._renewed_s = clock.monotonic_s()
        self._was_gone = False  # our lease was, and not everything that follows from it is done
        self._well_ms = clock.now_ms()  # the last moment when the others knew us and the subscription stood
        self._tasks: list[asyncio.Task[None]] = []
        self.on_leave: Callable[[], None] = lambda: None  # an operator wants the node to go
        self.on_missed: Callable[[str], Awaitable[None]] = _nothing  # a word to close a user may have passed by

    async def start(self) -> None:
        """Listen to the others, tell them, and begin. Before the first socket."""
        await self._bus.open(self._take, self._resubscribed)
        try:
            await self._registry.join()
        except StoreError:
            await self._bus.close()
            raise
        # What an earlier life under this name left undone, before new numbers take the place of its own on record.
        await self._repair.finish_own()
        self._renewed_s = self._clock.monotonic_s()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._beat(), name="beat"), loop.create_task(self._work(), name="tending")]

    async def stop(self) -> None:
        """After the last socket."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._deliver.close()
        try:
            async with asyncio.timeout(_SETTLE_S):
                await self._router.settle()
                await self._bus.settle()
                await self._registry.leave()
        except (StoreError, TimeoutError):
            pass  # the leases run out by themselves, and what was not told is read
        await self._bus.close()

    def _take(self, item: Item, node_id: str) -> None:
        if isinstance(item, Delivery):
            self._deliver.take(item, node_id)
        elif isinstance(item, Pushed | Closing):
            self._router.take(item, node_id)
        elif isinstance(item, Signal):
            self._signals.take(item)
        elif isinstance(item, Leave):
            self.on_leave()
        elif isinstance(item, Joined):
            self._registry.heard_of(item.node_id)
        else:
            assert isinstance(item, Known)
            self._registry.known_to(item.node_id)

    # --- that it lives ------------------------------------------------------------------------------

    async def _beat(self) -> None:
        rounds = 0
        while True:
            try:
                await self._renew(is_turn=rounds % round(LEASE_RENEW_S / NODE_RENEW_S) == 0)
                rounds += 1
            except (StoreError, Problem) as error:
                log.info("leases wait for the keyspace: %s", error)
            except Exception:
                log.exception("renewing leases failed")
            await asyncio.sleep(NODE_RENEW_S)

    async def _renew(self, *, is_turn: bool) -> None:
        self._drop_if_stopped()
        self._was_gone |= await self._registry.renew_node()
        self._renewed_s = self._clock.monotonic_s()
        if self._was_gone:
            await self._registry.tell_others()
            self._resubscribed()
        if self._was_gone or is_turn:
            await self._registry.renew(self._lease_lost)
        self._was_gone = False
        if self._bus.is_up:
            self._well_ms = self._clock.now_ms()

    def _drop_if_stopped(self) -> None:
        """A node that was stopped (SIGSTOP, a long pause) does not send what it had queued: it may be known as dead."""
        if self._clock.monotonic_s() - self._renewed_s > NODE_LEASE_S:
            dropped = self._sends.drop_queued()
            self._renewed_s = self._clock.monotonic_s()
            if dropped:
                log.warning("the node was stopped for longer than its lease; dropped=%d", dropped)

    def _resubscribed(self) -> None:
        """What was published meanwhile is gone: everybody here may have missed it."""
        since_ms = self._well_ms - _DEAF_MS
        self._suspect(since_ms)
        for user_id in self._hub.users():
            self._miss(user_id, since_ms)

    def _lease_lost(self, user_id: str) -> None:
        self._miss(user_id, self._clock.now_ms() - int(2 * LEASE_S * 1000))

    def _suspect(self, since_ms: int) -> None:
        self._suspect_ms = min(since_ms, self._suspect_ms or since_ms)

    def _miss(self, user_id: str, since_ms: int) -> None:
        self._missed[user_id] = min(since_ms, self._missed.get(user_id, since_ms))

    # --- what there is to do ------------------------------------------------------------------------

    async def _work(self) -> None:
        """What cannot be done now does not keep the rest from being done."""
        steps = (
            self._read_missed,
            self._repair.finish_dead,
            self._repair.finish_own,
            self._doubts.settle,
            self._rest,
        )
        while True:
            done = [await self._is_done(step) for step in steps]
            if not all(done):
                await asyncio.sleep(NODE_RENEW_S)

    async def _is_done(self, step: Callable[[], Awaitable[object]]) -> bool:
        try:
            await step()
        except (StoreError, Problem) as error:
            log.info("tending waits for the stores: %s", error)
        except Exception:
            log.exception("tending failed")
        else:
            return True
        return False

    async def _rest(self) -> None:
        for _ in range(int(NODE_RENEW_S / CLEAR_OPEN_S)):
            await asyncio.sleep(CLEAR_OPEN_S)
            await self._repair.clear_finished(OPEN_KEPT_S)
            await self._read_missed()

    async def _read_missed(self) -> None:
        """What fails stays on the list."""
        if self._suspect_ms is not None:
            since_ms, self._suspect_ms = self._suspect_ms, None
            try:
                await self._deliver.reread(since_ms)
            except BaseException:
                self._suspect(since_ms)
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

    async def _refresh(self, user_id: str, since_ms: int) -> None:
        """First whether they may still be here."""
        await self.on_missed(user_id)
        await self._deliver.refresh(user_id, since_ms)


async def _nothing(user_id: str) -> None:
    pass
