"""Key findings: judges a census, and gives a fix for each key that is not normal.

A key that is too large for its kind is `wrong` when it is ours and `advice` when it is foreign. An inbox may be large
because its user is in many conversations, so a large inbox is advice too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidings.operators.doctor.census import Census, Key, Kind
from tidings.operators.doctor.families import FOREIGN, Family
from tidings.stores.findings import Finding, advice, human_bytes, ok, wrong

_GROWS = frozenset(
    ("inbox", "mark", "due", "push", "later", "acks", "sent", "rate")
)  # these keys grow with the activity of users
_FEW = 20  # fewer keys of a family say nothing about its encoding
_LISTPACK_FIX = "CONFIG SET zset-max-listpack-entries 128; CONFIG SET hash-max-listpack-entries 64"


def check_census(census: Census, known: Iterable[Family], cli: str) -> Iterator[Finding]:
    by_name = {family.name: family for family in (*known, FOREIGN)}
    yield _summary(census)
    for key in census.biggest:
        if not key.is_normal:
            yield _large(key, by_name[key.family], census.where, cli)
    for kind in census.kinds:
        yield from _check_encoding(kind, census.where, cli)


def _summary(census: Census) -> Finding:
    seen = "all" if census.is_whole else f"{census.keys_seen / max(1, census.keys_total):.0%}"
    parts = ", ".join(f"{kind.family} {human_bytes(kind.bytes)}" for kind in census.kinds[:5])
    says = f"{census.keys_total} keys, {seen} seen in {census.took_s:.1f} s: {parts or 'none'}"
    return ok("keyspace.keys", says, census.where)


def _large(key: Key, family: Family, where: str, cli: str) -> Finding:
    size = f"{key.entries} entries, {human_bytes(key.bytes)}, {key.bytes_each:.0f} bytes an entry, {key.encoding}"
    says = f"{key.key} ({family.what}): {size}; normal is up to {family.entries_max}: {family.if_large}"
    fix = f"{cli} UNLINK '{key.key}'"
    if family is FOREIGN:
        says = f"{key.key} is {FOREIGN.what}: {key.type}, {size}; {FOREIGN.if_large}"
        return advice("keyspace.big", says, f"move it to a server of its own; then {fix}", where)
    if key.type != family.type:
        return wrong("keyspace.big", f"{key.key} is a {key.type}, not a {family.type}: {family.what}", fix, where)
    if family.name in _GROWS:
        return advice("keyspace.big", says, f"{fix} (never DEL) if you do not want it", where)
    return wrong("keyspace.big", says, fix, where)


def _check_encoding(kind: Kind, where: str, cli: str) -> Iterator[Finding]:
    measured = sum(kind.encodings.values())
    if kind.family != FOREIGN.name and measured >= _FEW and kind.unpacked > measured / 2:
        says = (
            f"{kind.unpacked} of {measured} small {kind.family} keys are not packed: they take several times the memory"
        )
        yield advice("keyspace.encoding", says, f"{cli} {_LISTPACK_FIX}", where)
