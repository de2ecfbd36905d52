"""Slow commands: reads the SLOWLOG of a server, and its statistics of commands.

A finding names a slow command and its first key, never its arguments: these may be texts of users. A script has the
name of its file. Commands that walk everything (KEYS) are always named: one of them stops every node while it runs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidings.bounds import DOCTOR_SLOW_CALL_US, DOCTOR_SLOWLOG_MAX
from tidings.operators.doctor.servers import Server, refusal
from tidings.stores.findings import Finding, advice, ok, unknown, wrong

# Commands that walk everything, and their replacement.
WALKERS = {
    "KEYS": "SCAN with a COUNT",
    "FLUSHALL": "nothing: it empties the whole index",
    "FLUSHDB": "nothing: it empties the whole index",
    "SORT": "a sorted set",
    "DEBUG": "nothing",
    "MONITOR": "tidings top, or tidings doctor",
}
_BUSIEST = 5  # commands in the finding
_SCRIPT = re.compile(r"-- (\w+):")


class SlowCommand(msgspec.Struct, frozen=True):
    """One entry of SLOWLOG."""

    command: str
    key: str
    us: int
    at_s: int


class CommandTime(msgspec.Struct, frozen=True):
    """The statistics of one command, from INFO commandstats."""

    command: str
    calls: int
    us: int

    @property
    def us_each(self) -> float:
        return self.us / self.calls if self.calls else 0.0


def script_names(sources: Iterable[str]) -> dict[str, str]:
    """Digest of each script -> its name, from its header."""
    named = {source: _SCRIPT.search(source) for source in sources}
    return {
        hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(): found[1]
        for source, found in named.items()
        if found
    }


async def read_slowlog(server: Server, scripts: Mapping[str, str]) -> list[SlowCommand] | None:
    """The entries, newest first; None: the server refuses SLOWLOG."""
    answer = await server.ask("SLOWLOG", "GET", DOCTOR_SLOWLOG_MAX)
    return None if refusal(answer) else [_slow(entry, scripts) for entry in answer]


def _slow(entry: list[Any], scripts: Mapping[str, str]) -> SlowCommand:
    _, at_s, us, words = entry[:4]
    texts = [word.decode("utf-8", "replace") for word in words[:4]]
    name, rest = texts[0].upper(), texts[1:]
    if name in ("EVALSHA", "EVALSHA_RO"):
        return SlowCommand(f"{name} {scripts.get(rest[0], rest[0][:12])}", rest[2] if len(rest) > 2 else "", us, at_s)
    if name in ("EVAL", "EVAL_RO"):
        return SlowCommand(name, rest[2] if len(rest) > 2 else "", us, at_s)
    return SlowCommand(name, rest[0][:100] if rest else "", us, at_s)


def parse_commandstats(info: Mapping[str, str]) -> list[CommandTime]:
    """Commands by their total time, the longest first."""
    found = []
    for name, text in info.items():
        if name.startswith("cmdstat_"):
            fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
            command = name.removeprefix("cmdstat_").replace("|", " ").upper()
            found.append(CommandTime(command, int(fields.get("calls", 0)), int(fields.get("usec", 0))))
    return sorted(found, key=lambda busy: -busy.us)


async def check_slow(server: Server, sources: Iterable[str]) -> list[Finding]:
    entries = await read_slowlog(server, script_names(sources))
    stats = parse_commandstats(await server.info("commandstats"))
    return [*_check_slowlog(server, entries), *_check_stats(server, stats)]


def _check_slowlog(server: Server, entries: list[SlowCommand] | None) -> Iterator[Finding]:
    if entries is None:
        yield unknown("keyspace.slow", "SLOWLOG is refused", server.permit("+slowlog|get"), server.where)
        return
    walks = [entry for entry in entries if entry.command in WALKERS]
    for command, times in Counter(entry.command for entry in walks).items():
        yield _walked(server, command, times, max(entry.us for entry in walks if entry.command == command))
    slow = [entry for entry in entries if entry.us >= DOCTOR_SLOW_CALL_US and entry.command not in WALKERS]
    if slow:
        worst = max(slow, key=lambda entry: entry.us)
        says = f"{len(slow)} slow commands; the slowest is {worst.command} {worst.key} with {worst.us / 1000:.0f} ms"
        fix = f"see the biggest keys below; {server.cli} SLOWLOG RESET when it is solved"
        yield advice("keyspace.slow", says, fix, server.where)
    elif not walks:
        yield ok("keyspace.slow", f"SLOWLOG has {len(entries)} entries, none above 10 ms", server.where)


def _walked(server: Server, command: str, times: int, us: int) -> Finding:
    says = f"{command} is in SLOWLOG {times} times, up to {us / 1000:.1f} ms: every node waited that long"
    fix = (
        f"use {WALKERS[command]}; forbid it: {server.cli} ACL SETUSER default -{command.lower()}; "
        f"then {server.cli} SLOWLOG RESET"
    )
    return wrong("keyspace.walks", says, fix, server.where)


def _check_stats(server: Server, stats: list[CommandTime]) -> Iterator[Finding]:
    total_us = sum(busy.us for busy in stats)
    if not total_us:
        return
    shares = [f"{busy.command} {busy.us / total_us:.0%} ({busy.us_each:.0f} us each)" for busy in stats[:_BUSIEST]]
    yield ok("keyspace.commands", f"busy with {', '.join(shares)}", server.where)
    for busy in stats:
        if busy.command == "KEYS" and busy.calls:
            says = f"KEYS was called {busy.calls} times since the server started, {busy.us_each / 1000:.1f} ms each"
            fix = f"use {WALKERS['KEYS']}; {server.cli} CONFIG RESETSTAT when no client does"
            yield advice("keyspace.commands", says, fix, server.where)
