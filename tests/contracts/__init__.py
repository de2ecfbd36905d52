"""Conformance suites, one per port of stores/tables/ports.py, written against the port alone.

An adapter's test module defines an async fixture `tables` and one subclass per suite, nothing more:

    class TestMessages(MessagesContract): ...

Each test makes conversations of its own, so suites also run against a store that other tests share.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tidings.model import Content, Entry, Head, Member, Row, digest_of
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Group

for _suite in (
    "messages",
    "conversations",
    "inboxes",
    "statuses",
    "accounts",
    "devices",
    "pending",
    "blobs",
    "archives",
    "records",
    "whole",
):
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

_numbers = itertools.count(1)
START_MS = 1_700_000_000_000


def fresh(word: str) -> str:
    """An id that no other test uses."""
    return f"{word}{'|+:=~' if word == 'user' else '-'}{next(_numbers)}"


def message(conversation_id: str, seq_no: int, text: str = "hello", **fields: Any) -> Entry:
    values: dict[str, Any] = {
        "sender_id": "alice",
        "sent_ms": START_MS + seq_no,
        "message_id": f"m{seq_no}",
        "timestamp": 7,
        "digest": digest_of(Content(text)),
        **fields,
    }
    return Entry(conversation_id=conversation_id, seq_no=seq_no, kind="message", content=Content(text), **values)


def void(conversation_id: str, seq_no: int) -> Entry:
    return Entry(conversation_id=conversation_id, seq_no=seq_no, kind="void", sent_ms=START_MS + seq_no)


def group(*entries: Entry, **fields: Any) -> Group:
    return Group(conversation_id=entries[0].conversation_id, entries=entries, **fields)


async def conversation(tables: Tables, *user_ids: str, **fields: Any) -> str:
    """A group conversation of these members, each with an inbox row; answers its id."""
    conversation_id = fresh("c")
    is_created = await tables.conversations.create(
        Head(conversation_id=conversation_id, kind="group", created_ms=START_MS, **fields),
        [Member(conversation_id=conversation_id, user_id=user_id) for user_id in user_ids],
        [Row(user_id=user_id, conversation_id=conversation_id, kind="group") for user_id in user_ids],
    )
    assert is_created
    return conversation_id


async def log(tables: Tables, conversation_id: str) -> list[Entry]:
    return await tables.log.page(conversation_id, after=0, before=10**9, limit=10_000, newest_first=False)


async def head_of(tables: Tables, conversation_id: str) -> Head:
    return (await tables.conversations.heads([conversation_id]))[conversation_id]
