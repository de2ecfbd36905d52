"""Copying between every two adapters: equal afterwards, resumable, and never over somebody else's rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts import message
from tests.contracts.whole import all_of, put_all, samples
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.postgres_server import fresh_schema
from tests.support.servers.postgres_server import postgres as postgres
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.model import Head
from tidings.stores.tables import copying
from tidings.stores.tables.copying import compare_tables, copy_tables
from tidings.stores.tables.open import adapter_of
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.whole import PARTS, Fact

KINDS = ("sqlite", "postgresql", "dynamodb")
PAIRS = list(permutations(KINDS, 2))


class Places:
    """New tables of each kind. `again` opens the same tables once more, as the next process would."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, stack: AsyncExitStack) -> None:
        self._request = request
        self._folder = folder
        self._stack = stack
        self._made = 0

    def url(self, kind: str) -> str:
        self._made += 1
        if kind == "sqlite":
            return f"sqlite://{self._folder}/{self._made}.db"
        if kind == "postgresql":
            return str(self._request.getfixturevalue("postgres").url(fresh_schema()))
        return str(self._request.getfixturevalue("dynamodb").url(fresh_prefix()))

    async def open(self, url: str) -> Tables:
        await adapter_of(url).create(url, Clock())
        tables = await adapter_of(url).open(url, NO_COUNTS, Clock())
        self._stack.push_async_callback(tables.close)
        return tables

    async def new(self, kind: str) -> Tables:
        return await self.open(self.url(kind))


@pytest.fixture
async def places(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Places]:
    async with AsyncExitStack() as stack:
        yield Places(request, tmp_path, stack)


async def filled(tables: Tables, messages: int = 0) -> Tables:
    """Rows of every table, of three conversations, and one long log."""
    for _ in range(3):
        await put_all(tables, samples())
    await tables.whole.put("conversation_heads", [Head(conversation_id="long", kind="group", created_ms=1)])
    await tables.whole.put("messages", [message("long", seq_no) for seq_no in range(1, messages + 1)])
    await tables.archive.take_fence()
    return tables


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
async def test_a_copy_is_equal_to_its_source_in_every_table(places: Places, one: str, other: str) -> None:
    source, url = await filled(await places.new(one), 30), places.url(other)
    copied = await copy_tables(source, await places.open(url))
    assert copied.is_equal and copied.different == [] and not copied.is_resumed
    assert [table.table for table in copied.tables] == list(PARTS) and all(table.rows for table in copied.tables)
    assert (copied.conversations, copied.messages) == (7, 51)
    target = await places.open(url)  # as a node opens it: the identity moved too
    assert await target.accounts.store_epoch() == await source.accounts.store_epoch()
    assert target.accounts.secret == source.accounts.secret
    assert await target.archive.id() == await source.archive.id()
    assert await target.archive.take_fence() == await source.archive.take_fence()
    assert await target.records.page("*", copying.COLLECTION, limit=9) == []


class Torn:
    """The way to a target that ends after some puts, as a killed process does."""

    def __init__(self, whole: Any, puts: int) -> None:
        self._whole = whole
        self.puts_left = puts
        self.put_rows = 0

    async def walk(self, table: str, *, after: str, limit: int) -> Any:
        return await self._whole.walk(table, after=after, limit=limit)

    async def put(self, table: str, values: Sequence[Any]) -> None:
        if self.puts_left == 0:
            raise Unavailable("torn")
        self.puts_left -= 1
        self.put_rows += len(values)
        await self._whole.put(table, values)


def torn(tables: Tables, puts: int) -> tuple[Tables, Torn]:
    whole = Torn(tables.whole, puts)
    return Tables(**{**vars(tables), "whole": whole}), whole


@pytest.mark.parametrize("puts", [1, 7, 11, 14, 40])
async def test_an_interrupted_copy_goes_on_where_it_was(
    places: Places, monkeypatch: pytest.MonkeyPatch, puts: int
) -> None:
    monkeypatch.setattr(copying, "COPY_ROWS", 10)
    monkeypatch.setattr(copying, "COPY_SAVE_ROWS", 20)
    source, target = await filled(await places.new("sqlite"), 300), await places.new("sqlite")
    broken, _ = torn(target, puts)
    with pytest.raises(Unavailable, match="torn"):
        await copy_tables(source, broken)
    whole, rest = torn(target, -1)
    copied = await copy_tables(source, whole)
    assert copied.is_equal and copied.is_resumed
    total = sum(table.rows for table in copied.tables)
    assert rest.put_rows < total, "what was copied before is not copied again"


async def test_a_target_with_rows_is_refused_and_stays_as_it_is(places: Places) -> None:
    source, target = await filled(await places.new("sqlite")), await places.new("sqlite")
    rows = {"users": samples()["users"]}
    await put_all(target, rows)
    with pytest.raises(Unavailable, match="the target is not empty: it has rows in users"):
        await copy_tables(source, target)
    assert await all_of(target, "users") == rows["users"] and await all_of(target, "messages") == []


async def test_a_target_is_not_empty_where_its_first_page_is(places: Places) -> None:
    """In DynamoDB some items are no rows, and a page may hold such items alone."""
    source, target = await filled(await places.new("sqlite")), await places.new("dynamodb")
    pages: list[list[Any]] = []
    for number in range(20):
        await target.devices.put(msgspec.structs.replace(samples()["devices"][0], user_id=f"u{number}"))
        pages.append((await target.whole.walk("devices", after="", limit=1))[0])
        if not pages[-1]:
            break
        await target.devices.remove(f"u{number}")
    assert pages[-1] == [], "half of the items are no devices"
    with pytest.raises(Unavailable, match="the target is not empty: it has rows in devices"):
        await copy_tables(source, target)


async def test_an_unfinished_copy_of_other_tables_is_refused(places: Places) -> None:
    first, second = await filled(await places.new("sqlite")), await filled(await places.new("sqlite"))
    target = await places.new("sqlite")
    with pytest.raises(Unavailable, match="torn"):
        await copy_tables(first, torn(target, 3)[0])
    with pytest.raises(Unavailable, match="an unfinished copy of other tables"):
        await copy_tables(second, target)


async def test_a_finished_copy_is_tables_like_any_other(places: Places) -> None:
    source, target = await filled(await places.new("sqlite")), await places.new("sqlite")
    await copy_tables(source, target)
    with pytest.raises(Unavailable, match="not empty"):
        await copy_tables(source, target)


@pytest.mark.parametrize("table", ["messages", "members", "users", "records"])
async def test_a_row_that_differs_or_is_missing_is_found(places: Places, table: str) -> None:
    source, target = await filled(await places.new("sqlite")), await places.new("sqlite")
    await copy_tables(source, target)
    value = (await all_of(source, table))[0]
    field, other = {"messages": ("rev", 99), "members": ("role", "admin"), "users": ("name", "Eve")}.get(
        table, ("version", 99)
    )
    await target.whole.put(table, [msgspec.structs.replace(value, **{field: other})])
    compared = await compare_tables(source, target, lambda name, rows: None)
    assert not compared.is_equal
    assert [one.table for one in compared.tables if not one.is_equal] == [table]
    in_conversation = getattr(value, "conversation_id", None)
    assert compared.different == ([in_conversation] if in_conversation else [])


async def test_the_facts_of_the_tables_are_compared_too(places: Places) -> None:
    source, target = await filled(await places.new("sqlite")), await places.new("sqlite")
    await copy_tables(source, target)
    await target.whole.put("meta", [Fact("secret", "another")])
    assert not (await compare_tables(source, target, lambda name, rows: None)).is_equal


async def test_progress_is_told_by_table(places: Places) -> None:
    told: list[tuple[str, int]] = []
    source, target = await filled(await places.new("sqlite"), 5), await places.new("sqlite")
    await asyncio.wait_for(copy_tables(source, target, lambda table, rows: told.append((table, rows))), 60)
    assert ("messages", 26) in told and ("messages compared", 26) in told
