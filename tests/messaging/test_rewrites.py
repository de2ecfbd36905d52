"""Edits and deletes: who may, and that the old text is gone."""

from __future__ import annotations

import pytest

from tests.messaging.faulty import FaultyNode
from tidings.errors import Forbidden, NotFound


async def test_only_its_sender_edits_a_message_and_leaders_may_delete_it(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1")
    with pytest.raises(Forbidden):
        await a.core.rewrites.edit("alice", group, 1, "changed")
    with pytest.raises(Forbidden):
        await a.core.rewrites.delete("carol", group, 1)
    assert (await a.core.rewrites.edit("bob", group, 1, "mine")).entry.target_seq == 1
    assert (await a.core.rewrites.delete("alice", group, 1)).entry.kind == "delete"
    with pytest.raises(NotFound):
        await a.core.rewrites.edit("bob", group, 1, "again")
    with pytest.raises(NotFound):
        await a.core.rewrites.edit("bob", group, 99, "nothing")


async def test_a_deleted_message_leaves_its_text_nowhere_not_even_in_its_edits(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "first words")
    await a.core.rewrites.edit("alice", direct, 1, "second words")
    await a.core.rewrites.edit("alice", direct, 1, "third words")
    await a.core.rewrites.delete("alice", direct, 1)
    assert [(entry.kind, entry.text) for entry in await a.log(direct)] == [
        ("message", None),
        ("edit", None),
        ("edit", None),
        ("delete", None),
    ]
