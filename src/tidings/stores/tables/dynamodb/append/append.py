"""Append on DynamoDB: one transaction per group, message and dedupe rows together, each put where nothing is yet.

A plain group (messages and voids) is written without a read. If a condition fails, DynamoDB returns the item that is
there, and the item decides: dedupe rows first, then numbers. A group that changes more (an edit's target, members,
rows) is read first and written on the condition that nothing moved. After the commit the head is raised. `Refused` is
answered only when nothing was written; a timeout is ambiguous, and the same group asked for again is recognised as
`known`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from tidings.errors import StoreError, Throttled, Unavailable
from tidings.model import KINDS
from tidings.stores.tables.dynamodb.append.checked import store_careful
from tidings.stores.tables.dynamodb.append.duplicates import (
    AGAIN,
    GONE,
    Attempt,
    Decision,
    finish,
    is_same,
    known_of,
    put_entry,
    refuse,
    verdict_of,
)
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import Canceled, Item
from tidings.stores.tables.dynamodb.client.items import entry_of, has_dedupe, head_key, head_of
from tidings.stores.tables.dynamodb.client.operations import Store
from tidings.stores.tables.values import Answer, Group, Known, Refused, Stored, Verdict, places_of

_TRIES_MAX = 20  # a group that others overtake this often is refused as throttled


async def append(store: Store, groups: Sequence[Group]) -> list[Answer]:
    """Append conversations side by side, and groups of one conversation one after the other.

    Beside other conversations a throttled one gives up early, because the batch of all of them waits for it.
    """
    by_conversation: dict[str, list[int]] = {}
    for at, group in enumerate(groups):
        by_conversation.setdefault(group.conversation_id, []).append(at)
    if len(by_conversation) > 1:
        store = store.with_throttled_s(bounds.THROTTLED_S)
    answers: list[Answer] = [Throttled("an earlier group of the conversation was not stored") for _ in groups]

    async def line(positions: list[int]) -> None:
        for at in positions:
            try:
                answers[at] = await _append(store, groups[at])
            except StoreError as error:
                answers[at] = error
                return

    await asyncio.gather(*map(line, by_conversation.values()))
    _require_verdict(answers)
    return answers


def _require_verdict(answers: Sequence[Answer]) -> None:
    """Raise one error where no group has a verdict: ambiguous if a part of any of them may have been written."""
    errors = [answer for answer in answers if isinstance(answer, StoreError)]
    if not errors or len(errors) < len(answers):
        return
    is_ambiguous = any(isinstance(error, Unavailable) and error.is_ambiguous for error in errors)
    if not is_ambiguous and all(isinstance(error, Throttled) for error in errors):
        raise errors[0]
    raise Unavailable(str(errors[0]), is_ambiguous=is_ambiguous) from errors[0]


async def _append(store: Store, group: Group) -> Verdict:
    """Store a group, in several transactions if it is too large for one.

    If a later transaction is refused, the entries of the earlier ones are `known`, each at its own number.
    """
    stored: dict[int, Known] = {}
    left_out: set[int] = set()
    for start, part in _parts(group):
        verdict = await _until_decided(store, part, store_plain if part.is_plain else store_careful)
        if isinstance(verdict, Refused):
            known = {start + at: each for at, each in verdict.known.items()}
            taken = frozenset(start + at for at in verdict.taken)
            return msgspec.structs.replace(verdict, known={**stored, **known}, taken=taken)
        if verdict is not None:
            left_out |= {start + at for at in verdict.left_out}
        stored |= {
            start + at: Known(entry.seq_no, is_written=True)
            for at, entry in enumerate(part.entries)
            if entry.message_id is not None
        }
    return Stored(frozenset(left_out)) if left_out else None


async def _until_decided(store: Store, group: Group, attempt: Attempt) -> Verdict:
    skipped: set[int] = set()
    for _ in range(_TRIES_MAX):
        decision = await attempt(store, group, skipped)
        if decision is not AGAIN:
            return decision
    raise Throttled("others write to the same rows all the time")


def _parts(group: Group) -> Iterator[tuple[int, Group]]:
    """The parts of a group, each with the position where it begins. Nearly always there is one part."""
    rewritten = {rewrite.target_seq for rewrite in group.rewrites}
    targets = [entry.target_seq if KINDS[entry.kind].rewrites else None for entry in group.entries]
    costs = [
        1 + has_dedupe(entry) + 6 * (target in rewritten) for entry, target in zip(group.entries, targets, strict=True)
    ]
    others = 1 + len(group.members) + len(group.rows_added) + len(group.rows_removed) + len(group.rows_accepted)
    others += len(group.puts)
    if sum(costs) + others <= bounds.TRANSACTION_ITEMS_MAX:
        yield 0, group
        return
    start, room = 0, bounds.TRANSACTION_ITEMS_MAX - others
    for at, cost in enumerate(costs):
        if cost > room:
            yield start, _part(group, start, at)
            start, room = at, bounds.TRANSACTION_ITEMS_MAX - 1
        room -= cost
    yield start, _part(group, start, len(costs))


def _part(group: Group, start: int, end: int) -> Group:
    entries = group.entries[start:end]
    targets = {entry.target_seq for entry in entries if KINDS[entry.kind].rewrites}
    rewrites = tuple(rewrite for rewrite in group.rewrites if rewrite.target_seq in targets)
    if start == 0:
        return msgspec.structs.replace(group, entries=entries, rewrites=rewrites)
    return Group(conversation_id=group.conversation_id, entries=entries, rewrites=rewrites)


async def store_plain(store: Store, group: Group, skipped: set[int]) -> Decision:
    """Write without a read. A refusal says which items were in the way."""
    places = places_of(group.entries, (), {})  # a transaction names each row once
    if places.taken:
        return Refused({}, places.taken)
    written = [at for at in places.free if at not in skipped]
    ops = [(at, op) for at in written for op in put_entry(group.entries[at])]
    if not ops:  # every slot was closed already
        head = head_of(await store.get("conversation_heads", head_key(group.conversation_id)))
        return verdict_of(group, written) if head is not None else GONE
    try:
        await store.transact([op for _, op in ops])
    except Canceled as canceled:
        tables = [(at, op.table, reason.item) for (at, op), reason in zip(ops, canceled.reasons, strict=True)]
        failed = [(at, table, item) for at, table, item in tables if item is not None]
        return await _judge(store, group, skipped, failed)
    return await finish(store, group, written)


async def _judge(store: Store, group: Group, skipped: set[int], failed: Sequence[tuple[int, str, Item]]) -> Decision:
    """Decide on a failed commit from (position, table, item found). Dedupe rows come first. Taken voids are skipped."""
    known = {at: known_of(item) for at, table, item in failed if table == "sent"}
    taken: set[int] = set()
    for at, table, item in failed:
        entry = group.entries[at]
        if table == "sent":
            continue
        if entry.is_void:
            skipped.add(at)
        elif is_same(entry_of(item), entry):
            known.setdefault(at, Known(entry.seq_no))
        else:
            taken.add(at)
    if known or taken:
        return await refuse(store, group, Refused(known, frozenset(taken)))
    return AGAIN
