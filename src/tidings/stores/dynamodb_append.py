"""Append on DynamoDB: one transaction per group, message and dedupe rows together, each put where nothing is yet.

A plain group (messages and voids) is written without looking; if a condition fails, DynamoDB says what stands there,
and that is the verdict: dedupe rows first, then slots. A group that changes more (an edit's target, members, rows) is
looked at first and written on the condition that nothing moved. After the commit the head is raised. `Refused` is
answered only when nothing was written; a timeout is ambiguous, and the same group asked for again is recognised as
`known`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from tidings import bounds
from tidings.errors import StoreError, Throttled, Unavailable
from tidings.stores.dynamodb_calls import Store
from tidings.stores.dynamodb_careful import store_careful
from tidings.stores.dynamodb_cheap import is_single, store_single
from tidings.stores.dynamodb_items import entry_of, has_dedupe, head_key, head_of
from tidings.stores.dynamodb_known import AGAIN, GONE, Attempt, Verdict, finish, is_same, known_of, put_entry, refuse
from tidings.stores.dynamodb_wire import Canceled, Item
from tidings.stores.ports import Group, Known, Refused

_TRIES_MAX = 20  # a group that others overtake this often is refused as throttled


async def append(store: Store, groups: Sequence[Group], *, is_cheap: bool) -> list[Refused | None]:
    """Conversations side by side; groups of one conversation one after the other."""
    by_conversation: dict[str, list[int]] = {}
    for at, group in enumerate(groups):
        by_conversation.setdefault(group.conversation_id, []).append(at)
    verdicts: list[Refused | StoreError | None] = [None] * len(groups)

    async def line(positions: list[int]) -> None:
        for at in positions:
            try:
                verdicts[at] = await _append(store, groups[at], is_cheap)
            except StoreError as error:
                verdicts[at] = error
                return

    await asyncio.gather(*map(line, by_conversation.values()))
    return _answered(verdicts)


def _answered(verdicts: Sequence[Refused | StoreError | None]) -> list[Refused | None]:
    """The verdicts, or one error for all: ambiguous as soon as something may have been written."""
    errors = [verdict for verdict in verdicts if isinstance(verdict, StoreError)]
    if not errors:
        return [verdict for verdict in verdicts if not isinstance(verdict, StoreError)]
    is_ambiguous = None in verdicts or any(isinstance(e, Unavailable) and e.is_ambiguous for e in errors)
    if not is_ambiguous and all(isinstance(error, Throttled) for error in errors):
        raise errors[0]
    raise Unavailable(str(errors[0]), is_ambiguous=is_ambiguous) from errors[0]


async def _append(store: Store, group: Group, is_cheap: bool) -> Refused | None:
    """What is too much for one transaction goes in several, first things first.

    If a later one is refused, what went before is told as `known` in its own slot: that is what it is.
    """
    if is_cheap and is_single(group):
        return await _until_decided(store, group, store_single)
    stored: dict[int, Known] = {}
    for start, part in _parts(group):
        refused = await _until_decided(store, part, store_plain if _is_plain(part) else store_careful)
        if refused is not None:
            known = {start + at: each for at, each in refused.known.items()}
            return msgspec.structs.replace(refused, known={**stored, **known})
        stored |= {
            start + at: Known(entry.seq_no, entry.digest or b"")
            for at, entry in enumerate(part.entries)
            if entry.message_id is not None
        }
    return None


async def _until_decided(store: Store, group: Group, attempt: Attempt) -> Refused | None:
    skipped: set[int] = set()
    for _ in range(_TRIES_MAX):
        verdict = await attempt(store, group, skipped)
        if verdict is not AGAIN:
            return verdict
    raise Throttled("others write to the same rows all the time")


def _parts(group: Group) -> Iterator[tuple[int, Group]]:
    """Each with the position where it begins. Nearly always there is one."""
    rewrites = {rewrite.target_seq: rewrite for rewrite in group.rewrites}
    costs = [1 + has_dedupe(entry) + 6 * (entry.target_seq in rewrites) for entry in group.entries]
    others = 1 + len(group.members) + len(group.rows_added) + len(group.rows_removed)
    if sum(costs) + others <= bounds.DYNAMODB_TRANSACTION_ITEMS_MAX:
        yield 0, group
        return
    start, room = 0, bounds.DYNAMODB_TRANSACTION_ITEMS_MAX - others
    for at, cost in enumerate(costs):
        if cost > room:
            yield start, _part(group, start, at)
            start, room = at, bounds.DYNAMODB_TRANSACTION_ITEMS_MAX - 1
        room -= cost
    yield start, _part(group, start, len(costs))


def _part(group: Group, start: int, end: int) -> Group:
    entries = group.entries[start:end]
    targets = {entry.target_seq for entry in entries}
    rewrites = tuple(rewrite for rewrite in group.rewrites if rewrite.target_seq in targets)
    if start == 0:
        return msgspec.structs.replace(group, entries=entries, rewrites=rewrites)
    return Group(conversation_id=group.conversation_id, entries=entries, rewrites=rewrites)


def _is_plain(group: Group) -> bool:
    return not (group.rewrites or group.members or group.rows_added or group.rows_removed)


async def store_plain(store: Store, group: Group, skipped: set[int]) -> Verdict:
    """Writes, and reads the verdict from what stood in the way."""
    entries, now_ms = enumerate(group.entries), store.clock.now_ms()
    ops = [(at, op) for at, entry in entries if at not in skipped for op in put_entry(entry, now_ms)]
    if not ops:  # every slot was closed already
        head = head_of(await store.get("conversation_heads", head_key(group.conversation_id)))
        return None if head is not None else GONE
    try:
        await store.transact([op for _, op in ops])
    except Canceled as canceled:
        tables = [(at, op.table, reason.item) for (at, op), reason in zip(ops, canceled.reasons, strict=True)]
        failed = [(at, table, item) for at, table, item in tables if item is not None]
        return await _judge(store, group, skipped, failed)
    return await finish(store, group, [entry for at, entry in enumerate(group.entries) if at not in skipped])


async def _judge(store: Store, group: Group, skipped: set[int], failed: Sequence[tuple[int, str, Item]]) -> Verdict:
    """From (position, table, what is there). Dedupe rows come first; a void in the way of nothing is skipped."""
    known = {at: known_of(item) for at, table, item in failed if table == "sent"}
    taken: set[int] = set()
    for at, table, item in failed:
        entry = group.entries[at]
        if table == "sent":
            continue
        if entry.kind == "void":
            skipped.add(at)
        elif is_same(entry_of(item), entry):
            known.setdefault(at, Known(entry.seq_no, entry_of(item).digest or b""))
        else:
            taken.add(entry.seq_no)
    if known or taken:
        return await refuse(store, group, Refused(known, frozenset(taken)))
    return AGAIN
