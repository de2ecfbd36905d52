"""The list of webhooks, and the news that a commit leaves for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings import bounds
from tidings.bounds import STORE_DEADLINE_S
from tidings.errors import NotFound
from tidings.messaging.integration.hooks import NEWS, HookPatch
from tidings.model import Content
from tidings.node.graph import Core
from tidings.stores.tables.records import Put, of_conversation

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
    await hooks.create(URL, conversation_ids=[group])
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="other")
    await say(a.core, group, "hi")
    await say(a.core, view.head.conversation_id, "hi")
    (news,) = await news_in(a.core, group)
    assert news.due_ms <= a.clock.now_ms()
    assert await news_in(a.core, view.head.conversation_id) == []


async def test_member_changes_are_news_too(a: FaultyNode, group: str) -> None:
    await a.core.integration.hooks.read()
    await a.core.integration.hooks.create(URL)
    await a.core.directory.add("alice", group, ["dave"])
    assert len(await news_in(a.core, group)) == 1


async def test_a_node_with_an_old_list_leaves_news_of_everything(a: FaultyNode, group: str) -> None:
    await a.core.integration.hooks.read()
    a.clock.elapsed_s += bounds.WEBHOOKS_STALE_S + 1
    await say(a.core, group, "hi")
    assert len(await news_in(a.core, group)) == 1


async def test_a_change_keeps_what_it_does_not_name(core: Core) -> None:
    hooks = core.integration.hooks
    made = await hooks.create(URL, kinds=["message"], conversation_ids=["c1"])
    changed = await hooks.change(made.webhook_id, HookPatch(url=URL + "2"))
    assert (changed.url, changed.kinds, changed.conversation_ids) == (URL + "2", ("message",), ("c1",))
    assert changed.secret == made.secret
    assert await hooks.all() == [changed]
    await hooks.remove(made.webhook_id)
    assert await hooks.all() == []
    with pytest.raises(NotFound):
        await hooks.remove(made.webhook_id)


async def test_an_empty_list_means_everything(core: Core) -> None:
    hook = await core.integration.hooks.create(URL)
    assert hook.hears_of("any") and hook.wants("message") and hook.wants("void")
    few = await core.integration.hooks.create(URL, kinds=["message"], conversation_ids=["c1"])
    assert not few.hears_of("c2") and not few.wants("edit")


async def test_a_webhook_hears_of_what_a_node_stored_before_it_knew_the_webhook(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    for node in (a, b):
        await node.core.integration.hooks.read()
    await a.core.integration.hooks.create(URL)
    await say(b.core, group, "nobody noted this")
    assert await news_in(b.core, group) == []
    await b.core.integration.hooks.read()
    assert len(await news_in(b.core, group)) == 1


async def test_news_of_such_a_conversation_is_put_again_while_a_commit_may_be_under_way(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    for node in (a, b):
        await node.core.integration.hooks.read()
    assert b.core.integration.hooks.news(group) == ()  # the commit takes its time
    await a.core.integration.hooks.create(URL)
    hooks, records = b.core.integration.hooks, b.core.tables.records
    for is_owed in (True, True, True, False):  # the last time after the last commit
        await hooks.read()
        found = await news_in(b.core, group)
        assert bool(found) is is_owed
        await records.put([Put(one.owner, one.collection, one.name, None) for one in found])
        b.clock.elapsed_s += STORE_DEADLINE_S / 2 + bounds.WEBHOOKS_READ_S


async def test_work_that_a_dead_node_left_is_news(a: FaultyNode, group: str) -> None:
    await say(a.core, group, "hi")
    await a.core.integration.hooks.left_behind(group)
    assert await news_in(a.core, group) == []
    await a.core.integration.hooks.read()
    await a.core.integration.hooks.create(URL)
    await a.core.integration.hooks.left_behind(group)
    assert len(await news_in(a.core, group)) == 1
