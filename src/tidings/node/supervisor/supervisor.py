"""Supervisor: keeps N workers on one port alive, owns the embedded Valkey, and drains or replaces them on a signal.

Two invariants. A worker that ends is started again at once, and its replacement ends the lease of the dead node, so
that another node finishes its open work. And a worker that keeps dying stops everything with one line that says why:
a machine that restarts a broken worker for ever looks healthy and is not.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import msgspec

from tidings.bounds import WORKER_DEATHS_MAX, WORKER_DEATHS_S, WORKER_RETRY_S
from tidings.clock import Clock
from tidings.config.settings import Loaded, Settings
from tidings.config.values import SettingsError
from tidings.errors import Unavailable
from tidings.gateway.server import loop_factory
from tidings.node.predecessors import read_predecessors, write_predecessors
from tidings.node.stores import protect
from tidings.node.supervisor.child import Child
from tidings.node.supervisor.ports import KeptPort
from tidings.node.supervisor.worker import Order
from tidings.stores.keyspace.embedded import EmbeddedValkey
from tidings.tasks import TaskSet
from tidings.telemetry.merging import counts_of, merge

log = logging.getLogger("tidings.supervisor")
KEPT = ("host", "port", "workers", "data", "keyspace", "metrics")  # settings that need a restart of the supervisor


class Supervisor:
    """`read` loads the settings again after SIGHUP."""

    def __init__(self, loaded: Loaded, read: Callable[[], Loaded], clock: Clock) -> None:
        self._loaded = loaded
        self._read = read
        self._clock = clock
        self._shared: dict[str, object] = {}  # values of settings that all workers share: ports and the Valkey
        self._places: dict[int, Child] = {}  # the worker of each number
        self._living: set[Child] = set()  # these, and workers that start or leave
        self._launched = itertools.count(1)
        self._deaths: dict[int, deque[float]] = {}
        self._past = ""  # the counts of workers that ended
        self._tasks = TaskSet(2 * self._settings.workers + 4)
        self._rolling = asyncio.Lock()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def _settings(self) -> Settings:
        return self._loaded.settings

    async def run(self, on_ready: Callable[[Settings, int], None]) -> None:
        """Serve until a signal. Raises Unavailable when a worker cannot start or keeps dying."""
        self._listen_to_signals()
        async with AsyncExitStack() as stack:
            port = self._keep_ports(stack)
            await self._own_valkey(stack)
            stack.push_async_callback(self._stop_children)
            await self._start_all()
            on_ready(self._settings, port)
            await self._stopped

    # --- start and end ------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._tasks.run(self._replace_all(), "replace workers"))

    def _stop(self, error: Exception | None = None) -> None:
        if not self._stopped.done():
            self._stopped.set_exception(error) if error else self._stopped.set_result(None)

    def _keep_ports(self, stack: AsyncExitStack) -> int:
        settings = self._settings
        main = KeptPort(settings.host, settings.port, "--port")
        stack.callback(main.close)
        self._shared = {"port": main.number}
        if settings.metrics.port is not None:
            metrics = KeptPort(settings.host, settings.metrics.port, "--metrics-port")
            stack.callback(metrics.close)
            self._shared["metrics"] = replace(settings.metrics, port=metrics.number)
        return main.number

    async def _own_valkey(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        protect(settings.data)
        if settings.keyspace == "embedded":
            valkey = await EmbeddedValkey.start(settings.data, self._clock)
            stack.push_async_callback(valkey.stop)
            self._shared["keyspace"] = valkey.url

    async def _start_all(self) -> None:
        """Start the first worker alone: it may have to make or upgrade the tables, and it may fail with a reason."""
        is_owner = self._settings.keyspace == "embedded"
        first = await self._launch(1, read_predecessors(self._settings.data) if is_owner else ())
        if not await first.wait_ready():
            raise Unavailable(first.reason or f"the first worker did not start ({first.last_words()})")
        numbers = range(2, self._settings.workers + 1)
        rest = await asyncio.gather(*(self._launch(number) for number in numbers))
        await asyncio.gather(*(child.wait_ready() for child in rest))

    async def _stop_children(self) -> None:
        await self._tasks.close()
        log.info("draining", extra={"workers": len(self._living)})
        await asyncio.gather(*(child.stop() for child in self._living))

    # --- one worker ---------------------------------------------------------------------------------

    async def _launch(self, number: int, dead: Iterable[str] = ()) -> Child:
        """Start a process and give it the place of that number."""
        child = self._new_child(number, dead)
        await self._begin(child)
        self._places[number] = child
        return child

    def _new_child(self, number: int, dead: Iterable[str] = ()) -> Child:
        settings = self._settings
        node = replace(settings.node, id=f"{settings.node.id}-{next(self._launched)}")
        own: dict[str, Any] = {"node": node, **self._shared}
        order = Order(replace(settings, **own), self._loaded.sources, tuple(dead))
        return Child(number, order, self.answer)

    async def _begin(self, child: Child) -> None:
        await child.start()
        self._living.add(child)
        self._tasks.run(self._watch(child), f"watch worker {child.number}")
        if self._settings.keyspace == "embedded":
            write_predecessors(self._settings.data, [one.node_id for one in self._living])

    async def _watch(self, child: Child) -> None:
        """Wait for the end of the worker, and start another in its place."""
        await child.wait_ended()
        self._past, child.page = merge([self._past, counts_of(child.page)]), ""
        self._living.discard(child)
        if self._stopped.done() or self._places.get(child.number) is not child:
            return
        words = {"worker": child.number, "pid": child.pid, "cause": child.last_words()}
        if child.is_store_down:
            log.warning("worker waits for a store", extra=words)
            await asyncio.sleep(WORKER_RETRY_S)
        elif not child.has_left:
            log.error("worker died", extra=words)
            if self._keeps_dying(child.number):
                often = f"worker {child.number} died {WORKER_DEATHS_MAX} times within {WORKER_DEATHS_S:g} s"
                self._stop(Unavailable(f"{often}, so all workers stop; the last time: {child.last_words()}"))
                return
        await self._launch_again(child)

    async def _launch_again(self, dead: Child) -> None:
        while not self._stopped.done():
            try:
                await self._launch(dead.number, [dead.node_id])
                return
            except OSError as error:  # the machine has no process or no memory left for it
                log.error("worker cannot be started", extra={"worker": dead.number, "cause": str(error)})
                await asyncio.sleep(WORKER_RETRY_S)

    def _keeps_dying(self, number: int) -> bool:
        now_s = self._clock.monotonic_s()
        deaths = self._deaths.setdefault(number, deque(maxlen=WORKER_DEATHS_MAX))
        deaths.append(now_s)
        return len(deaths) == WORKER_DEATHS_MAX and now_s - deaths[0] <= WORKER_DEATHS_S

    # --- SIGHUP -------------------------------------------------------------------------------------

    async def _replace_all(self) -> None:
        """Read the settings again and replace the workers one after the other: the new one listens before the old
        one drains. Settings that cannot be read, and a worker that does not start, leave the old workers as they are.
        """
        async with self._rolling:
            try:
                self._loaded = self._read_again()
            except (SettingsError, OSError) as error:
                log.error("settings not changed", extra={"cause": str(error)})
                return
            for number in sorted(self._places):
                if self._stopped.done() or not await self._replace(number):
                    return
            log.info("workers replaced", extra={"workers": len(self._places)})

    def _read_again(self) -> Loaded:
        new, old = self._read(), self._settings
        if changed := [name for name in KEPT if getattr(new.settings, name) != getattr(old, name)]:
            log.warning("settings kept until a restart", extra={"settings": ", ".join(changed)})
        kept = {name: getattr(old, name) for name in (*KEPT, "node")}
        return Loaded(replace(new.settings, **kept), new.sources)

    async def _replace(self, number: int) -> bool:
        """False: the new worker did not start, so the old one stays."""
        new = self._new_child(number)
        await self._begin(new)
        if not await new.wait_ready():
            log.error("worker not replaced", extra={"worker": number, "cause": new.last_words()})
            return False
        old, self._places[number] = self._places[number], new
        await old.stop()
        return True

    # --- what workers ask -----------------------------------------------------------------------------

    async def answer(self, what: str) -> str:
        """Answer for all workers: `states` by number, or one `page` of metrics."""
        if what == "states":
            children = sorted(self._places.values(), key=lambda child: child.number)
            states = await asyncio.gather(*(child.state() for child in children))
            return msgspec.json.encode({str(c.number): s for c, s in zip(children, states, strict=True)}).decode()
        pages = await asyncio.gather(*(child.read_page() for child in list(self._living)))
        return merge([*pages, self._past])


def supervise(loaded: Loaded, read: Callable[[], Loaded], on_ready: Callable[[Settings, int], None]) -> int:
    """Run the workers until SIGTERM or Ctrl-C. Returns the exit code."""

    async def run() -> int:
        await Supervisor(loaded, read, Clock()).run(on_ready)
        return 0

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run())
