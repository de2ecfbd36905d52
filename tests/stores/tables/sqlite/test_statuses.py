"""The contract of statuses on SQLite, and how many statements it takes."""

from __future__ import annotations

from pathlib import Path

import apsw

from tests.contracts import conversation
from tests.contracts.statuses import StatusesContract
from tidings.model import Status
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.sqlite.statuses import _put_each


class TestStatuses(StatusesContract): ...


async def test_many_statuses_take_as_many_statements_as_one(tables: Tables, path: Path) -> None:
    people = [f"user{number}" for number in range(64)]
    c = await conversation(tables, *people)
    connection, statements = apsw.Connection(str(path)), list[str]()

    def trace(cursor: object, sql: str, bindings: object) -> bool:
        statements.append(sql)
        return True

    connection.exec_trace = trace
    tx = Transaction(connection)
    for some in (people[:1], people[1:33], people):
        statements.clear()
        before = {one.user_id: one.version for one in await tables.statuses.of_members(c, some)}
        new = [Status(conversation_id=c, user_id=user_id, version=before.get(user_id, 0) + 1) for user_id in some]
        assert _put_each(new, tx) == new
        assert len(statements) == 3
    connection.close()
