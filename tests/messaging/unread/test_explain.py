"""The reasons behind a count add up to it, entry by entry."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.config.settings import Settings
from tidings.errors import NotFound, RateLimited
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.unread import explain
from tidings.messaging.unread.explain import Explain, Explanation
from tidings.model import Content


@pytest.fixture(params=[500, 1], ids=["small", "large"])
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Both sides of the line."""
    return dataclasses.replace(settings, members_large=request.param)


async def free(rows: int) -> None:
    """Nobody is charged."""


def explainer(node: FaultyNode) -> Explain:
    core = node.core
    return Explain(core.access, core.tables, core.scripts, core.unread, core.clock)


def adds_up(found: Explanation) -> bool:
    parts = (found.other, found.deleted, found.uncounted, found.own, found.requested, found.blocked, found.read)
    return found.entries == sum(parts) + found.unread == found.head - found.from_seq


async def test_each_entry_above_the_cursor_has_one_reason(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="channel", members=["bob", "carl"], name="g")
    group = view.head.conversation_id
    for number in range(1, 4):
        await a.send("alice", group, f"m{number}")
    await a.core.unread.mark_read("bob", group, up_to_seq=1)
    await a.core.unread.mark_read("bob", group, seqs=[3])
    await a.send("bob", group, "mine")
    await a.send("carl", group, "from somebody who is blocked")
    await a.core.sends.send("alice", group, None, Content("hush", silent=True))
    await a.send("alice", group, "m7")
    await a.core.rewrites.delete("alice", group, 7)
    await a.core.directory.rename("alice", group, name="h")
    await a.core.blocks.block("bob", "carl")
    await a.core.flags.set("bob", group, FlagChange(muted=True))
    found = await explainer(a).explain("bob", group, free)
    assert adds_up(found) and (found.head, found.read_seq, found.from_seq, found.ranges) == (9, 1, 1, ((3, 3),))
    assert (found.other, found.deleted, found.uncounted, found.own, found.blocked, found.read) == (2, 1, 1, 1, 1, 1)
    assert (found.unread, found.unread_count, found.muted, found.complete) == (1, 1, True, True)


async def test_a_long_log_is_explained_as_far_as_it_was_read(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_ENTRIES_MAX", 2)
    for number in range(5):
        await a.send("alice", direct, f"m{number}")
    found = await explainer(a).explain("bob", direct, free)
    assert adds_up(found) and (found.unread, found.unread_count, found.complete) == (2, 5, False)


async def test_a_stranger_learns_nothing_and_the_rows_are_paid_for(a: FaultyNode, direct: str) -> None:
    async def refuse(rows: int) -> None:
        raise RateLimited(retry_after_ms=rows)

    with pytest.raises(NotFound):
        await explainer(a).explain("mallory", direct, free)
    await a.send("alice", direct, "m1")
    with pytest.raises(RateLimited):
        await explainer(a).explain("bob", direct, refuse)
