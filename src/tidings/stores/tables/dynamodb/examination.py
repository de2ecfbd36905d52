"""Examination of the DynamoDB tables: the doctor's findings about their definitions, backups and times.

Nothing is made or written.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.errors import StoreError, Unavailable
from tidings.stores.findings import Finding, advice, ok, read_times, unknown, wrong
from tidings.stores.tables.dynamodb import schema
from tidings.stores.tables.dynamodb.client.client import Place, Wire, open_wire, place_of
from tidings.stores.tables.ports import NO_COUNTS

_REQUESTS = 5  # requests for p50 and p99: each costs money


async def check_tables(url: str, clock: Clock) -> list[Finding]:
    """Compare the tables with their definitions, and time a few requests."""
    try:
        place = place_of(url)
        differences = await schema.check(place, clock)
    except (StoreError, ValueError) as error:
        return [_unreachable(error)]
    wire = open_wire(place, clock, NO_COUNTS.units)
    try:
        return [
            *(wrong("tables.schema", line, "tidings tables create") for line in differences),
            *([] if differences else [ok("tables.schema", "the tables of DynamoDB are right")]),
            *(await _check_backups(wire, place) if not differences else []),
            await _timed_requests(wire, clock),
        ]
    except StoreError as error:
        return [_unreachable(error)]
    finally:
        wire.close()


def _unreachable(error: Exception) -> Finding:
    why = " ".join(str(error).split())
    fix = "TIDINGS_TABLES=dynamodb://region?endpoint=…: check region and endpoint, and that this machine can reach them"
    if any(word in why for word in ("credential", "Token", "Signature", "AccessDenied", "UnrecognizedClient")):
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
    return wrong("tables.reachable", f"DynamoDB: {why}", fix)


async def _check_backups(wire: Wire, place: Place) -> list[Finding]:
    """Check point-in-time recovery: the tables are the truth, and only a backup can bring them back."""
    bare = []
    for definition in schema.definitions():
        name = place.prefix + definition.name
        try:
            said = await wire.call("DescribeContinuousBackups", {"TableName": name})
        except Unavailable as error:
            return [
                unknown("tables.backups", f"point-in-time recovery is unknown: {' '.join(str(error).split())[:120]}")
            ]
        status = said["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        if status.get("PointInTimeRecoveryStatus") != "ENABLED":
            bare.append(name)
    if bare:
        words = "PointInTimeRecoveryEnabled=true"
        fix = (
            f"aws dynamodb update-continuous-backups --table-name {bare[0]} "
            f"--point-in-time-recovery-specification {words}; and the same for each table"
        )
        return [advice("tables.backups", f"no point-in-time recovery of {', '.join(bare)}", fix)]
    return [ok("tables.backups", "point-in-time recovery is on")]


async def _timed_requests(wire: Wire, clock: Clock) -> Finding:
    times_s = []
    for _ in range(_REQUESTS):
        began_s = clock.monotonic_s()
        await wire.call("ListTables", {"Limit": 1})
        times_s.append(clock.monotonic_s() - began_s)
    return ok("tables.latency", f"DynamoDB: {read_times(times_s)}")
