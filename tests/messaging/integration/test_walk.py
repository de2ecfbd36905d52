"""The walk of a webhook that begins at the start."""

from __future__ import annotations

import pytest

from tidings import bounds
from tidings.messaging.integration.hooks import HOOKS, NEWS
from tidings.messaging.integration.walk import Walk
from tidings.node.graph import Core
from tidings.stores.tables.records import of_conversation


async def test_a_walk_announces_every_conversation_once_and_ends(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WEBHOOK_WALK_USERS", 2)
    ids = []
    for n in range(5):
        view, _ = await core.directory.create(f"user{n}", kind="group", members=["bob"], name="g")
        ids.append(view.head.conversation_id)
    records, clock = core.tables.records, core.clock
    await core.integration.hooks.create("https://example.org/", is_from_start=True)
    walk = Walk(core.integration.hooks, records, core.tables.inboxes, clock)
    steps = 1
    while await walk.step():
        steps += 1
    assert steps > 2
    for id_ in ids:
        assert len(await records.page(of_conversation(id_), NEWS, limit=2)) == 1
    assert await records.due(HOOKS, until_ms=clock.now_ms() + 10_000_000, limit=10) == []
    assert not await walk.step()
