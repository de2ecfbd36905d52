"""Integration: webhooks are there, and a process that does not follow their list leaves no news."""

from __future__ import annotations

from tidings.messaging.integration.hooks import NEWS
from tidings.model import Content
from tidings.node.graph import Core
from tidings.stores.tables.records import of_conversation


async def test_a_core_without_loops_leaves_no_news(core: Core) -> None:
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    await core.integration.hooks.create("https://example.org/")
    await core.sends.send("alice", view.head.conversation_id, None, Content("hi"))
    owner = of_conversation(view.head.conversation_id)
    assert await core.tables.records.page(owner, NEWS, limit=1) == []
    assert not core.integration.outbound.allows_private
