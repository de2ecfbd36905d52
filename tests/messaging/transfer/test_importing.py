"""Importing: dates and order of the source, nothing counted, and twice is once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.transfer.sources.jsonl import JsonLines


def lines(path: Path, messages: int) -> Path:
    people = [{"type": "user", "user_id": "ann", "name": "Ann"}, {"type": "user", "user_id": "ben"}]
    room = {"type": "conversation", "conversation_id": "old-room", "name": "Old room", "members": ["ann", "ben"]}
    said = [
        {
            "type": "message",
            "conversation_id": "old-room",
            "message_id": f"m{at}",
            "sender_id": "ann",
            "text": f"words {at}",
            "sent_at": 1_500_000_000_000 + at,
        }
        for at in range(messages)
    ]
    path.write_text("\n".join(map(json.dumps, [*people, room, *said])), "utf-8")
    return path


async def test_messages_come_with_their_dates_and_count_for_nobody(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    done = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 100), {}))
    assert (done.users, done.conversations, done.messages, done.known) == (2, 1, 100, 0)
    page = await a.core.history.page("ben", "old-room", limit=100)
    assert [entry.text for entry in page.entries] == [f"words {at}" for at in reversed(range(100))]
    assert [entry.sent_ms for entry in page.entries][-1] == 1_500_000_000_000
    assert page.entries[0].content is not None and page.entries[0].content.imported
    assert await a.unread("ben") == 0 and await a.wrong() == []
    assert await a.code("ben", "old-room", "new") == "stored"
    assert await a.unread("ann") == 1


async def test_the_same_import_again_writes_only_what_is_new(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 90), {}))
    again = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 90), {}))
    assert (again.messages, again.known) == (0, 90)
    more = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 95), {}))
    assert (more.messages, more.known) == (5, 90)
    assert len(await a.log("old-room")) == 95


async def test_a_dry_run_counts_and_writes_nothing(a: FaultyNode, tmp_path: Path) -> None:
    importing = a.core.importing
    done = await importing.run(JsonLines(lines(tmp_path / "old.jsonl", 10), {}), is_dry=True)
    assert done.messages == 10
    assert await a.tables.conversations.heads(["old-room"]) == {}
