"""What kept a server busy: its SLOWLOG, and its own statistics of commands.

Of a slow command its name and first key are told, never its arguments: they may be what people wrote. A script is
called by the name of its file. Commands that walk everything (KEYS) are named whoever sent them: one of them stops
every node for as long as it takes. Called by examination.py.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidings.bounds import DOCTOR_SLOW_CALL_US, DOCTOR_SLOWLOG_MAX
from tidings.doctor.findings import Finding, advice, ok, unknown, wrong
from tidings.doctor.servers import Server, refusal

# What walks everything, and what to use instead.
WALKERS = {
    "KEYS": "SCAN with a COUNT",
    "FLUSHALL": "nothing: it empties the index of every tenant",
    "FLUSHDB": "nothing: it empties the index of every tenant",
    "SORT": "a sorted set",
    "DEBUG": "nothing",
    "MONITOR": "tidings top, or tidings doctor",
}
_BUSIEST = 5  # commands told by their share of the time
_SCRIPT = re.compile(r"-- (\w+):")


class Slow(msgspec.Struct, frozen=True):
    """One entry of SLOWLOG."""

    command: str
    key: str
    us: int
    at_s: int


class Busy(msgspec.Struct, frozen=True):
    """What INFO commandstats says of one command."""

    command: str
    calls: int
    us: int

    @property
    def us_each(self) -> float:
        return self.us / self.calls if self.calls else 0.0


def script_names(sources: Iterable[str]) -> dict[str, str]:
    """Digest -> name of the script, as its header gives it."""
    named = {source: _SCRIPT.search(source) for source in sources}
    return {
        hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(): found[1]
        for source, found in named.items()
        if found
    }


async def read_slowlog(server: Server, scripts: Mapping[str, str]) -> list[Slow] | None:
    """Newest first; None: it is refused."""
    answer = await server.ask("SLOWLOG", "GET", DOCTOR_SLOWLOG_MAX)
    return None if refusal(answer) else [_slow(entry, scripts) for entry in answer]


def _slow(entry: list[Any], scripts: Mapping[str, str]) -> Slow:
    _, at_s, us, words = entry[:4]
    texts = [word.decode("utf-8", "replace") for word in words[:4]]
    name, rest = texts[0].upper(), texts[1:]
    if name in ("EVALSHA", "EVALSHA_RO"):
        return Slow(f"{name} {scripts.get(rest[0], rest[0][:12])}", rest[2] if len(rest) > 2 else "", us, at_s)
    if name in ("EVAL", "EVAL_RO"):
        return Slow(name, rest[2] if len(rest) > 2 else "", us, at_s)
    return Slow(name, rest[0][:100] if rest else "", us, at_s)


def parse_commandstats(info: Mapping[str, str]) -> list[Busy]:
    """By the time they took, most first."""
    found = []
    for name, text in info.items():
        if name.startswith("cmdstat_"):
            fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
            command = name.removeprefix("cmdstat_").replace("|", " ").upper()
            found.append(Busy(command, int(fields.get("calls", 0)), int(fields.get("usec", 0))))
    return sorted(found, key=lambda busy: -busy.us)


async def check_slow(server: Server, sources: Iterable[str]) -> list[Finding]:
    entries = await read_slowlog(server, script_names(sources))
    stats = parse_commandstats(await server.info("commandstats"))
    return [*_check_slowlog(server, entries), *_check_stats(server, stats)]


def _check_slowlog(server: Server, entries: list[Slow] | None) -> Iterator[Finding]:
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
        fix = f"see the biggest keys below; {server.cli} SLOWLOG RESET once it is dealt with"
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


def _check_stats(server: Server, stats: list[Busy]) -> Iterator[Finding]:
    total_us = sum(busy.us for busy in stats)
    if not total_us:
        return
    shares = [f"{busy.command} {busy.us / total_us:.0%} ({busy.us_each:.0f} us each)" for busy in stats[:_BUSIEST]]
    yield ok("keyspace.commands", f"busy with {', '.join(shares)}", server.where)
    for busy in stats:
        if busy.command == "KEYS" and busy.calls:
            says = f"KEYS was called {busy.calls} times since the server started, {busy.us_each / 1000:.1f} ms each"
            fix = f"use {WALKERS['KEYS']}; {server.cli} CONFIG RESETSTAT once nobody does"
            yield advice("keyspace.commands", says, fix, server.where)
