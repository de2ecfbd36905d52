"""conversation_heads and members on DynamoDB: create, rename, delete.

A conversation that fits is created in one transaction. A larger one is reserved first, by a head row without a `head`,
then its members and rows are written, and the head comes last: until then nobody sees it. Deleting goes the other way:
the `head` is taken first, together with the word to the archiver, so that nobody can append, and the row itself goes
last, so that whoever finds it half deleted can finish. Called by tables_dynamodb.py and dynamodb_archive.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings import bounds
from tidings.errors import Missing, StoreError, Unavailable
from tidings.model import Head, Member, Row
from tidings.stores import dynamodb_calls as calls
from tidings.stores.dynamodb_calls import Op, Store, assign, put, remove, update
from tidings.stores.dynamodb_careful import put_recheck, put_row
from tidings.stores.dynamodb_heads import EXISTS
from tidings.stores.dynamodb_items import (
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
from tidings.stores.dynamodb_wire import Canceled, ConditionFailed, Item
from tidings.stores.ports_archive import EVERY_SEGMENT, Recheck

_NEW = "attribute_not_exists(#conversation_id)"
_OF = "#conversation_id = :conversation_id"
_CREATE_TRIES = 3
_LOG_CHUNK = 500  # entries of a deleted conversation per round: a bounded piece of memory


async def heads(store: Store, conversation_ids: Iterable[str]) -> dict[str, Head]:
    items = await store.batch_get("conversation_heads", [head_key(id_) for id_ in unique(conversation_ids)])
    found = [head for head in map(head_of, items) if head is not None]
    return {head.conversation_id: head for head in found}


async def members(store: Store, conversation_id: str) -> list[Member]:
    pages = store.query(
        "members", _OF, values(conversation_id=conversation_id), matching="attribute_not_exists(#left_seq)"
    )
    return [member_of(item) for item in await store.all(pages)]


# --- create ---------------------------------------------------------------------------------------


async def create(store: Store, head: Head, members_: Sequence[Member], rows: Sequence[Row]) -> bool:
    for _ in range(_CREATE_TRIES):
        ops = [_put_head(head, _NEW), *map(_put_member, members_), *map(put_row, rows)]
        if len(ops) <= bounds.DYNAMODB_TRANSACTION_ITEMS_MAX:
            standing = await _create_at_once(store, head.conversation_id, ops)
        else:
            standing = await _create_large(store, head, members_, rows)
        if standing is None:
            return True
        if not _is_left_over(standing, store.clock.now_ms()):
            return False
        await delete(store, head.conversation_id)
    return False


def _is_left_over(item: Item, now_ms: int) -> bool:
    """Of a deletion or a creation that nobody has been at for long."""
    if "head" in item:
        return False
    if "deleting_ms" in item:
        return bool(plain(item["deleting_ms"]) < now_ms - bounds.DYNAMODB_DELETING_S * 1000)
    return "expires" not in item or plain(item["expires"]) * 1000 < now_ms


async def _create_at_once(store: Store, conversation_id: str, ops: Sequence[Op]) -> Item | None:
    """None, or the row that is there."""
    try:
        await store.transact(ops)
    except Canceled as canceled:
        found = canceled.reasons[0].item or await store.get("conversation_heads", head_key(conversation_id))
        return found if found is not None else {}  # deleted since: to be tried again
    return None


async def _create_large(store: Store, head: Head, members_: Sequence[Member], rows: Sequence[Row]) -> Item | None:
    mine = store.clock.random_id(16)
    expires = store.clock.now_ms() // 1000 + bounds.DYNAMODB_RESERVED_TTL_S
    key = head_key(head.conversation_id)
    reserve = put("conversation_heads", key, key | attributes(reserved=mine, expires=expires), _NEW)
    try:
        await store.write(reserve)
    except ConditionFailed as failed:
        standing = await store.standing(reserve, failed)
        if standing is None or standing.get("reserved") != {"S": mine}:
            return standing or key | attributes(expires=expires)
    try:
        await store.put_many("members", map(to_item, members_))
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


async def rename(store: Store, conversation_id: str, *, name: str | None, avatar_url: str | None) -> None:
    """The head first: whoever reads a row that is not renamed yet finds the new name there."""
    change, held = assign({"name": name, "avatar_url": avatar_url})
    try:
        await store.write(update("conversation_heads", head_key(conversation_id), change, held, EXISTS))
    except ConditionFailed:
        raise Missing(conversation_id) from None

    async def rename_row(member: Member) -> None:
        key = row_key(member.user_id, conversation_id)
        try:
            await store.write(update("conversations", key, change, held, "attribute_exists(#user_id)"))
        except ConditionFailed:
            return  # left meanwhile

    await store.each(await members(store, conversation_id), rename_row)


async def delete(store: Store, conversation_id: str) -> None:
    await store.transact([_mark_deleted(store, conversation_id), _recheck_all(store, conversation_id)])
    await _delete_marked(store, conversation_id)


async def finish_deletion(store: Store, conversation_id: str) -> bool:
    """False: somebody may still be at it."""
    old_ms = store.clock.now_ms() - bounds.DYNAMODB_DELETING_S * 1000
    abandoned = "attribute_not_exists(#head) AND #deleting_ms < :old_ms"
    mark = _mark_deleted(store, conversation_id, abandoned, old_ms=old_ms)
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
    while await _delete_some(store, conversation_id):  # an append that began before may still add to it
        try:
            await store.write(_mark_deleted(store, conversation_id, "attribute_exists(#deleting_ms)"))
        except ConditionFailed:
            return  # somebody who took us for dead has finished it, and may have created it anew
    await store.delete_many("members", [member_key(conversation_id, user_id) for user_id in people])
    await remove(store, calls.delete("conversation_heads", head_key(conversation_id), "attribute_not_exists(#head)"))


def _recheck_all(store: Store, conversation_id: str) -> Op:
    """What it has in the cold tier goes too, and the rest of it, should we not get to the end."""
    mark, now_ms = store.clock.random_id(8), store.clock.now_ms()
    return put_recheck(
        Recheck(conversation_id=conversation_id, s3_ref=EVERY_SEGMENT, why="deleted", mark=mark, since_ms=now_ms)
    )


def _mark_deleted(store: Store, conversation_id: str, condition: str = "", **held: object) -> Op:
    """From now on it does not exist. The time says that somebody is at it, so that nobody else begins."""
    change = "SET #deleting_ms = :now_ms REMOVE #head, #reserved, #expires"
    held["now_ms"] = store.clock.now_ms()
    return update("conversation_heads", head_key(conversation_id), change, values(**held), condition)


async def _delete_some(store: Store, conversation_id: str) -> bool:
    """Some of the log, dedupe rows first: they are found through their messages only."""
    of_it = values(conversation_id=conversation_id)
    pages = store.query("messages", _OF, of_it, limit=_LOG_CHUNK, only="#seq_no, #sender_id, #message_id")
    found = await store.first(pages, _LOG_CHUNK)
    sent = [item for item in found if "sender_id" in item and "message_id" in item]
    keys = [sent_key(conversation_id, plain(item["sender_id"]), plain(item["message_id"])) for item in sent]
    await store.delete_many("sent", keys)
    await store.delete_many("messages", [message_key(conversation_id, plain(item["seq_no"])) for item in found])
    return bool(found)
