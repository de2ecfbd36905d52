"""The archiver's side of the tables on DynamoDB.

The fence is an item of `meta` that each transaction of moves checks, so an archiver that comes late changes nothing.
The head row holds how far its conversation was archived, because a walk over the heads reads that row anyway. The
rechecks are a small table of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.errors import Conflict, Throttled
from tidings.stores.tables.dynamodb.append.checked import put_recheck
from tidings.stores.tables.dynamodb.append.heads import EXISTS
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed, Item
from tidings.stores.tables.dynamodb.client.items import (
    attributes,
    content_of,
    from_item,
    head_key,
    message_key,
    plain,
    to_item,
    values,
)
from tidings.stores.tables.dynamodb.client.operations import Op, Store, assign, check, delete, put, remove, update
from tidings.stores.tables.dynamodb.conversations import delete_some, finish_deletion
from tidings.stores.tables.values import Candidate, Move, Recheck

_FENCE = attributes(key="archive_fence")
_ID = attributes(key="archive_id")
_MOVES_MAX = bounds.TRANSACTION_ITEMS_MAX - 1  # one item is the fence
_TRIES_MAX = 20  # of moves that others overtake all the time


class DynamoArchive:
    """The ports Archives and Rechecks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._archive_id: str | None = None

    async def id(self) -> str:
        if self._archive_id is None:
            made = update(
                "meta", _ID, "SET #value = if_not_exists(#value, :made)", values(made=self._store.clock.random_id(6))
            )
            item = await self._store.write(made, returns="ALL_NEW")
            self._archive_id = str(plain(item["value"]))
        return self._archive_id

    async def take_fence(self) -> int:
        """Take the next fence. A lost answer skips a number, which does no harm."""
        raised = await self._store.write(update("meta", _FENCE, "ADD #fence :one", values(one=1)), returns="ALL_NEW")
        return int(plain(raised["fence"]))

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        after = head_key(after_id) if after_id else None
        items, next_key = await self._store.walk("conversation_heads", limit, after)
        found = [_candidate(item) for item in items if _is_waiting(item, before_ms)]
        return found, str(plain(next_key["conversation_id"])) if next_key is not None else None

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        change, held = assign({"archived_seq": archived_seq, "archive_next_ms": next_ms})
        forward = f"{EXISTS} AND (attribute_not_exists(#archived_seq) OR #archived_seq <= :archived_seq)"
        try:
            await self._store.write(update("conversation_heads", head_key(conversation_id), change, held, forward))
        except ConditionFailed:
            return  # further already, or gone

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        moved: set[int] = set()
        for start in range(0, len(moves), _MOVES_MAX):
            moved |= await self._move(fence, conversation_id, moves[start : start + _MOVES_MAX])
        return moved

    async def _move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        """Move in one transaction. Where rows changed meanwhile, try again without them."""
        guard = check("meta", _FENCE, "#fence = :fence", values(fence=fence))
        for _ in range(_TRIES_MAX):
            if not moves:
                return set()
            try:
                await self._store.transact([guard, *(_op(conversation_id, move) for move in moves)])
                return {move.seq_no for move in moves}
            except Canceled as canceled:
                is_fenced, *reasons = (reason.is_failed for reason in canceled.reasons)
                if is_fenced:
                    raise Conflict("another archiver has taken over") from None
                moves = [move for move, is_failed in zip(moves, reasons, strict=True) if not is_failed]
        raise Throttled("the messages to archive change all the time")

    async def cut(self, conversation_id: str, *, up_to_seq: int) -> bool:
        """The floor rises first: a reader never sees a gap. The rows that are left below it go with the next try."""
        key, held = head_key(conversation_id), values(up_to=up_to_seq)
        is_lower = f"{EXISTS} AND #floor_seq < :up_to"
        changes = (
            update("conversation_heads", key, "SET #floor_seq = :up_to", held, is_lower),
            update(
                "conversation_heads", key, "REMOVE #preview, #last_message", held, f"{EXISTS} AND #last_seq <= :up_to"
            ),
        )
        for change in changes:
            try:
                await self._store.write(change)
            except ConditionFailed:
                continue  # higher already, or the last message is above it
        return not await delete_some(self._store, conversation_id, up_to_seq)

    async def finish_deletion(self, conversation_id: str) -> bool:
        return await finish_deletion(self._store, conversation_id)

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        op = put_recheck(recheck)
        if only_new:
            op = put(op.table, op.key, to_item(recheck), "attribute_not_exists(#s3_ref)")
        try:
            await self._store.write(op)
        except ConditionFailed:
            return  # there is one

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        place = attributes(conversation_id=after[0], s3_ref=after[1]) if after[0] else None
        items, _ = await self._store.walk("rechecks", limit, place)
        return [from_item(Recheck, item) for item in items]

    async def remove_recheck(self, recheck: Recheck) -> bool:
        key = attributes(conversation_id=recheck.conversation_id, s3_ref=recheck.s3_ref)
        return await remove(self._store, delete("rechecks", key, "#mark = :mark", values(mark=recheck.mark)))


def _is_waiting(head: Item, before_ms: int) -> bool:
    if "head" not in head:  # being created or deleted
        return False
    next_ms = plain(head["archive_next_ms"]) if "archive_next_ms" in head else 0
    return _archived_seq(head) < plain(head["head"]) and next_ms <= before_ms


def _candidate(head: Item) -> Candidate:
    return Candidate(plain(head["conversation_id"]), _archived_seq(head), plain(head["head"]))


def _archived_seq(head: Item) -> int:
    return max(int(plain(head[name])) for name in ("archived_seq", "floor_seq") if name in head)


def _op(conversation_id: str, move: Move) -> Op:
    """The change of one row. A move out of the row needs its content: an edit may have wiped it meanwhile."""
    seen: dict[str, object] = {"seen": move.rev}
    condition = "#rev = :seen AND "
    if move.from_ref is None:
        condition += "attribute_not_exists(#s3_ref) AND attribute_exists(#content)"
    else:
        condition += "#s3_ref = :from_ref"
        seen["from_ref"] = move.from_ref
    fields: dict[str, object] = {"s3_ref": move.to_ref, "content": None}
    if move.to_ref is None:
        fields |= {"content": content_of(move.content), "rev": move.rev + 1}
    change, held = assign(fields)
    return update("messages", message_key(conversation_id, move.seq_no), change, held | values(**seen), condition)
