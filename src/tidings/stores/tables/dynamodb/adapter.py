"""The tables in DynamoDB: the adapter for any number of hosts.

Conditions and transactions keep what one row or one group promises, never a lock; reads are consistent. Work that was
not answered in time is `Unavailable` and ambiguous; work that was throttled was not done. Each port is a module of
this folder, on client/.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidings.clock import Clock
from tidings.stores.findings import Finding
from tidings.stores.tables.dynamodb import accounts, examination, schema
from tidings.stores.tables.dynamodb.archive import DynamoArchive
from tidings.stores.tables.dynamodb.client.client import open_wire, place_of
from tidings.stores.tables.dynamodb.client.items import attributes
from tidings.stores.tables.dynamodb.client.operations import Store
from tidings.stores.tables.dynamodb.conversations import DynamoConversations
from tidings.stores.tables.dynamodb.devices import DynamoDevices
from tidings.stores.tables.dynamodb.inboxes import DynamoInboxes
from tidings.stores.tables.dynamodb.log import DynamoLog
from tidings.stores.tables.dynamodb.overrides import DynamoOverrides
from tidings.stores.tables.dynamodb.pending import DynamoPending
from tidings.stores.tables.dynamodb.people import DynamoPeople
from tidings.stores.tables.dynamodb.records import DynamoRecords
from tidings.stores.tables.dynamodb.statuses import DynamoStatuses
from tidings.stores.tables.dynamodb.whole import DynamoWhole
from tidings.stores.tables.open import Adapter
from tidings.stores.tables.ports import NO_COUNTS, Counts, Tables


def name(url: str) -> str:
    return url


def folder(url: str) -> Path | None:
    return None


def exists(url: str) -> bool:
    """Always True: only a request could find out."""
    return True


async def open(url: str, counts: Counts, clock: Clock) -> Tables:
    """dynamodb://region?prefix=tidings_&endpoint=http://host:port. A bad URL is a ValueError."""
    place = place_of(url)
    wire = open_wire(place, clock, counts.units)
    store = Store(wire, place, counts)
    try:
        store_epoch = await accounts.store_epoch(store, clock)
        secret = await accounts.secret(store, clock)
    except BaseException:
        wire.close()
        raise

    async def ping() -> None:
        await store.get("meta", attributes(key="store_epoch"))

    async def close() -> None:
        """Requests that are under way end with Unavailable at their next try."""
        wire.close()

    return Tables(
        log=DynamoLog(store),
        conversations=DynamoConversations(store),
        inboxes=DynamoInboxes(store),
        statuses=DynamoStatuses(store),
        accounts=accounts.DynamoAccounts(store, store_epoch, secret),
        devices=DynamoDevices(store),
        pending=DynamoPending(store),
        overrides=DynamoOverrides(store),
        people=DynamoPeople(store),
        records=DynamoRecords(store),
        archive=DynamoArchive(store),
        whole=DynamoWhole(store),
        ping=ping,
        close=close,
    )


async def create(url: str, clock: Clock) -> list[str]:
    return await schema.create(place_of(url), clock)


async def check(url: str, clock: Clock) -> list[str]:
    return await schema.check(place_of(url), clock)


async def renew_epoch(url: str, clock: Clock) -> str:
    place = place_of(url)
    wire = open_wire(place, clock, NO_COUNTS.units)
    try:
        store = Store(wire, place, NO_COUNTS)
        await accounts.store_epoch(store, clock)  # raises where there are no tables
        return await accounts.renew_epoch(store, clock)
    finally:
        wire.close()


def back_up(url: str, to: Path) -> int:
    raise ValueError("DynamoDB makes its own copies: turn on point-in-time recovery of its tables")


async def examine(url: str, clock: Clock) -> list[Finding]:
    return await examination.check_tables(url, clock)


if TYPE_CHECKING:
    from tidings.stores.tables.dynamodb import adapter

    _CHECKED: Adapter = adapter
