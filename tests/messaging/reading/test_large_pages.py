"""Large conversations stand at their places in every page of the inbox and of its filters."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.config.settings import Settings
from tidings.messaging.reading.flags import FlagChange


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, members_large=2)


async def names(node: FaultyNode, user_id: str, limit: int, filter_name: Any = None) -> list[str]:
    """The names of all conversations, page by page."""
    found, cursor = list[str](), None
    while True:
        page = await node.core.inbox.page(user_id, limit=limit, cursor=cursor, filter_name=filter_name)
        found += [item.row.name or "" for item in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def made(node: FaultyNode, name: str, *others: str) -> str:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob", *others], name=name)
    return view.head.conversation_id


async def test_large_and_small_ones_are_in_one_order_whatever_the_page(a: FaultyNode) -> None:
    ids = {name: await made(a, name, *(["carol"] if name.isupper() else [])) for name in "aBcDeF"}
    for name in "FacBeD":
        await a.send("alice", ids[name], f"m{name}")
    for limit in (1, 2, 3, 4, 10):
        assert await names(a, "bob", limit) == list("DeBcaF")
        assert await names(a, "bob", limit, "unread") == list("DeBcaF")
    await a.core.flags.set("bob", ids["B"], FlagChange(pinned=True))
    await a.core.flags.set("bob", ids["c"], FlagChange(pinned=True))
    await a.core.flags.set("bob", ids["D"], FlagChange(archived=True))
    await a.core.flags.set("bob", ids["F"], FlagChange(muted=True))
    for limit in (1, 2, 3, 10):
        assert await names(a, "bob", limit) == list("BceaF")
        assert await names(a, "bob", limit, "archived") == ["D"]
        assert await names(a, "bob", limit, "muted") == ["F"]
        assert await names(a, "bob", limit, "pinned") == list("Bc")
    await a.send("alice", ids["D"], "again")
    assert await names(a, "bob", 2) == list("BcDeaF"), "an archived one comes back with a message"
    assert (await a.core.unread.totals("bob")).total_unread == 6, "the muted one is not in the badge"
    assert await a.wrong() == []


async def test_changes_since_a_time_are_found_among_large_ones_too(a: FaultyNode) -> None:
    large = await made(a, "B", "carol")
    sent = await a.send("alice", large, "m1")
    assert await a.core.inbox.changed("bob", sent.entry.sent_ms) == [large]
    assert await a.core.inbox.changed("bob", sent.entry.sent_ms + 1) == []


async def test_counts_are_kept_while_nothing_changes_and_follow_every_change(a: FaultyNode) -> None:
    ids = [await made(a, name, "carol") for name in "AB"]
    for id_ in ids:
        await a.send("alice", id_, f"m{id_}")
    await a.core.unread.totals("bob")  # warm

    async def counted() -> Any:
        state = await a.keyspace.one(a.core.scripts.unread_state("bob"))
        assert state is not None
        return await a.core.large.counts.all("bob", state.large)

    async def shown() -> list[int]:
        found = await counted()
        return [found[id_].mark.count for id_ in ids]

    assert await shown() == [1, 1]
    assert await counted() is await counted()
    await a.send("carol", ids[0], "one more")
    assert await shown() == [2, 1]
    await a.command("DEL", a.core.keys.rev(ids[1]))
    assert await shown() == [2, 1]
    await a.core.unread.mark_read("bob", ids[0], up_to_seq=3)
    assert await shown() == [0, 1]
    assert (await a.core.unread.totals("bob")).total_unread == 1
    assert await a.wrong() == []


async def test_the_heads_of_large_ones_are_read_together_with_the_rows(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {name: await made(a, name, *(["carol"] if name.isupper() else [])) for name in "aB"}
    await a.send("alice", ids["B"], "m1", "first")
    await a.send("alice", ids["a"], "m2", "second")
    asked, read_heads, read_rows = asyncio.Event(), a.tables.conversations.heads, a.tables.inboxes.rows

    async def heads(conversation_ids: Any) -> Any:
        assert list(conversation_ids) == [ids["B"]]
        asked.set()
        return await read_heads(conversation_ids)

    async def rows(*place: Any) -> Any:
        await asyncio.wait_for(asked.wait(), 60)
        return await read_rows(*place)

    await a.core.inbox.page("bob", limit=5, cursor=None)  # the row of the small one is written now
    monkeypatch.setattr(a.tables.conversations, "heads", heads)
    monkeypatch.setattr(a.tables.inboxes, "rows", rows)
    page = await a.core.inbox.page("bob", limit=5, cursor=None)
    assert [(item.row.name, item.row.last_message_preview) for item in page.items] == [("a", "second"), ("B", "first")]
