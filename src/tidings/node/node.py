"""Node: a node that listens, from its first byte to SIGTERM: the gateway on top of the core, and the background loops.

`open_node` is an async context, so the command line, tests and benchmarks run the very same node.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tidings.bounds import CLOCKS_APART_S, DRAIN_S
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import StoreError, Unavailable
from tidings.gateway.server import GatewayServer, loop_factory
from tidings.node.gateway import build_gateway
from tidings.node.graph import Core, open_core
from tidings.node.predecessors import read_predecessors, write_predecessors
from tidings.node.siblings import Siblings
from tidings.node.stores import STORE_END_S
from tidings.operators.node_samples import Samples
from tidings.tasks import Ending, Loop

log = logging.getLogger("tidings.node")
PARTS_END_S = 8.0  # of DRAIN_S: the parts of a node end, after its work and before its stores are closed
SWITCH_S = 0.001  # a commit asks for the interpreter some five times; below this a message costs more at full load
TIMER_SLACK_NS = 1_000  # of the threads of a node
END_S = DRAIN_S + 3.0  # from SIGTERM until the process ends by force, because a part or a thread hangs
_NAMED_MAX = 20  # tasks and threads that the last line of a node names
_LAST_WORDS_S = 1.0  # for this line


@dataclass(frozen=True)
class Node:
    """A node that listens."""

    core: Core
    gateway: GatewayServer
    port: int


@asynccontextmanager
async def open_node(
    settings: Settings,
    clock: Clock | None = None,
    sources: Mapping[str, str] | None = None,
    siblings: Siblings | None = None,
    dead: Sequence[str] = (),
) -> AsyncIterator[Node]:
    """Start a node and listen; at the end, drain it and stop. `sources`: where each setting came from.

    `siblings`: the other workers of this port. `dead`: names of nodes that are known to be dead."""
    async with open_core(settings, clock) as core:
        gateway, samples = build_gateway(core, sources, siblings)
        core.events.user_revoked.add(gateway.forget_user)
        core.events.may_have_missed.add(gateway.recheck)
        await _bury(core, dead)
        await core.heartbeat.start()
        try:
            await _check_clock(core)
            await _start(core, samples)
            port = await _listen(gateway.start, settings.host, settings.port, "--port")
            if settings.metrics.port is not None:
                await _listen(gateway.start_metrics, settings.host, settings.metrics.port, "--metrics-port")
            yield Node(core, gateway, port)
        finally:
            await _leave(core, gateway, samples)


async def _start(core: Core, samples: Samples) -> None:
    """Begin the work in the background. Some parts first read what they must know, and raise StoreError."""
    await core.limiting.overrides.start()
    core.blocks.loop.start()
    await core.integration.hooks.start()
    for loop in _loops(core, samples):
        loop.start()
    core.pushing.notify.start()


def _loops(core: Core, samples: Samples) -> list[Loop]:
    limiting = core.limiting
    integration = core.integration
    figures = (limiting.activity, limiting.lags, integration.lag, samples)
    workers = (core.pushing.due, core.cold.archiving, core.scrubber, core.streams, integration.deliveries)
    first = (limiting.audit, limiting.fold, core.searching.indexer, core.timed, core.jobs)
    return [part.loop for part in (*first, *workers, *figures)]


async def _bury(core: Core, dead: Sequence[str]) -> None:
    """End the leases of nodes that are dead: those named, and those that owned the embedded Valkey before."""
    is_owner = core.settings.keyspace == "embedded"
    for node_id in (*dead, *(read_predecessors(core.settings.data) if is_owner else ())):
        await core.registry.bury(node_id)
    if is_owner:
        write_predecessors(core.settings.data, [core.node_id])


async def _check_clock(core: Core) -> None:
    """Log a clock that is off: tokens would expire early or late here. Leases do not depend on it (lease_clock.py)."""
    if core.settings.keyspace == "embedded":
        return  # the clock is the same
    off_s = (core.clock.now_ms() - core.registry.now_ms()) / 1000
    if abs(off_s) > CLOCKS_APART_S:
        fields = {"ahead_s": round(off_s, 1), "cause": "it differs from the keyspace's; set both by NTP"}
        log.warning("this machine's clock is off", extra=fields)


async def _listen(start: Callable[[str, int], Awaitable[int]], host: str, port: int, flag: str) -> int:
    try:
        return await start(host, port)
    except OSError as error:
        why = "the port is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise Unavailable(f"cannot listen on {host}:{port}: {why}; choose with --host and {flag}") from None


async def _leave(core: Core, gateway: GatewayServer, samples: Samples) -> None:
    """Tell the clients, finish the sends under way, write what waits, and end every part: within DRAIN_S.

    An acknowledged message is in the tables, so a part that is left behind loses none."""
    try:
        async with asyncio.timeout(DRAIN_S - PARTS_END_S - STORE_END_S):
            await gateway.drain()
            await core.reactions.drain()
            outcomes = await asyncio.gather(core.sends.drain(), core.receipts.flush(), return_exceptions=True)
            for error in outcomes:
                if isinstance(error, BaseException):
                    raise error
    except (TimeoutError, StoreError) as error:
        log.warning("node left with work unfinished", extra={"cause": str(error) or "out of time"})
    finally:
        ending = Ending(PARTS_END_S)
        for part, end in _ends(core, gateway, samples):
            await ending(part, end)


def _ends(
    core: Core, gateway: GatewayServer, samples: Samples
) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    """The parts in the order of their end: first those that take requests, then those that write, last the leases.

    The stores are closed after all of them: a part that outlived its store would try it for ever."""
    yield "gateway", gateway.stop
    yield "live status", core.live_status.close
    yield "names", core.names.close
    yield "announcements", core.announcements.close
    limiting, integration = core.limiting, core.integration
    for loop in (limiting.overrides.loop, core.blocks.loop, integration.hooks.loop):
        yield loop.name, loop.stop
    if integration.review is not None:
        yield "review", integration.review.close
    for loop in reversed(_loops(core, samples)):
        yield loop.name, loop.stop
    yield "push", core.pushing.notify.stop
    yield "receipts", core.receipts.close
    yield "inbox rows", core.rows.close
    yield "heartbeat", core.heartbeat.stop
    for rebuilds in (core.rebuilds, core.threading.rebuilds, core.large.tallies):
        yield "rebuilds", rebuilds.close


def serve(settings: Settings, on_ready: Callable[[int], None], sources: Mapping[str, str] | None = None) -> int:
    """Run a node until SIGTERM, Ctrl-C or an operator's request. Returns the exit code."""

    async def run() -> int:
        stopped = Stop()
        sharpen_the_timers()
        async with open_node(settings, sources=sources) as node, AsyncExitStack() as extras:
            if settings.dev:
                await extras.enter_async_context(_dev(node))
            node.core.events.leave_requested.add(stopped.set)
            prepare_the_interpreter()
            on_ready(node.port)
            await stopped.wait()
            log.info("draining")
        return 0

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run())


class Stop(asyncio.Event):
    """The order to end: SIGTERM, Ctrl-C or an operator's request. From then on the process has END_S."""

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.set)
        loop.add_signal_handler(signal.SIGHUP, _keep_settings)

    def set(self) -> None:
        if not self.is_set():
            end_by_force(END_S)
        super().set()


def end_by_force(after_s: float) -> None:
    """End the process after this time if it still runs, and say in one line of the log what did not end.

    A thread does it: the event loop itself may hang, and so may a thread that the interpreter waits for."""
    loop, said = asyncio.get_running_loop(), threading.Event()

    def say() -> None:
        tasks = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        threads = sorted(one.name for one in threading.enumerate() if one is not threading.current_thread())
        fields = {"cause": f"not within {after_s:g} s", "tasks": tasks[:_NAMED_MAX], "threads": threads[:_NAMED_MAX]}
        log.critical("node ends by force", extra=fields)
        said.set()

    def watch() -> None:
        threading.Event().wait(after_s)
        threading.Thread(target=say, name="last words", daemon=True).start()
        said.wait(_LAST_WORDS_S)  # a log that nobody reads may hang too
        os._exit(1)

    threading.Thread(target=watch, name="end by force", daemon=True).start()


@asynccontextmanager
async def _dev(node: Node) -> AsyncIterator[None]:
    """Add what --dev has beside open sign-in. The module is loaded here: no other node needs it."""
    from tidings.node import dev

    core = node.core
    await dev.allow_admin_key(core.settings, core.tables.accounts, core.clock)
    async with dev.greeting(core.settings, core.events, core.clock, node.port):
        yield


def _keep_settings() -> None:
    """Survive SIGHUP, which a closed terminal and many a reload command send: its default action is death."""
    log.warning("SIGHUP ignored", extra={"cause": "settings are read at the start only; restart the node for new ones"})


def sharpen_the_timers() -> None:
    """Let the timers of this thread, and of the threads that it starts from now on, fire on time.

    Linux lets a timer be 50 us late. A thread that waits for the interpreter asks for it by a timer, and beside a busy
    loop it comes too late again and again: the loop lets go of the interpreter at each turn, for some microseconds."""
    with suppress(OSError):  # other systems have no such file
        Path("/proc/self/timerslack_ns").write_text(str(TIMER_SLACK_NS), "ascii")


def prepare_the_interpreter() -> None:
    """Make full garbage collections rare, and give the threads of the tables their turns beside a busy loop.

    A collection stops the loop for 10 ms and more per thousand connections, and finds nothing: the parts of a node stay
    for good, and what passes through it makes no cycles. A thread that waits for the interpreter insists on it after
    SWITCH_S in which nobody let go of it. A busy loop lets go for a moment at each poll."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)
    sys.setswitchinterval(SWITCH_S)
