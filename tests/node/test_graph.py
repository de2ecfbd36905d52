"""The graph: every part hears of another epoch, and the core knows its node."""

from __future__ import annotations

from tidings.node.graph import Core, open_core


def test_the_core_is_called_like_its_node(core: Core) -> None:
    assert core.node_id == core.settings.node.id


def test_another_epoch_of_the_keyspace_reaches_the_parts(core: Core) -> None:
    before = core.open_work.epoch_changes()
    core.events.epoch_changed("old", "new")
    assert core.open_work.epoch_changes() == before + 1


async def test_a_guest_shares_the_stores_of_a_node(core: Core) -> None:
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    async with open_core(core.settings, is_guest=True) as guest:
        assert await guest.tables.conversations.heads([view.head.conversation_id])
