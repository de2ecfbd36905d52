"""The load generator: sockets of many users in one process, pinned to one core where the machine has several.

It reads a plan from stdin and writes what it measured to stdout. The window opens after the warm-up; the server's CPU
is read at both of its ends, here, so that nothing else is in it. An answer that is an error or has another number of
items than the plan says, a message that comes twice or never, and a window in which nothing was done end the run: a
wrong answer is never counted as a fast one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable

import msgspec
import uvloop

from bench.common import cpu_s, percentile
from bench.connections import Tally
from bench.loads import Load, load_of
from bench.plan import Measured, Plan, Readers

DRAIN_S = 30.0


async def run(plan: Plan) -> Measured:
    tally = Tally()
    load = load_of(plan.load, tally)
    await load.open(plan.port)
    is_once = isinstance(plan.load, Readers) and plan.load.is_once
    if not is_once:
        load.start()
        await passed(tally, asyncio.sleep(plan.warm_up_s))
        tally.clear()
    server_s, own_s, began_s = cpu_s(plan.parts), time.process_time(), time.perf_counter()
    if is_once:
        load.start()
    await passed(tally, load.finished() if is_once else asyncio.sleep(plan.seconds))
    seconds = time.perf_counter() - began_s
    server_end_s, own_end_s = cpu_s(plan.parts), time.process_time()
    measured = Measured(
        units=tally.units,
        seconds=seconds,
        cpu_s={name: server_end_s[name] - server_s[name] for name in server_s},
        p50_ms=percentile(tally.latencies_s, 0.5) * 1000,
        p99_ms=percentile(tally.latencies_s, 0.99) * 1000,
        late_p99_ms=percentile(tally.late_s, 0.99) * 1000,
        generator_share=(own_end_s - own_s) / seconds,
    )
    await drain(load, tally)
    if measured.units == 0:
        raise RuntimeError("nothing was done in the window")
    return measured


async def drain(load: Load, tally: Tally) -> None:
    """What was begun must come to its end, however late."""
    load.stop()
    deadline_s = time.perf_counter() + DRAIN_S
    while load.under_way() and time.perf_counter() < deadline_s and not tally.failed.done():
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
        await tally.failed


def main() -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, {max(cores)})
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    try:
        measured = uvloop.run(run(plan))
    except RuntimeError as error:
        raise SystemExit(f"generator: {error}") from None
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
