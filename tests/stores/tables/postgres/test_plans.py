"""Plans: every statement of the adapter goes by an index, on tables that have grown.

PostgreSQL makes the generic plans that the connections of a node ask for. A plan that reads a whole table, or a whole
index, is found by its scan: it has no condition of the index. The tables hold thousands of rows, so that the planner
knows what such a scan costs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import asyncpg
import msgspec
import pytest

from tidings.clock import Clock
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.postgres import (
    accounts,
    adapter,
    archive,
    conversations,
    devices,
    inboxes,
    log,
    overrides,
    pages,
    pending,
    people,
    records,
    search,
    statuses,
)

MODULES: tuple[ModuleType, ...] = (accounts, archive, conversations, devices, inboxes, log, overrides, pages, pending)
MODULES += (people, records, search, statuses)
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
# Statements that read all of a table, and are no part of what a user waits for.
WHOLE = {
    "accounts._API_KEYS": "an operator lists the few keys",
    "overrides._ALL": "a node reads the few limits of its own when they change",
    "pending._EXPIRE": "a sweep looks at every row that waits",
    "search._CLEAR": "an operator makes the index anew",
    "search._CLEAR_CURSORS": "an operator makes the index anew",
}
# These are planned for the few rows of new tables so, and anew when PostgreSQL has counted the rows of grown ones.
SMALL = {"conversations._DELETESconversations", "conversations._RENAME_ROWS"}
_LEADING = (
    "SELECT relname, pg_get_indexdef(indexrelid, 1, true) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE relnamespace = $1::regnamespace"
)
ROWS = 20_000
# The rows that are put into tables which grow. `n` counts them.
GROWN = """
    INSERT INTO @conversation_heads SELECT 'c' || n, 'group', 1, NULL, NULL, 'all', 9, 9, 9, NULL, 0, 0 FROM n;
    INSERT INTO @messages SELECT 'c' || n / 20, n, 'message', n, 'u' || n % 7, false, 'm' || n, NULL, NULL, NULL, NULL,
      NULL, NULL, 0, NULL, false, NULL, NULL, NULL FROM n;
    INSERT INTO @members SELECT 'c' || n / 20, 'u' || n % 20, 'member', 0, 0, nullif(n % 9, 0), false FROM n;
    INSERT INTO @conversations SELECT 'u' || n / 20, 'c' || n % 20, 'group', NULL, NULL, NULL, n, 9, 0, false, false,
      false, 0, 0, false, 0, false, false FROM n;
    INSERT INTO @message_status SELECT 'c' || n / 20, 'u' || n % 20, 9, 9, 9, NULL, 1, 0 FROM n;
    INSERT INTO @pending_deliveries SELECT 'u' || n / 20, 'c' || n % 20, 1, 2, n, n FROM n;
    INSERT INTO @records SELECT 'o' || n / 20, 'k' || n % 3, 'r' || n, 1, nullif(n % 5, 0), '' FROM n;
    INSERT INTO @users SELECT 'u' || n, NULL, NULL, 0 FROM n;
    INSERT INTO @blocks SELECT 'u' || n / 20, 'u' || n % 20, 1 FROM n;
    INSERT INTO @preferences SELECT 'u' || n, '' FROM n;
    INSERT INTO @devices SELECT 'u' || n, 'd', 'fcm', 't' || n, NULL, NULL, 1, 1 FROM n;
    INSERT INTO @archives SELECT 'c' || n, 0, n FROM n;
    INSERT INTO @rechecks SELECT 'c' || n, 's', 'w', 'm', 1 FROM n;
    INSERT INTO @search SELECT 'c' || n / 20, n, n, 'u', false, false, to_tsvector('simple', 'word' || n) FROM n;
    INSERT INTO @search_cursors SELECT 'c' || n, 9 FROM n;
    ANALYZE
"""


def statements(module: ModuleType) -> Iterator[tuple[str, str]]:
    """(name, SQL) of each constant of the module that is a statement."""
    for name, value in vars(module).items():
        found = value if isinstance(value, dict) else {"": value}
        for key, sql in found.items():
            if isinstance(sql, str) and "@" in sql and sql.split()[0] in VERBS:
                yield f"{module.__name__.rpartition('.')[2]}.{name}{key or ''}", sql


Leading = dict[str, str]  # name of an index -> its first column


def scans(plan: dict[str, Any], leading: Leading) -> Iterator[str]:
    """The scans of a plan that read a whole table, or a whole index: no condition is about its first column."""
    kind, index = plan["Node Type"], plan.get("Index Name")
    if kind == "Seq Scan" or (index is not None and leading[index] not in plan.get("Index Cond", "")):
        yield f"{kind} of {index or plan['Relation Name']}"
    for part in plan.get("Plans", ()):
        yield from scans(part, leading)


def in_schema(sql: str, schema: str) -> str:
    return re.sub("@(?=[a-z])", f'"{schema}".', sql)


async def whole_scans(link: Any, sql: str, leading: Leading) -> list[str]:
    """The scans of the generic plan, which knows no values, that read all there is."""
    count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
    given = f"({', '.join(['NULL'] * count)})" if count else ""
    await link.execute(f"PREPARE it AS {sql}")
    try:
        ((found,),) = await link.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE it{given}")
    finally:
        await link.execute("DEALLOCATE it")
    return list(scans(msgspec.json.decode(found)[0]["Plan"], leading))


@pytest.fixture
async def link(url: str) -> AsyncIterator[Any]:
    """A connection as those of a node, to tables that are empty."""
    tables = await adapter.open(url, NO_COUNTS, Clock())
    await tables.close()
    link = await asyncpg.connect(**adapter.Place(url).options)
    yield link
    await link.close()


@pytest.mark.parametrize("is_grown", [False, True], ids=["empty", "grown"])
async def test_every_statement_goes_by_an_index(link: Any, url: str, is_grown: bool) -> None:
    schema = adapter.Place(url).schema
    if is_grown:
        await link.execute(f'CREATE TEMPORARY TABLE "n" AS SELECT n FROM generate_series(1, {ROWS}) AS s (n)')
        await link.execute(in_schema(GROWN, schema), timeout=300)  # a node gives up much earlier
    found = {name: sql for module in MODULES for name, sql in statements(module)}
    fine = WHOLE.keys() if is_grown else WHOLE.keys() | SMALL
    assert len(found) > 90 and found.keys() >= fine
    leading: Leading = dict(await link.fetch(_LEADING, schema))
    whole = {name: await whole_scans(link, in_schema(sql, schema), leading) for name, sql in found.items()}
    assert {name: some for name, some in whole.items() if some and name not in fine} == {}


async def test_a_statement_without_an_index_is_found(link: Any, url: str) -> None:
    schema = adapter.Place(url).schema
    leading: Leading = dict(await link.fetch(_LEADING, schema))
    for sql in (
        "SELECT 1 FROM @messages WHERE sent_ms = $1::bigint",
        "SELECT user_id FROM @conversations WHERE conversation_id = $1 ORDER BY user_id",
    ):
        assert await whole_scans(link, in_schema(sql, schema), leading) != [], sql
