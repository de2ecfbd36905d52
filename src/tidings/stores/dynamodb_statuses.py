"""message_status, users, api_keys and the store's identity on DynamoDB.

A status is stored over the version it was made from, in one conditional write; ticks go forward only. A receipt never
makes a status for someone who is no member: a first one is written together with a check of the membership. Called by
tables_dynamodb.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidings.clock import Clock
from tidings.errors import Conflict, Throttled
from tidings.model import ApiKey, Status, User
from tidings.stores.dynamodb_calls import Op, Store, assign, check, delete, put, remove, update
from tidings.stores.dynamodb_items import (
    attributes,
    from_item,
    member_key,
    plain,
    status_item,
    status_of,
    to_item,
    unique,
    values,
)
from tidings.stores.dynamodb_wire import Canceled, ConditionFailed

_TRIES_MAX = 20  # of a row that others change all the time
_KEYS_PAGE = 100  # api_keys in one look
_NONE = "attribute_not_exists(#conversation_id)"
_MEMBER = "attribute_exists(#user_id) AND attribute_not_exists(#left_seq)"


# --- statuses -------------------------------------------------------------------------------------


async def get(store: Store, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
    keys = [member_key(conversation_id, user_id) for conversation_id in unique(conversation_ids)]
    items = await store.batch_get("message_status", keys)
    return {status.conversation_id: status for status in map(status_of, items)}


async def of_conversation(store: Store, conversation_id: str) -> list[Status]:
    where = "#conversation_id = :conversation_id"
    pages = store.query("message_status", where, values(conversation_id=conversation_id))
    return [status_of(item) for item in await store.all(pages)]


async def put_status(store: Store, status: Status) -> Status:
    """Mostly one write: the caller has read the row. If a receipt came in between, its ticks are taken over."""
    for _ in range(_TRIES_MAX):
        op = _put(status)
        try:
            await store.write(op)
            return status
        except ConditionFailed as failed:
            item = await store.standing(op, failed)
            if item is not None and failed.is_repeated and _is_done(status, status_of(item)):
                return status_of(item)
            nothing = Status(conversation_id=status.conversation_id, user_id=status.user_id)
            found = status_of(item) if item is not None else nothing
            if found.version != status.version - 1:
                raise Conflict(f"the status has version {found.version}, not {status.version - 1}") from None
            status = msgspec.structs.replace(
                status,
                delivered_seq=max(found.delivered_seq, status.delivered_seq),
                read_seq=max(found.read_seq, status.read_seq),
            )
    raise Throttled("receipts change the status all the time")


def _put(status: Status) -> Op:
    unchanged = "#version = :seen AND #delivered_seq <= :delivered_seq AND #read_seq <= :read_seq"
    condition = f"{_NONE} OR ({unchanged})" if status.version == 1 else unchanged
    held = values(seen=status.version - 1, delivered_seq=status.delivered_seq, read_seq=status.read_seq)
    key = member_key(status.conversation_id, status.user_id)
    return put("message_status", key, status_item(status), condition, held)


def _is_done(wanted: Status, found: Status) -> bool:
    """Whether the row is what an earlier, unanswered try of ours made of it (and receipts since)."""
    ticks = {"delivered_seq": 0, "read_seq": 0}
    is_same = msgspec.structs.replace(wanted, **ticks) == msgspec.structs.replace(found, **ticks)
    return is_same and found.delivered_seq >= wanted.delivered_seq and found.read_seq >= wanted.read_seq


async def deliver(store: Store, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
    highest: dict[tuple[str, str], int] = {}
    for conversation_id, user_id, delivered_seq in marks:
        key = (conversation_id, user_id)
        highest[key] = max(delivered_seq, highest.get(key, 0))
    moved = await store.each(list(highest.items()), lambda mark: _deliver(store, *mark[0], mark[1]))
    return {key for key, is_moved in zip(highest, moved, strict=True) if is_moved}


async def _deliver(store: Store, conversation_id: str, user_id: str, delivered_seq: int) -> bool:
    """Whether it moved."""
    key = member_key(conversation_id, user_id)
    raise_it = update(
        "message_status",
        key,
        "SET #delivered_seq = :delivered_seq",
        values(delivered_seq=delivered_seq),
        "#delivered_seq < :delivered_seq",
    )
    # Its cursor counts for nothing (since_seq 0): who never read anything stands where the membership began.
    first = Status(conversation_id=conversation_id, user_id=user_id, delivered_seq=delivered_seq)
    begin = [put("message_status", key, status_item(first), _NONE), check("members", key, _MEMBER)]
    for _ in range(_TRIES_MAX):
        try:
            await store.write(raise_it)
            return True
        except ConditionFailed as failed:
            standing = await store.standing(raise_it, failed)
            if standing is not None and status_of(standing).delivered_seq >= delivered_seq:
                return False  # not later than what is there
            if standing is not None:
                continue  # it appeared since: raise it after all
        try:
            await store.transact(begin)
            return True
        except Canceled as canceled:
            if canceled.reasons[1].is_failed:
                return False  # no member (any more)
    raise Throttled("the status comes and goes")


# --- accounts -------------------------------------------------------------------------------------


async def user(store: Store, user_id: str) -> User | None:
    item = await store.get("users", attributes(user_id=user_id))
    return from_item(User, item) if item is not None else None


async def put_user(store: Store, user_: User) -> None:
    key, since = attributes(user_id=user_.user_id), user_.tokens_valid_after
    fields: dict[str, object] = {"name": user_.name, "avatar_url": user_.avatar_url}
    change, held = assign({**fields, "tokens_valid_after": since})
    later = "attribute_not_exists(#user_id) OR #tokens_valid_after <= :tokens_valid_after"
    try:
        await store.write(update("users", key, change, held, later))
    except ConditionFailed:
        # A revocation that is later stays; it never goes back, so no condition is needed any more.
        change, held = assign(fields)
        await store.write(update("users", key, change, held))


async def api_key(store: Store, key_hash: str) -> ApiKey | None:
    item = await store.get("api_keys", attributes(key_hash=key_hash))
    return from_item(ApiKey, item) if item is not None else None


async def put_api_key(store: Store, key: ApiKey) -> None:
    await store.write(put("api_keys", attributes(key_hash=key.key_hash), to_item(key)))


async def api_keys(store: Store) -> list[ApiKey]:
    found = [from_item(ApiKey, item) for item in await store.all(store.scan("api_keys", _KEYS_PAGE))]
    return sorted(found, key=lambda key: (key.name, key.created_ms, key.key_hash))


async def remove_api_key(store: Store, key_hash: str) -> bool:
    return await remove(store, delete("api_keys", attributes(key_hash=key_hash), "attribute_exists(#key_hash)"))


async def store_epoch(store: Store, clock: Clock) -> str:
    """Made by whoever comes first."""
    key = attributes(key="store_epoch")
    made = put("meta", key, key | attributes(value=clock.random_id()), "attribute_not_exists(#key)")
    for _ in range(_TRIES_MAX):
        item = await store.get("meta", key)
        if item is not None:
            return str(plain(item["value"]))
        try:
            await store.write(made)
        except ConditionFailed:
            continue  # by somebody else, or by a try of ours that was not answered
    raise Throttled("the store's epoch comes and goes")


async def renew_epoch(store: Store, clock: Clock) -> str:
    """For tables that were put back from a copy: numbers from after it count no more."""
    epoch = clock.random_id()
    key = attributes(key="store_epoch")
    await store.write(put("meta", key, key | attributes(value=epoch)))
    return epoch
