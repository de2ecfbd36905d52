"""Inboxes with thousands of conversations, put straight into the tables."""

from __future__ import annotations

import asyncio

from tidings.model import Content, Entry, Head, Member, Row
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Group

START_MS = 1_790_000_000_000


async def put_many(tables: Tables, user_id: str, count: int, *, per_ms: int = 1, unread_every: int = 0) -> list[str]:
    """Groups of the user and one other, each with a message; newest last. `per_ms` of them share a time."""
    numbers = range(count)
    for start in range(0, count, 2_000):
        chunk = numbers[start : start + 2_000]
        await asyncio.gather(*(_create(tables, user_id, n, START_MS + n // per_ms) for n in chunk))
        await tables.log.append([_first_message(user_id, n, START_MS + n // per_ms, unread_every) for n in chunk])
    return [name(n) for n in numbers]


def name(number: int) -> str:
    """Ids whose order is neither that of their numbers nor that of letters."""
    return f"{'aZ_-.@9'[number % 7]}{number * 7919 % 1_000_003:06d}-{number}"


async def _create(tables: Tables, user_id: str, number: int, sent_ms: int) -> None:
    id_ = name(number)
    head = Head(conversation_id=id_, kind="group", created_ms=START_MS, name=f"number {number}", history="joined")
    members = [Member(conversation_id=id_, user_id=one, joined_ms=START_MS) for one in (user_id, "other")]
    row = Row(
        user_id=user_id,
        conversation_id=id_,
        kind="group",
        name=head.name,
        joined_ms=START_MS,
        last_message_ts=sent_ms,
        last_seq=1,
        last_message_preview=f"text {number}",
    )
    assert await tables.conversations.create(head, members, [row])


def _first_message(user_id: str, number: int, sent_ms: int, unread_every: int) -> Group:
    is_unread = unread_every > 0 and number % unread_every == 0
    entry = Entry(
        conversation_id=name(number),
        seq_no=1,
        kind="message",
        sent_ms=sent_ms,
        message_id="first",
        sender_id="other" if is_unread else user_id,
        content=Content(f"text {number}"),
    )
    return Group(conversation_id=name(number), entries=(entry,))
