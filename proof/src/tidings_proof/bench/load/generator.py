"""The load generator: sockets of many users in one process, pinned to one core where the machine has several.

It reads a plan from stdin and writes lines to stdout: how far it is, at last what it measured, or why the run counts
for nothing. The window opens after the warm-up; the server's CPU is read at both of its ends, here, so that nothing
else is in it. An answer that is an error or has another number of items than the plan says, a message that comes twice
or never, and a window in which nothing was done fail the run: a wrong answer is never counted as a fast one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec

from tidings.clock import Clock
from tidings.gateway.server import loop_factory
from tidings_proof.bench.load.connections import Tally
from tidings_proof.bench.load.dialects import TIDINGS, Dialect
from tidings_proof.bench.load.loads import Load
from tidings_proof.bench.load.plan import Failure, Measured, Moment, Plan, Progress
from tidings_proof.bench.load.reconnects import load_of
from tidings_proof.bench.load.socketio import SocketIo
from tidings_proof.bench.load.xmpp import Xmpp
from tidings_proof.bench.report.figures import percentile, percentiles
from tidings_proof.bench.target.processes import cpu_s

DRAIN_S = 30.0
TOLD_S = 0.25  # between two lines about how far it is
MOMENTS = 40  # of a window, about
DIALECTS: dict[str, Dialect] = {"tidings": TIDINGS, "socketio": SocketIo(), "xmpp": Xmpp()}
SHARES = tuple(percent / 100 for percent in range(101))

Tell = Callable[[Progress], None]


async def run(plan: Plan, tell: Tell = lambda progress: None) -> Measured:
    tally = Tally()
    load = load_of(plan.load, tally, DIALECTS[plan.dialect])
    tell(Progress("opening"))
    await load.open(plan.url)
    is_warmed = plan.warm_up_s > 0 and not plan.is_once
    if is_warmed:
        load.start()
        tell(Progress("warm-up", share=0.0))
        await passed(tally, asyncio.sleep(plan.warm_up_s))
        tally.clear()
    window = Window(plan, tally, tell)
    watching = asyncio.create_task(window.watch(), name="watch")
    if not is_warmed:  # then everything counts, from the first on
        load.start()
    await passed(tally, load.finished() if plan.is_once else asyncio.sleep(plan.seconds))
    measured = window.close()
    watching.cancel()
    tell(Progress("finishing", measured.units, 1.0))
    await drain(load, tally)
    if measured.units == 0:
        raise RuntimeError("nothing was done in the window")
    return measured


class Window:
    """The time that counts: open from the beginning, closed once."""

    def __init__(self, plan: Plan, tally: Tally, tell: Tell) -> None:
        self._plan = plan
        self._tally = tally
        self._tell = tell
        self._moments: list[Moment] = []
        self._seen = (0.0, 0, 0)  # when the last moment ended, and how many units and latencies there were
        self._cpu_s, self._own_s, self._began_s = cpu_s(plan.parts), time.process_time(), tally.now_s()

    async def watch(self) -> None:
        """Moments, and how far it is."""
        slice_s = max(TOLD_S, self._plan.seconds / MOMENTS)
        while True:
            await asyncio.sleep(slice_s)
            self._keep_moment()
            self._tell(Progress("measuring", self._tally.units, self._share()))

    def _share(self) -> float | None:
        whole_s = self._plan.warm_up_s + self._plan.seconds
        if self._plan.is_once or not whole_s:
            return None
        return min(1.0, (self._plan.warm_up_s + self._tally.now_s() - self._began_s) / whole_s)

    def _keep_moment(self) -> None:
        from_s, units, latencies = self._seen
        at_s, tally = self._tally.now_s() - self._began_s, self._tally
        p50_ms, p99_ms = (one * 1000 for one in percentiles(tally.latencies_s[latencies:], (0.5, 0.99)))
        self._moments.append(Moment(at_s, (tally.units - units) / (at_s - from_s), p50_ms, p99_ms))
        self._seen = (at_s, tally.units, len(tally.latencies_s))

    def close(self) -> Measured:
        tally, seconds = self._tally, self._tally.now_s() - self._began_s
        if seconds - self._seen[0] >= TOLD_S / 2 or not self._moments:
            self._keep_moment()
        used_s, own_s = cpu_s(self._plan.parts), time.process_time()
        quantiles_ms = [one * 1000 for one in percentiles(tally.latencies_s, SHARES)]
        return Measured(
            units=tally.units,
            seconds=seconds,
            cpu_s={name: used_s[name] - self._cpu_s[name] for name in used_s},
            p50_ms=quantiles_ms[50],
            p95_ms=quantiles_ms[95],
            p99_ms=quantiles_ms[99],
            late_p99_ms=percentile(tally.late_s, 0.99) * 1000,
            generator_share=(own_s - self._own_s) / seconds,
            refused=tally.refused,
            quantiles_ms=quantiles_ms,
            moments=self._moments,
        )


async def drain(load: Load, tally: Tally) -> None:
    """Wait until everything that was begun has ended, however late."""
    load.stop()
    clock = Clock()
    deadline_s = clock.monotonic_s() + DRAIN_S
    while load.under_way() and clock.monotonic_s() < deadline_s and not tally.failed.done():
        await asyncio.sleep(0.02)
    if tally.failed.done():
        await tally.failed
    if load.under_way():
        raise RuntimeError(f"{load.under_way()} did not come to their end within {DRAIN_S:g} s")


async def passed(tally: Tally, until: Awaitable[object]) -> None:
    """Until it is over, or the load has failed."""
    task = asyncio.ensure_future(until)
    await asyncio.wait((task, tally.failed), return_when=asyncio.FIRST_COMPLETED)
    if tally.failed.done():
        task.cancel()
        await tally.failed
    await task


def main() -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(cores) > 1:
        os.sched_setaffinity(0, {max(cores)})
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            write(runner.run(run(plan, write)))
    except (RuntimeError, OSError, TimeoutError) as error:
        write(Failure(str(error) or type(error).__name__))
    except KeyboardInterrupt:  # Ctrl-C is for whoever started us, too
        raise SystemExit(1) from None


def write(line: Progress | Measured | Failure) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
