"""message_status on DynamoDB.

A status is stored over the version it was made from, in one conditional write; receipts go forward only. A receipt
never makes a status for a user who is no member: a first status is written together with a check of the membership.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings.errors import Conflict, StoreError, Throttled
from tidings.model import Status
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed
from tidings.stores.tables.dynamodb.client.items import member_key, plain, status_item, status_of, unique, values
from tidings.stores.tables.dynamodb.client.operations import Op, Port, Store, check, put, update
from tidings.stores.tables.dynamodb.inboxes import uncount_row
from tidings.stores.tables.values import with_marks_of
from tidings.tasks import attempt

_TRIES_MAX = 20  # of a row that others change all the time
_NONE = "attribute_not_exists(#conversation_id)"
_UNCHANGED = "#version = :seen" + "".join(  # and each mark is lower, or came where it is at the time that is put
    f" AND (#{mark}_seq < :{mark}_seq OR #{mark}_seq = :{mark}_seq AND "
    f"(attribute_not_exists(#{mark}_ms) OR #{mark}_ms = :{mark}_ms))"
    for mark in ("delivered", "read")
)
_MEMBER = "attribute_exists(#user_id) AND attribute_not_exists(#left_seq)"


class DynamoStatuses(Port):
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        keys = [member_key(conversation_id, user_id) for conversation_id in unique(conversation_ids)]
        items = await self._store.batch_get("message_status", keys)
        return {status.conversation_id: status for status in map(status_of, items)}

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        where = "#conversation_id = :conversation_id"
        pages = self._store.query("message_status", where, values(conversation_id=conversation_id))
        of_it = values(conversation_id=conversation_id)
        members = self._store.query(
            "members", where, of_it, matching="attribute_not_exists(#left_seq)", only="#user_id"
        )
        present = {plain(item["user_id"]) for item in await self._store.all(members)}
        found = [status_of(item) for item in await self._store.all(pages)]
        return [status for status in found if status.user_id in present]

    async def of_members(self, conversation_id: str, user_ids: Iterable[str]) -> list[Status]:
        keys = [member_key(conversation_id, user_id) for user_id in unique(user_ids)]
        items = await self._store.batch_get("message_status", keys)
        return sorted(map(status_of, items), key=lambda status: status.user_id)

    async def put(self, status: Status) -> Status:
        """Store a status, mostly with one write: the caller has read the row. Receipts that came meanwhile are kept."""
        await uncount_row(self._store, status)
        for _ in range(_TRIES_MAX):
            op = _put(status)
            try:
                await self._store.write(op)
                return status
            except ConditionFailed as failed:
                item = await self._store.standing(op, failed)
                if item is not None and failed.is_repeated and _is_done(status, status_of(item)):
                    return status_of(item)
                nothing = Status(conversation_id=status.conversation_id, user_id=status.user_id)
                found = status_of(item) if item is not None else nothing
                if found.version != status.version - 1:
                    raise Conflict(f"the status has version {found.version}, not {status.version - 1}") from None
                status = with_marks_of(found, status)
        raise Throttled("receipts change the status all the time")

    async def put_each(self, statuses: Sequence[Status]) -> list[Status | StoreError]:
        return await self._store.each(statuses, lambda status: attempt(self.put(status)))

    async def deliver(self, marks: Sequence[tuple[str, str, int]], at_ms: int = 0) -> set[tuple[str, str]]:
        highest: dict[tuple[str, str], int] = {}
        for conversation_id, user_id, delivered_seq in marks:
            key = (conversation_id, user_id)
            highest[key] = max(delivered_seq, highest.get(key, 0))
        moved = await self._store.each(
            list(highest.items()), lambda mark: _deliver(self._store, *mark[0], mark[1], at_ms)
        )
        return {key for key, is_moved in zip(highest, moved, strict=True) if is_moved}


def _put(status: Status) -> Op:
    condition = f"{_NONE} OR ({_UNCHANGED})" if status.version == 1 else _UNCHANGED
    names = ("delivered_seq", "delivered_ms", "read_seq", "read_ms")
    held = values(seen=status.version - 1, **{name: getattr(status, name) for name in names})
    key = member_key(status.conversation_id, status.user_id)
    return put("message_status", key, status_item(status), condition, held)


def _is_done(wanted: Status, found: Status) -> bool:
    """Whether an earlier, unanswered try of ours wrote this row. Receipts may have moved since."""
    receipts: dict[str, Any] = {"delivered_seq": 0, "read_seq": 0, "delivered_ms": 0, "read_ms": 0, "read_before": ()}
    is_same = msgspec.structs.replace(wanted, **receipts) == msgspec.structs.replace(found, **receipts)
    return is_same and found.delivered_seq >= wanted.delivered_seq and found.read_seq >= wanted.read_seq


async def _deliver(store: Store, conversation_id: str, user_id: str, delivered_seq: int, at_ms: int) -> bool:
    """Raise the delivered mark. Returns whether it moved."""
    key = member_key(conversation_id, user_id)
    raise_it = update(
        "message_status",
        key,
        "SET #delivered_seq = :delivered_seq, #delivered_ms = :delivered_ms",
        values(delivered_seq=delivered_seq, delivered_ms=at_ms),
        "#delivered_seq < :delivered_seq",
    )
    # Its cursor counts for nothing (since_seq 0): a member who never read anything has the cursor of joining.
    first = Status(conversation_id=conversation_id, user_id=user_id, delivered_seq=delivered_seq, delivered_ms=at_ms)
    begin = [put("message_status", key, status_item(first), _NONE), check("members", key, _MEMBER)]
    for _ in range(_TRIES_MAX):
        try:
            await store.write(raise_it)
            return True
        except ConditionFailed as failed:
            standing = await store.standing(raise_it, failed)
            if standing is not None and status_of(standing).delivered_seq >= delivered_seq:
                return failed.is_repeated  # not later than what is there, unless an unanswered try of ours moved it
            if standing is not None:
                continue  # it appeared since: raise it after all
        try:
            await store.transact(begin)
            return True
        except Canceled as canceled:
            if canceled.reasons[1].is_failed:
                return False  # no member (any more)
    raise Throttled("the status comes and goes")
