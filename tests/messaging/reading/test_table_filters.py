"""Filters of the inbox without the keyspace have the conversations that they have with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.big_inboxes import put_many
from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.messaging.reading import table_filters
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.reading.inbox import FILTERS
from tidings.model import Content, ConversationKind


async def fill(a: FaultyNode) -> list[str]:
    """Conversations of bob with every flag, some of them with unread messages and mentions."""
    kinds: list[ConversationKind] = ["group", "channel", "group", "channel", "group", "channel"]
    ids = []
    for kind in kinds:
        view, _ = await a.core.directory.create("alice", kind=kind, members=["bob"])
        ids.append(view.head.conversation_id)
        await a.core.sends.send("alice", ids[-1], "m1", Content("hi", mentions=("bob",) if len(ids) % 2 else ()))
    for at, flags in enumerate(({"pinned": True}, {"muted": True}, {"archived": True}, {"pinned": True})):
        await a.core.flags.set("bob", ids[at], FlagChange(**flags))  # type: ignore[arg-type]
    await a.core.unread.mark_read("bob", ids[4], up_to_seq=1)
    await a.core.sends.drain()
    return ids


async def listed(a: FaultyNode, *, is_down: bool, **asked: Any) -> list[str]:
    """Every page, two rows at a time."""
    found, cursor = list[str](), None
    while True:
        if is_down:
            a.keyspace.fail("inbox_page", down)
        page = await a.core.inbox.page("bob", limit=2, cursor=cursor, **asked)
        assert page.is_stale == is_down
        found += [item.row.conversation_id for item in page.items]
        if (cursor := page.next_cursor) is None:
            return found


@pytest.mark.parametrize(
    "asked", [*({"filter_name": name} for name in FILTERS), {"filter_name": "unread", "kind": "group"}]
)
async def test_every_filter_answers_from_the_tables(a: FaultyNode, asked: dict[str, Any]) -> None:
    await fill(a)
    expected = await listed(a, is_down=False, **asked)
    assert expected and await listed(a, is_down=True, **asked) == expected


async def test_a_kind_alone_answers_from_the_tables(a: FaultyNode) -> None:
    await fill(a)
    assert sorted(await listed(a, is_down=True, kind="group")) == sorted(await listed(a, is_down=False, kind="group"))


async def test_a_page_that_was_begun_with_the_keyspace_goes_on_without_it(a: FaultyNode) -> None:
    await fill(a)
    expected = await listed(a, is_down=False, filter_name="unread")
    first = await a.core.inbox.page("bob", limit=2, cursor=None, filter_name="unread")
    a.keyspace.fail("inbox_page", down)
    rest = await a.core.inbox.page("bob", limit=20, cursor=first.next_cursor, filter_name="unread")
    assert [item.row.conversation_id for item in (*first.items, *rest.items)] == expected


async def test_a_page_looks_at_few_rows_and_the_next_one_goes_on(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_filters, "SCANNED_MAX", 20)
    ids = await fill(a)
    await put_many(a.core.tables, "bob", 50)
    assert await listed(a, is_down=True, filter_name="muted") == [ids[1]]
    a.keyspace.fail("inbox_page", down)
    page = await a.core.inbox.page("bob", limit=20, cursor=None, filter_name="archived")
    assert len(page.items) <= 1 and page.next_cursor is not None
