"""Load of a keyspace server: CPU of its main thread, network and I/O threads, with a verdict on what would help.

Commands run on the main thread alone. A busy server is helped by shards where commands fill the thread, and by I/O
threads where the thread mostly reads and writes sockets. More cores help it in no other way.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.clock import Clock
from tidings.operators.doctor.servers import Server
from tidings.stores.findings import Finding, advice, human_bytes, ok, unknown

BUSY = 0.6  # of a core: above it the queue before the one thread grows fast
COMMANDS_FILL = 0.5  # of the time of the event loop: above it sockets are the smaller part
Verdict = Literal["neither", "I/O threads", "shard"]


class LoadReading(msgspec.Struct, frozen=True, kw_only=True):
    """Sums since the server started."""

    at_s: float
    cpu_s: float  # of the main thread
    in_bytes: int
    out_bytes: int
    commands: int
    loop_us: int  # time in which the event loop worked
    command_us: int  # the part of it in commands
    io_threads: int  # 0: not told


class ServerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load between two readings."""

    where: str
    cpu: float  # share of one core
    in_bytes_s: float
    out_bytes_s: float
    commands_s: float
    command_share: float  # of the working time of the event loop
    io_threads: int
    verdict: Verdict


async def read_load(server: Server, clock: Clock) -> LoadReading | None:
    """None: the server refuses INFO. Raises Unavailable."""
    info = await server.info("cpu", "stats")
    if "total_commands_processed" not in info:
        return None
    threads = (await server.config("io-threads")).get("io-threads", "0")

    def number(name: str, instead: str = "0") -> float:
        return float(info.get(name, info.get(instead, 0)))

    return LoadReading(
        at_s=clock.monotonic_s(),
        cpu_s=number("used_cpu_user_main_thread", "used_cpu_user") + number("used_cpu_sys_main_thread", "used_cpu_sys"),
        in_bytes=int(number("total_net_input_bytes")),
        out_bytes=int(number("total_net_output_bytes")),
        commands=int(number("total_commands_processed")),
        loop_us=int(number("eventloop_duration_sum")),
        command_us=int(number("eventloop_duration_cmd_sum")),
        io_threads=int(threads),
    )


def load_between(where: str, before: LoadReading, now: LoadReading) -> ServerLoad:
    seconds = max(now.at_s - before.at_s, 1e-3)
    worked_us = now.loop_us - before.loop_us
    # A server before 7.2 does not tell the two apart; its commands are then taken for all of the work.
    share = min((now.command_us - before.command_us) / worked_us, 1.0) if worked_us > 0 else 1.0
    cpu = max(now.cpu_s - before.cpu_s, 0.0) / seconds
    return ServerLoad(
        where=where,
        cpu=cpu,
        in_bytes_s=max(now.in_bytes - before.in_bytes, 0) / seconds,
        out_bytes_s=max(now.out_bytes - before.out_bytes, 0) / seconds,
        commands_s=max(now.commands - before.commands, 0) / seconds,
        command_share=share,
        io_threads=now.io_threads,
        verdict=verdict_of(cpu, share, now.io_threads),
    )


def verdict_of(cpu: float, command_share: float, io_threads: int) -> Verdict:
    if cpu < BUSY:
        return "neither"
    return "shard" if command_share >= COMMANDS_FILL or io_threads > 1 else "I/O threads"


def check_load(server: Server, before: LoadReading | None, now: LoadReading | None) -> Finding:
    if before is None or now is None:
        return unknown("keyspace.cpu", "INFO is refused: its load is unknown", server.permit("+info"), server.where)
    load = load_between(server.where, before, now)
    threads = f"{load.io_threads or 'an unknown number of'} I/O threads"
    says = (
        f"its main thread uses {load.cpu:.0%} of a core, {load.command_share:.0%} of that in commands; "
        f"{human_bytes(int(load.in_bytes_s))}/s in, {human_bytes(int(load.out_bytes_s))}/s out; {threads}"
    )
    if load.verdict == "shard":
        fix = "see keyspace.slow and keyspace.commands first; then more primaries: TIDINGS_KEYSPACE=redis+cluster://"
        return advice("keyspace.cpu", f"shard: {says}", fix, server.where)
    if load.verdict == "I/O threads":
        fix = "io-threads 4 in the server's configuration, on a machine with as many free cores; then restart it"
        return advice("keyspace.cpu", f"I/O threads would help: {says}", fix, server.where)
    return ok("keyspace.cpu", f"neither shards nor I/O threads are needed: {says}", server.where)
