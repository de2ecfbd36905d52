"""The schema of PostgreSQL: it has the columns of the model, whatever SQLite has."""

from __future__ import annotations

import asyncpg
import msgspec

from tidings.clock import Clock
from tidings.model import Entry, Head, Member, Row, Status, User
from tidings.stores.tables.postgres import adapter
from tidings.stores.tables.postgres.server.schema import PARTITIONS
from tidings.stores.tables.values import ApiKey, Block, Device, Override, Recheck, Waiting

TABLES: dict[str, type[msgspec.Struct]] = {
    "conversation_heads": Head,
    "members": Member,
    "conversations": Row,
    "message_status": Status,
    "users": User,
    "blocks": Block,
    "api_keys": ApiKey,
    "devices": Device,
    "pending_deliveries": Waiting,
    "rate_overrides": Override,
    "rechecks": Recheck,
}


async def test_every_table_has_the_fields_of_its_value(url: str) -> None:
    await adapter.create(url, Clock())
    place = adapter.Place(url)
    link = await asyncpg.connect(place.dsn)
    sql = "SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2"
    for table, value in TABLES.items():
        found = {row[0] for row in await link.fetch(sql, place.schema, table)}
        own = {"status_version"} if table == "conversations" else set()  # tells counts from before a status
        assert found == set(value.__struct_fields__) | own, table
    stored = set(Entry.__struct_fields__) - {"member", "is_unavailable"}
    assert {row[0] for row in await link.fetch(sql, place.schema, "messages")} == stored
    parts = await link.fetchval(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = $1::regclass", f"{place.schema}.messages"
    )
    assert parts == PARTITIONS
    await link.close()
