"""The DynamoDB tables themselves: tables.json defines them; they are made from it and compared with it.

`create` makes what is missing and changes nothing that is there, so it may be run again; `check` says in one line each
what differs. Both are for an operator (`tidings tables create`, `tidings tables check`); a node only uses the tables.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

import msgspec

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import Place, Wire, open_wire

_LOOK_S = 0.5  # between two checks of a table that is being made


class Definition(msgspec.Struct, frozen=True):
    table: dict[str, Any]  # a CreateTable request without the prefix
    time_to_live: str | None = None  # the attribute, in seconds since 1970

    @property
    def name(self) -> str:
        return str(self.table["TableName"])


def definitions() -> list[Definition]:
    raw = files("tidings.stores.tables.dynamodb").joinpath("tables.json").read_bytes()
    return msgspec.json.decode(raw, type=list[Definition])


async def create(place: Place, clock: Clock) -> list[str]:
    """Make the missing tables. Returns their names in order, when they are ready for use."""
    wire = open_wire(place, clock, lambda kind, units: None)
    try:
        there = await _there(wire, place)
        made = [definition for definition in definitions() if definition.name not in there]
        for definition in made:
            await _make(wire, place, definition)
        for definition in definitions():
            await _until_ready(wire, place, definition, clock)
            await _expire(wire, place, definition)
        return [place.prefix + definition.name for definition in made]
    finally:
        wire.close()


async def check(place: Place, clock: Clock) -> list[str]:
    """Answer each difference in one line. No line: the tables are as they should be."""
    wire = open_wire(place, clock, lambda kind, units: None)
    try:
        there = await _there(wire, place)
        found = await asyncio.gather(*(_differences(wire, place, there, each) for each in definitions()))
        return [line for lines in found for line in lines]
    finally:
        wire.close()


async def _make(wire: Wire, place: Place, definition: Definition) -> None:
    """Make one table. A try whose answer was lost, or somebody else, may have made it first."""
    try:
        await wire.call("CreateTable", {**definition.table, "TableName": place.prefix + definition.name})
    except Unavailable:
        if definition.name not in await _there(wire, place):
            raise


async def _there(wire: Wire, place: Place) -> set[str]:
    """The names of the tables with our prefix, without the prefix."""
    names: list[str] = []
    request: dict[str, Any] = {}
    while True:
        reply = await wire.call("ListTables", request)
        names += reply["TableNames"]
        if "LastEvaluatedTableName" not in reply:
            return {name.removeprefix(place.prefix) for name in names if name.startswith(place.prefix)}
        request = {"ExclusiveStartTableName": reply["LastEvaluatedTableName"]}


async def _describe(wire: Wire, place: Place, definition: Definition) -> dict[str, Any]:
    reply = await wire.call("DescribeTable", {"TableName": place.prefix + definition.name})
    table: dict[str, Any] = reply["Table"]
    return table


async def _until_ready(wire: Wire, place: Place, definition: Definition, clock: Clock) -> None:
    until_s = clock.monotonic_s() + bounds.CREATE_S
    while not _is_ready(await _describe(wire, place, definition)):
        if clock.monotonic_s() > until_s:
            raise Unavailable(f"{place.prefix + definition.name} is still being made; run it again later")
        await asyncio.sleep(_LOOK_S)


def _is_ready(table: dict[str, Any]) -> bool:
    indexes = table.get("GlobalSecondaryIndexes", ())
    return table["TableStatus"] == "ACTIVE" and all(index["IndexStatus"] == "ACTIVE" for index in indexes)


async def _expire(wire: Wire, place: Place, definition: Definition) -> None:
    name, attribute = place.prefix + definition.name, definition.time_to_live
    if attribute is not None and await _expiry(wire, name) is None:
        change = {"AttributeName": attribute, "Enabled": True}
        await wire.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": change})


async def _expiry(wire: Wire, name: str) -> str | None:
    said = (await wire.call("DescribeTimeToLive", {"TableName": name}))["TimeToLiveDescription"]
    return said.get("AttributeName") if said["TimeToLiveStatus"] in ("ENABLED", "ENABLING") else None


async def _differences(wire: Wire, place: Place, there: set[str], definition: Definition) -> list[str]:
    name = place.prefix + definition.name
    if definition.name not in there:
        return [f"{name}: missing"]
    table = await _describe(wire, place, definition)
    wanted, found = _shape(definition.table), _shape(table)
    lines = [
        f"{name}: {part} is {found.get(part, 'missing')}, not {wanted[part]}"
        for part in wanted
        if wanted[part] != found.get(part)
    ]
    if not _is_ready(table):
        lines.append(f"{name}: not ready yet")
    expiry = await _expiry(wire, name)
    if expiry != definition.time_to_live:
        lines.append(f"{name}: time to live is {expiry or 'off'}, not {definition.time_to_live or 'off'}")
    return lines


def _shape(table: dict[str, Any]) -> dict[str, str]:
    """The parts that must be equal. The operator decides on capacity, encryption and backups."""
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    shape = {"key": _key(table["KeySchema"], types)}
    for index in table.get("GlobalSecondaryIndexes", ()):
        projection = index["Projection"]["ProjectionType"]
        shape[f"index {index['IndexName']}"] = f"{_key(index['KeySchema'], types)} {projection}"
    return shape


def _key(schema: list[dict[str, str]], types: dict[str, str]) -> str:
    return ", ".join(f"{part['AttributeName']} {types[part['AttributeName']]}" for part in schema)
