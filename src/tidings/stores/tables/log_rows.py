"""Rows of the log in SQL: an entry as the values of its columns, and back. SQLite and PostgreSQL share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidings.model import Entry
from tidings.stores.tables.stored_content import from_json, mentions_from_text, mentions_to_text, to_json

COLUMNS = (
    "conversation_id",
    "seq_no",
    "kind",
    "sent_ms",
    "sender_id",
    "is_deleted",
    "message_id",
    "receiver_id",
    "timestamp",
    "digest",
    "target_seq",
    "edited_ms",
    "edit_seq",
    "rev",
    "s3_ref",
    "is_uncounted",
    "thread_seq",
    "mentions",
    "content",
)


def values_of(entry: Entry) -> tuple[Any, ...]:
    """In the order of the columns."""
    return (
        entry.conversation_id,
        entry.seq_no,
        entry.kind,
        entry.sent_ms,
        entry.sender_id,
        entry.is_deleted,
        entry.message_id,
        entry.receiver_id,
        entry.timestamp,
        entry.digest,
        entry.target_seq,
        entry.edited_ms,
        entry.edit_seq,
        entry.rev,
        entry.s3_ref,
        entry.is_uncounted,
        entry.thread_seq,
        mentions_to_text(entry.mentions),
        to_json(entry.content, entry.member),
    )


def entry_of(row: Sequence[Any]) -> Entry:
    """Read a row by position, all of it at once. Names would cost three times as much, and a page has many rows."""
    (
        id_,
        seq_no,
        kind,
        sent_ms,
        sender_id,
        is_deleted,
        message_id,
        receiver_id,
        timestamp,
        digest,
        target_seq,
        edited_ms,
        edit_seq,
        rev,
        s3_ref,
        is_uncounted,
        thread_seq,
        mentions,
        stored,
    ) = row
    content, member = from_json(kind, stored)
    return Entry(
        id_,
        seq_no,
        kind,
        sent_ms,
        message_id,
        sender_id,
        receiver_id,
        content,
        timestamp,
        digest,
        member,
        target_seq,
        is_deleted == 1,
        edited_ms,
        edit_seq,
        rev,
        s3_ref,
        is_uncounted == 1,
        thread_seq,
        mentions_from_text(mentions),
    )
