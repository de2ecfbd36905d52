"""Drafts: one text for all devices, and no device overwrites what it has not seen."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.two_nodes import connect
from tidings.errors import NotFound
from tidings.messaging.reading.drafts import NewerDraft, OwnDraft
from tidings.pushes import DraftChanged


async def shown(node: FaultyNode, user_id: str) -> list[tuple[str, int] | None]:
    page = await node.core.inbox.page(user_id, limit=20, cursor=None)
    return [item.draft for item in page.items]


async def test_a_draft_is_in_the_inbox_and_on_the_devices_of_its_user_alone(a: FaultyNode, group: str) -> None:
    mine, theirs = await connect(a, "alice"), await connect(a, "bob")
    made = await a.core.drafts.put("alice", group, "hi", 0)
    assert made == OwnDraft("hi", 1)
    assert await a.core.drafts.put("alice", group, "hello", 1) == OwnDraft("hello", 2)
    assert await shown(a, "alice") == [OwnDraft("hello", 2)]
    assert await shown(a, "bob") == [None]
    changes = [DraftChanged(group, "hi", 1), DraftChanged(group, "hello", 2)]
    assert [one for one in mine.events if isinstance(one, DraftChanged)] == changes
    assert not [one for one in theirs.events if isinstance(one, DraftChanged)]


async def test_an_older_version_learns_the_newer_draft_and_changes_nothing(a: FaultyNode, group: str) -> None:
    await a.core.drafts.put("alice", group, "one", 0)
    await a.core.drafts.put("alice", group, "two", 1)
    for version in (0, 1, 3):
        with pytest.raises(NewerDraft) as refused:
            await a.core.drafts.put("alice", group, "other", version)
        assert refused.value.draft == OwnDraft("two", 2)
    assert await a.core.drafts.put("alice", group, "two", 1) == OwnDraft("two", 2)  # a repeated request


async def test_of_two_devices_at_once_one_is_refused(a: FaultyNode, b: FaultyNode, group: str) -> None:
    puts = (a.core.drafts.put("alice", group, "from a", 0), b.core.drafts.put("alice", group, "from b", 0))
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    (made,) = [one for one in outcomes if isinstance(one, OwnDraft)]
    (refused,) = [one for one in outcomes if isinstance(one, NewerDraft)]
    assert refused.draft == made
    assert await shown(a, "alice") == [made]


async def test_an_empty_text_removes_it_and_its_version_never_comes_again(a: FaultyNode, group: str) -> None:
    await a.core.drafts.put("alice", group, "one", 0)
    assert await a.core.drafts.put("alice", group, "", 1) == OwnDraft("", 2)
    assert await shown(a, "alice") == [None]
    with pytest.raises(NewerDraft):
        await a.core.drafts.put("alice", group, "one more", 1)
    assert await a.core.drafts.put("alice", group, "anew", 0) == OwnDraft("anew", 3)


async def test_a_stranger_has_no_draft_and_an_empty_one_writes_nothing(a: FaultyNode, group: str) -> None:
    with pytest.raises(NotFound):
        await a.core.drafts.put("mallory", group, "x", 0)
    assert await a.core.drafts.put("alice", group, "", 0) == OwnDraft("", 0)


async def test_a_page_shows_drafts_also_while_the_keyspace_is_down(a: FaultyNode, group: str) -> None:
    await a.core.drafts.put("alice", group, "one", 0)
    a.keyspace.fail("inbox_page", down)
    assert await shown(a, "alice") == [OwnDraft("one", 1)]
