"""The list of webhooks, and the news that a commit leaves for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings import bounds
from tidings.errors import NotFound
from tidings.messaging.integration.hooks import NEWS, HookPatch
from tidings.model import Content
from tidings.node.graph import Core
from tidings.stores.tables.records import of_conversation

URL = "https://example.org/hook"


async def news_in(core: Core, conversation_id: str) -> Any:
    return await core.tables.records.page(of_conversation(conversation_id), NEWS, limit=10)


async def say(core: Core, conversation_id: str, text: str) -> None:
    await core.sends.send("alice", conversation_id, None, Content(text))


async def test_without_webhooks_a_commit_carries_nothing_more(a: FaultyNode, group: str) -> None:
    await a.core.integration.hooks.read()
    await say(a.core, group, "hi")
    assert all(one.is_plain for groups in a.faulty_log.appends for one in groups)
    assert await news_in(a.core, group) == []


async def test_the_commit_of_a_hooked_conversation_holds_the_news(a: FaultyNode, group: str) -> None:
    hooks = a.core.integration.hooks
    await hooks.read()
    await hooks.create(URL, conversation_ids=[group], is_alone=True)
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="other")
    await say(a.core, group, "hi")
    await say(a.core, view.head.conversation_id, "hi")
    (news,) = await news_in(a.core, group)
    assert news.due_ms <= a.clock.now_ms()
    assert await news_in(a.core, view.head.conversation_id) == []


async def test_member_changes_are_news_too(a: FaultyNode, group: str) -> None:
    await a.core.integration.hooks.read()
    await a.core.integration.hooks.create(URL, is_alone=True)
    await a.core.directory.add("alice", group, ["dave"])
    assert len(await news_in(a.core, group)) == 1


async def test_a_node_with_an_old_list_leaves_news_of_everything(a: FaultyNode, group: str) -> None:
    await a.core.integration.hooks.read()
    a.clock.elapsed_s += bounds.WEBHOOKS_STALE_S + 1
    await say(a.core, group, "hi")
    assert len(await news_in(a.core, group)) == 1


async def test_a_change_keeps_what_it_does_not_name(core: Core) -> None:
    hooks = core.integration.hooks
    made = await hooks.create(URL, kinds=["message"], conversation_ids=["c1"], is_alone=True)
    changed = await hooks.change(made.webhook_id, HookPatch(url=URL + "2"), is_alone=True)
    assert (changed.url, changed.kinds, changed.conversation_ids) == (URL + "2", ("message",), ("c1",))
    assert changed.secret == made.secret
    assert await hooks.all() == [changed]
    await hooks.remove(made.webhook_id)
    assert await hooks.all() == []
    with pytest.raises(NotFound):
        await hooks.remove(made.webhook_id)


async def test_an_empty_list_means_everything(core: Core) -> None:
    hook = await core.integration.hooks.create(URL, is_alone=True)
    assert hook.hears_of("any") and hook.wants("message") and hook.wants("void")
    few = await core.integration.hooks.create(URL, kinds=["message"], conversation_ids=["c1"], is_alone=True)
    assert not few.hears_of("c2") and not few.wants("edit")
