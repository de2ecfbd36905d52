"""Ranges: the arithmetic of a member's cursor and read ranges, without I/O.

A member has read everything up to the cursor, and the ranges above it. Each function returns a new status whose ranges
are sorted, do not touch each other, and lie above the cursor with a gap: a range that the cursor touches becomes part
of the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings.bounds import READ_RANGES_MAX
from tidings.errors import TooLarge
from tidings.model import Ranges, Row, Status

READ_TIMES_MAX = 8  # earlier places of a read mark with their times: 200 bytes of a status


def effective(status: Status | None, row: Row) -> Status:
    """Return the status that counts. A status of an earlier membership is replaced by "read up to where I joined"."""
    return effective_since(status, row.conversation_id, row.user_id, row.joined_seq)


def effective_since(status: Status | None, conversation_id: str, user_id: str, joined_seq: int) -> Status:
    """Return the same for a membership that began at this number."""
    if status is not None and status.since_seq >= joined_seq:
        return status
    kept = status or Status(conversation_id=conversation_id, user_id=user_id)
    return msgspec.structs.replace(kept, cursor_seq=joined_seq, ranges=(), since_seq=joined_seq)


def read_up_to(status: Status, seq_no: int) -> Status:
    """Mark everything up to seq_no as read."""
    return _folded(status, max(status.cursor_seq, seq_no), status.ranges)


def read_these(status: Status, seqs: Iterable[int]) -> Status:
    """Mark only these numbers as read. Raises TooLarge when they make too many ranges."""
    singles = tuple((seq, seq) for seq in seqs if seq > status.cursor_seq)
    changed = _folded(status, status.cursor_seq, status.ranges + singles)
    if len(changed.ranges) > READ_RANGES_MAX:
        raise TooLarge(f"more than {READ_RANGES_MAX} separate ranges are read; read up to a seq instead")
    return changed


def unread_from(status: Status, seq_no: int) -> Status:
    """Mark everything from seq_no on as unread again."""
    cut = tuple((low, min(high, seq_no - 1)) for low, high in status.ranges if low < seq_no)
    return _folded(status, min(status.cursor_seq, seq_no - 1), cut)


def next_version(status: Status, *, receipt: int, now_ms: int) -> Status:
    """Return the status as it is stored next, with the receipts raised to `receipt` and the time of those that move."""
    marks: dict[str, Any] = {}
    if receipt > status.delivered_seq:
        marks |= {"delivered_seq": receipt, "delivered_ms": now_ms}
    if receipt > status.read_seq:
        known = ((status.read_seq, status.read_ms),) if status.read_ms else ()
        before = (*status.read_before, *known)[-READ_TIMES_MAX:]
        marks |= {"read_seq": receipt, "read_ms": now_ms, "read_before": before}
    return msgspec.structs.replace(status, version=status.version + 1, **marks)


def seen_up_to(status: Status, *, is_delivered_seen: bool) -> int:
    """Return the number at or below which nothing counts: the cursor, or under `when_offline` the delivered receipt."""
    return max(status.cursor_seq, status.delivered_seq) if is_delivered_seen else status.cursor_seq


def is_in(ranges: Sequence[tuple[int, int]], seq_no: int) -> bool:
    return any(low <= seq_no <= high for low, high in ranges)


def is_same(one: Status, other: Status) -> bool:
    """Whether the same messages are read in both."""
    return (one.cursor_seq, one.ranges) == (other.cursor_seq, other.ranges)


def _folded(status: Status, cursor: int, ranges: Ranges) -> Status:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if high <= cursor:
            continue
        if low <= cursor + 1:
            cursor = high
        elif merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return msgspec.structs.replace(status, cursor_seq=cursor, ranges=tuple(merged))
