"""Scrolling into the cold tier over the wire: the same pages and cursors, damage said plainly, strangers kept out."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import Connect
from tests.support.devices.plain_client import token_for
from tidings.messaging.archive.segment import name_of
from tidings.model import Content, Entry
from tidings.node.node import Node
from tidings.stores.tables.values import Group

MONTH_MS = 31 * 86_400_000


@pytest.fixture
async def archived(node: Node) -> str:
    """A group of alice and bob with 45 archived messages."""
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"])
    id_, began_ms = view.head.conversation_id, node.core.clock.now_ms() - MONTH_MS
    entries = tuple(
        Entry(
            conversation_id=id_,
            seq_no=seq_no,
            kind="message",
            sent_ms=began_ms + seq_no,
            message_id=f"m{seq_no}",
            sender_id="alice",
            content=Content(f"text {seq_no}"),
        )
        for seq_no in range(1, 46)
    )
    await node.core.tables.log.append([Group(conversation_id=id_, entries=entries)])
    assert (await node.core.cold.archiving.run()).archived.messages == 45
    return id_


def get(node: Node, user_id: str, path: str) -> tuple[int, Any]:
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        link.request("GET", path, headers={"Authorization": f"Bearer {token_for(node, user_id)}"})
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()


async def rest(node: Node, user_id: str, path: str) -> tuple[int, Any]:
    return await asyncio.to_thread(get, node, user_id, path)


def texts(messages: Sequence[Any]) -> list[str]:
    return [message["text"] for message in messages]


async def test_history_scrolls_into_the_cold_tier_with_the_same_cursors(
    node: Node, connect: Connect, archived: str
) -> None:
    alice, bob = await connect("alice"), await connect("bob")
    await alice.say(archived, "new", "just now")
    found: list[str] = []
    before: int | None = None
    while True:
        place = {} if before is None else {"before_seq": before}
        page = await bob.request("history", conversation_id=archived, limit=20, **place)
        assert not any("unavailable" in message for message in page["messages"])
        found += texts(page["messages"])
        before = page["next_before_seq"]
        if before is None:
            break
    assert found == ["just now", *(f"text {seq_no}" for seq_no in range(45, 0, -1))]
    status, page = await rest(node, "bob", f"/v1/conversations/{archived}/messages?after_seq=10&limit=5")
    assert (status, texts(page["messages"])) == (200, [f"text {seq_no}" for seq_no in range(15, 10, -1)])


async def test_a_client_that_was_away_for_a_month_is_told_what_is_archived(connect: Connect, archived: str) -> None:
    bob = await connect("bob", resume={archived: 40})
    resumed = await bob.event(lambda event: event["type"] == "resumed")
    assert resumed["complete"] and texts(bob.messages(archived)) == [f"text {seq_no}" for seq_no in range(41, 46)]


async def test_a_stranger_is_told_what_he_would_be_told_of_nothing(node: Node, archived: str) -> None:
    answers = [await rest(node, "eve", f"/v1/conversations/{id_}/messages") for id_ in (archived, "c-none")]
    assert answers[0] == answers[1] and answers[0][0] == 404


async def test_a_damaged_segment_is_said_to_be_unavailable(node: Node, archived: str) -> None:
    core = node.core
    (row,) = await core.tables.log.page(archived, after=0, before=2, limit=1, newest_first=False)
    name = name_of(await core.tables.archive.id(), archived, str(row.s3_ref))
    await core.blobs.delete(name)
    await core.blobs.put(name, b"nonsense")
    status, page = await rest(node, "bob", f"/v1/conversations/{archived}/messages?limit=3")
    assert status == 200 and page["next_before_seq"] == 43
    assert [(message["seq"], message["text"], message["unavailable"]) for message in page["messages"]] == [
        (45, None, True),
        (44, None, True),
        (43, None, True),
    ]
    metrics = core.metrics.render().decode()
    assert 'tidings_archive_failures_total{what="damaged"} 1.0' in metrics


async def test_a_deleted_archived_message_is_deleted_for_everyone(node: Node, connect: Connect, archived: str) -> None:
    bob = await connect("bob")
    await node.core.rewrites.delete("alice", archived, 44)
    await bob.event(lambda event: event.get("message", {}).get("kind") == "delete")
    page = await bob.request("history", conversation_id=archived, before_seq=46, limit=3)
    assert [(message["text"], message["deleted"]) for message in page["messages"]] == [
        ("text 45", False),
        (None, True),
        ("text 43", False),
    ]
