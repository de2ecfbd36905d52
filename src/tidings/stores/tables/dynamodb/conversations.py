"""conversation_heads and members on DynamoDB: create, rename, delete.

A conversation that fits is created in one transaction. A larger one is reserved first, by a head row without a `head`,
then its members and rows are written, and the head comes last: until then nobody sees it. Deleting goes the other way:
the `head` is removed first, in one commit with the recheck for the archiver, so that no node can append. The row itself
goes last, so that a node that finds it half deleted can finish.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.errors import StoreError, Unavailable
from tidings.model import Head, Member, Row
from tidings.stores.tables.dynamodb.append.checked import put_recheck, put_row
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client import operations as calls
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed, Item
from tidings.stores.tables.dynamodb.client.items import (
    attributes,
    head_key,
    head_of,
    member_key,
    member_of,
    message_key,
    plain,
    row_item,
    row_key,
    sent_key,
    to_item,
    unique,
    values,
)
from tidings.stores.tables.dynamodb.client.operations import Op, Port, Store, assign, put, remove, update
from tidings.stores.tables.dynamodb.records import delete_records
from tidings.stores.tables.records import of_conversation
from tidings.stores.tables.values import EVERY_SEGMENT, Recheck

_NEW = "attribute_not_exists(#conversation_id)"
_NOT_PRESENT = f"{_NEW} OR attribute_exists(#left_seq)"
_OF = "#conversation_id = :conversation_id"
_ABANDONED = "attribute_not_exists(#head) AND #deleting_ms < :old_ms"  # a deletion
_LEFT_OVER = (  # as `_is_left_over` says
    f"{_ABANDONED} OR attribute_exists(#conversation_id) AND attribute_not_exists(#head) "
    "AND attribute_not_exists(#deleting_ms) AND (attribute_not_exists(#expires) OR #expires <= :now_s)"
)
_CREATE_TRIES = 3
_LOG_CHUNK = 500  # entries of a deleted conversation per round: a bounded piece of memory


class DynamoConversations(Port):
    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]:
        items = await self._store.batch_get("conversation_heads", [head_key(id_) for id_ in unique(conversation_ids)])
        found = [head for head in map(head_of, items) if head is not None]
        return {head.conversation_id: head for head in found}

    async def members(self, conversation_id: str) -> list[Member]:
        pages = self._store.query(
            "members", _OF, values(conversation_id=conversation_id), matching="attribute_not_exists(#left_seq)"
        )
        return [member_of(item) for item in await self._store.all(pages)]

    async def members_after(self, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        pages = self._store.query(
            "members",
            f"{_OF} AND #user_id > :after_id" if after_id else _OF,  # a key is never compared with an empty one
            values(conversation_id=conversation_id) | (values(after_id=after_id) if after_id else {}),
            matching="attribute_not_exists(#left_seq)",
            limit=limit,
        )
        return [member_of(item) for item in await self._store.first(pages, limit)]

    async def named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        return [member for member in await self._named(conversation_id, user_ids) if member.left_seq is None]

    async def former(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        return [member for member in await self._named(conversation_id, user_ids) if member.left_seq is not None]

    async def _named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        keys = [member_key(conversation_id, user_id) for user_id in unique(user_ids)]
        return [member_of(item) for item in await self._store.batch_get("members", keys)]

    async def invite(self, members: Sequence[Member], rows: Sequence[Row]) -> None:
        async def invite_one(pair: tuple[Member, Row]) -> None:
            member, row = pair
            key = member_key(member.conversation_id, member.user_id)
            try:
                await self._store.transact([put("members", key, to_item(member), _NOT_PRESENT), put_row(row)])
            except Canceled as canceled:
                if not canceled.reasons[0].is_failed:
                    raise  # else the user is a member now

        await self._store.each(list(zip(members, rows, strict=True)), invite_one)

    async def withdraw(self, conversation_id: str, user_id: str) -> bool:
        row = calls.delete("conversations", row_key(user_id, conversation_id), "#is_invited = :yes", values(yes=True))
        return await remove(self._store, row)

    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        for _ in range(_CREATE_TRIES):
            ops = [_put_head(head, _NEW), *map(_put_member, members), *map(put_row, rows)]
            if len(ops) <= bounds.TRANSACTION_ITEMS_MAX:
                standing = await _create_at_once(self._store, head.conversation_id, ops)
            else:
                standing = await _create_large(self._store, head, members, rows)
            if standing is None:
                return True
            if not _is_left_over(standing, self._store.clock.now_ms()):
                return False
            await _delete_left_over(self._store, head.conversation_id)
        return False

    async def rename_rows(self, conversation_id: str) -> None:
        """A transaction has no room for the rows of all members. A later rename that was faster is found at the end."""
        done: dict[str, object] = {}
        while (head := (await self.heads([conversation_id])).get(conversation_id)) is not None:
            named: dict[str, object] = {"name": head.name, "avatar_url": head.avatar_url}
            if named == done:
                return
            await self._rename_rows(conversation_id, named)
            done = named

    async def _rename_rows(self, conversation_id: str, named: dict[str, object]) -> None:
        change, held = assign(named)

        async def rename_row(member: Member) -> None:
            key = row_key(member.user_id, conversation_id)
            try:
                await self._store.write(update("conversations", key, change, held, "attribute_exists(#user_id)"))
            except ConditionFailed:
                return  # left meanwhile

        await self._store.each(await self.members(conversation_id), rename_row)

    async def delete(self, conversation_id: str) -> None:
        await self._store.transact(
            [_mark_deleted(self._store, conversation_id), _recheck_all(self._store, conversation_id)]
        )
        await _delete_marked(self._store, conversation_id)


# --- create ---------------------------------------------------------------------------------------


def _is_left_over(item: Item, now_ms: int) -> bool:
    """Whether the row is left over from a deletion or a creation that no node has worked on for long."""
    if "head" in item:
        return False
    if "deleting_ms" in item:
        return bool(plain(item["deleting_ms"]) < now_ms - bounds.DELETING_S * 1000)
    return "expires" not in item or plain(item["expires"]) * 1000 < now_ms


async def _delete_left_over(store: Store, conversation_id: str) -> None:
    """Delete what is left over, unless another node was first: it may have created the conversation anew."""
    now_ms = store.clock.now_ms()
    mark = _mark_deleted(
        store, conversation_id, _LEFT_OVER, old_ms=now_ms - bounds.DELETING_S * 1000, now_s=now_ms // 1000
    )
    try:
        await store.transact([mark, _recheck_all(store, conversation_id)])
    except Canceled:
        return
    await _delete_marked(store, conversation_id)


async def _create_at_once(store: Store, conversation_id: str, ops: Sequence[Op]) -> Item | None:
    """Create it in one transaction. Returns None, or the row that exists already."""
    try:
        await store.transact(ops)
    except Canceled as canceled:
        found = canceled.reasons[0].item or await store.get("conversation_heads", head_key(conversation_id))
        return found if found is not None else {}  # deleted since: to be tried again
    return None


async def _create_large(store: Store, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> Item | None:
    mine = store.clock.random_id(16)
    expires = store.clock.now_ms() // 1000 + bounds.RESERVED_TTL_S
    key = head_key(head.conversation_id)
    reserve = put("conversation_heads", key, key | attributes(reserved=mine, expires=expires), _NEW)
    try:
        await store.write(reserve)
    except ConditionFailed as failed:
        standing = await store.standing(reserve, failed)
        if standing is None or standing.get("reserved") != {"S": mine}:
            return standing or key | attributes(expires=expires)
    try:
        await store.put_many("members", map(to_item, members))
        await store.put_many("conversations", map(row_item, rows))
        await store.write(_put_head(head, "#reserved = :mine", values(mine=mine)))
    except ConditionFailed as failed:
        if not failed.is_repeated:  # else it was we who put it, by a try that was not answered
            raise Unavailable("the reservation was lost", is_ambiguous=True) from failed
    except StoreError as error:
        raise Unavailable(str(error), is_ambiguous=True) from error
    return None


def _put_head(head: Head, condition: str, held: Item | None = None) -> Op:
    return put("conversation_heads", head_key(head.conversation_id), to_item(head), condition, held)


def _put_member(member: Member) -> Op:
    return put("members", member_key(member.conversation_id, member.user_id), to_item(member))


# --- rename and delete ----------------------------------------------------------------------------


async def finish_deletion(store: Store, conversation_id: str) -> bool:
    """Finish a deletion that was interrupted. False: its node may still be at work."""
    old_ms = store.clock.now_ms() - bounds.DELETING_S * 1000
    mark = _mark_deleted(store, conversation_id, _ABANDONED, old_ms=old_ms)
    try:
        await store.write(mark)
    except ConditionFailed as failed:
        standing = await store.standing(mark, failed)
        return standing is None or "deleting_ms" not in standing
    await _delete_marked(store, conversation_id)
    return True


async def _delete_marked(store: Store, conversation_id: str) -> None:
    of_it = values(conversation_id=conversation_id)
    people = [plain(item["user_id"]) for item in await store.all(store.query("members", _OF, of_it, only="#user_id"))]
    await store.delete_many("conversations", [row_key(user_id, conversation_id) for user_id in people])
    read_by = await store.all(store.query("message_status", _OF, of_it, only="#user_id"))
    await store.delete_many("message_status", [member_key(conversation_id, plain(item["user_id"])) for item in read_by])
    while await delete_some(store, conversation_id):  # an append that began before may still add to it
        try:
            await store.write(_mark_deleted(store, conversation_id, "attribute_exists(#deleting_ms)"))
        except ConditionFailed:
            return  # a node that took us for dead has finished it, and may have created it anew
    await delete_records(store, of_conversation(conversation_id))
    await store.delete_many("members", [member_key(conversation_id, user_id) for user_id in people])
    await remove(store, calls.delete("conversation_heads", head_key(conversation_id), "attribute_not_exists(#head)"))


def _recheck_all(store: Store, conversation_id: str) -> Op:
    """Ask the archiver to remove the segments, and the rest of the conversation if this deletion is interrupted."""
    mark, now_ms = store.clock.random_id(8), store.clock.now_ms()
    return put_recheck(
        Recheck(conversation_id=conversation_id, s3_ref=EVERY_SEGMENT, why="deleted", mark=mark, since_ms=now_ms)
    )


def _mark_deleted(store: Store, conversation_id: str, condition: str = "", **held: object) -> Op:
    """Mark the conversation as deleted. The time says that a node is deleting it, so that no other node begins."""
    change = "SET #deleting_ms = :now_ms REMOVE #head, #reserved, #expires"
    held["now_ms"] = store.clock.now_ms()
    return update("conversation_heads", head_key(conversation_id), change, values(**held), condition)


async def delete_some(store: Store, conversation_id: str, up_to_seq: int | None = None) -> bool:
    """Delete some of the log from its beginning, dedupe rows first: they are found through their messages only.

    False: nothing is left, at least not up to this number.
    """
    of_it = values(conversation_id=conversation_id)
    pages = store.query("messages", _OF, of_it, limit=_LOG_CHUNK, only="#seq_no, #sender_id, #message_id")
    found = await store.first(pages, _LOG_CHUNK)
    if up_to_seq is not None:
        found = [item for item in found if plain(item["seq_no"]) <= up_to_seq]
    sent = [item for item in found if "sender_id" in item and "message_id" in item]
    keys = [sent_key(conversation_id, plain(item["sender_id"]), plain(item["message_id"])) for item in sent]
    await store.delete_many("sent", keys)
    await store.delete_many("messages", [message_key(conversation_id, plain(item["seq_no"])) for item in found])
    return bool(found)
