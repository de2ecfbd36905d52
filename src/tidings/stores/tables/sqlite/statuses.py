"""message_status on SQLite: receipts go forward only, and a status is stored over the version it was made from.

Each function at module level is the work of one request: it runs on a thread of engine.py, in a transaction that it
does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidings.errors import Conflict, StoreError
from tidings.model import Status
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of, names
from tidings.stores.tables.sqlite.inboxes import uncount_rows
from tidings.stores.tables.values import with_marks_of
from tidings.stores.tables.whole import STATUSES

_TABLE = "message_status"
_STATUS, _status = STATUSES.columns, STATUSES.value_of
_STATUSES_NAMED = f"""
    SELECT {names(_STATUS, "s")} FROM json_each(?2) AS named
    CROSS JOIN message_status AS s ON s.conversation_id = named.value AND s.user_id = ?1
"""
# Of those who are present: the status of a member who left stays, because its version must never begin anew.
_STATUSES_OF = f"""
    SELECT {names(_STATUS, "s")} FROM members AS m INDEXED BY present
    CROSS JOIN message_status AS s ON s.conversation_id = m.conversation_id AND s.user_id = m.user_id
    WHERE m.conversation_id = ? AND m.left_seq IS NULL ORDER BY m.user_id
"""
_OF_MEMBERS = f"""
    SELECT {names(_STATUS, "s")} FROM json_each(?2) AS named
    CROSS JOIN message_status AS s ON s.conversation_id = ?1 AND s.user_id = named.value ORDER BY s.user_id
"""
_NAMED = f"""
    SELECT {names(_STATUS, "s")} FROM json_each(?) AS named CROSS JOIN message_status AS s
    ON s.conversation_id = named.value ->> 0 AND s.user_id = named.value ->> 1
"""
_PUT = Bulk(_TABLE, f"INSERT OR REPLACE INTO message_status ({names(_STATUS)}) VALUES {{values}}", len(_STATUS))
# A late mark must not bring back the row of someone who left, so it needs a present member. Its cursor counts for
# nothing (since_seq 0): a member who never read anything has the cursor of joining.
_DELIVER = Bulk(
    _TABLE,
    f"""
    INSERT INTO message_status ({names(_STATUS)})
    SELECT v.column1, v.column2, v.column3, 0, 0, NULL, 0, 0, v.column4, 0, NULL FROM (VALUES {{values}}) AS v
    CROSS JOIN members AS m ON m.conversation_id = v.column1 AND m.user_id = v.column2 AND m.left_seq IS NULL
    WHERE true
    ON CONFLICT DO UPDATE SET delivered_seq = excluded.delivered_seq, delivered_ms = excluded.delivered_ms
    WHERE excluded.delivered_seq > delivered_seq
    RETURNING conversation_id, user_id
    """,
    columns=4,
)


class SqliteStatuses(Port):
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        bindings = (user_id, json_of(conversation_ids))
        return await self._read(lambda tx: {row[0]: _status(row) for row in tx.rows(_TABLE, _STATUSES_NAMED, bindings)})

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return await self._read(lambda tx: [_status(row) for row in tx.rows(_TABLE, _STATUSES_OF, (conversation_id,))])

    async def of_members(self, conversation_id: str, user_ids: Iterable[str]) -> list[Status]:
        bindings = (conversation_id, json_of(user_ids))
        return await self._read(lambda tx: [_status(row) for row in tx.rows(_TABLE, _OF_MEMBERS, bindings)])

    async def put(self, status: Status) -> Status:
        (answer,) = await self.put_each([status])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def put_each(self, statuses: Sequence[Status]) -> list[Status | StoreError]:
        return await self._write(partial(_put_each, tuple(statuses)))

    async def deliver(self, marks: Sequence[tuple[str, str, int]], at_ms: int = 0) -> set[tuple[str, str]]:
        return await self._write(lambda tx: set(_DELIVER.changed(tx, [(*mark, at_ms) for mark in marks])))


def _put_each(statuses: Sequence[Status], tx: Transaction) -> list[Status | StoreError]:
    """Put all with as many statements as for one. A status that conflicts writes nothing."""
    places = [(status.conversation_id, status.user_id) for status in statuses]
    found = {row[:2]: _status(row) for row in tx.rows(_TABLE, _NAMED, (json_of(places),))}
    before = (found.get(place) or Status(conversation_id=place[0], user_id=place[1]) for place in places)
    answers = [_following(*pair) for pair in zip(before, statuses, strict=True)]
    stored = [answer for answer in answers if isinstance(answer, Status)]
    _PUT.write(tx, [STATUSES.row_of(status) for status in stored])
    uncount_rows(tx, stored)
    return answers


def _following(before: Status, status: Status) -> Status | StoreError:
    if before.version != status.version - 1:
        return Conflict(f"the status has version {before.version}, not {status.version - 1}")
    return with_marks_of(before, status)
