"""Edits and deletes: who may, and that the old text is gone."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadRequest, Forbidden, IdConflict, NotFound
from tidings.model import Content, ContentPatch


async def test_only_its_sender_edits_a_message_and_leaders_may_delete_it(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1")
    with pytest.raises(Forbidden):
        await a.core.rewrites.edit("alice", group, 1, ContentPatch("changed"))
    with pytest.raises(Forbidden):
        await a.core.rewrites.delete("carol", group, 1)
    assert (await a.core.rewrites.edit("bob", group, 1, ContentPatch("mine"))).entry.target_seq == 1
    assert (await a.core.rewrites.delete("alice", group, 1)).entry.kind == "delete"
    with pytest.raises(NotFound):
        await a.core.rewrites.edit("bob", group, 1, ContentPatch("again"))
    with pytest.raises(NotFound):
        await a.core.rewrites.edit("bob", group, 99, ContentPatch("nothing"))


async def test_a_deleted_message_leaves_its_text_nowhere_not_even_in_its_edits(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "first words")
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("second words"))
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("third words"))
    await a.core.rewrites.delete("alice", direct, 1)
    assert [(entry.kind, entry.text) for entry in await a.log(direct)] == [
        ("message", None),
        ("edit", None),
        ("edit", None),
        ("delete", None),
    ]


async def test_an_edit_keeps_what_it_leaves_out_also_when_another_edit_came_between(a: FaultyNode, direct: str) -> None:
    await a.send("bob", direct, "m0")
    await a.core.sends.send("alice", direct, "m1", Content("first", {"card": 1}, reply_to=1))
    texts = a.core.rewrites.edit("alice", direct, 2, ContentPatch("second"))
    given = a.core.rewrites.edit("alice", direct, 2, ContentPatch(data={"card": 2}))
    await asyncio.gather(texts, given)
    _, target, *edits = await a.log(direct)
    assert target.content == Content("second", {"card": 2}, reply_to=1)
    assert [edit.content for edit in edits if edit.content is not None] == [target.content]


async def test_the_same_edit_sent_again_is_a_duplicate_whatever_its_target_says_now(a: FaultyNode, direct: str) -> None:
    await a.core.sends.send("alice", direct, "m1", Content("first", {"card": 1}))
    edit = partial(a.core.rewrites.edit, "alice", direct, 1)
    first = await edit(ContentPatch("second"), "e1")
    await edit(ContentPatch(data={"card": 2}), "e2")
    again = await edit(ContentPatch("second"), "e1")
    assert (again.entry.seq_no, again.is_duplicate) == (first.entry.seq_no, True)
    with pytest.raises(IdConflict):
        await edit(ContentPatch("other"), "e2")
    # The content of the first edit is gone, and what told it from another content went with it.
    assert (await edit(ContentPatch("other"), "e1")).is_duplicate


async def test_a_silent_message_counts_for_nobody_and_leaves_the_inbox_as_it_was(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "loud")
    (before,) = (await a.core.inbox.page("bob", limit=10, cursor=None)).items
    await a.core.sends.send("alice", direct, "m2", Content("quiet", silent=True))
    page = await a.core.inbox.page("bob", limit=10, cursor=None)
    assert [item.state for item in page.items] == [before.state]
    shown = [(item.row.last_seq, item.row.last_message_ts, item.row.last_message_preview) for item in page.items]
    assert shown == [(1, before.row.last_message_ts, "loud")]
    assert (await a.log(direct))[-1].text == "quiet"


async def test_an_id_of_an_edited_message_still_stands_for_its_first_text(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "first")
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("second"))
    assert (await a.send("alice", direct, "m1", "first")).is_duplicate
    with pytest.raises(IdConflict):
        await a.send("alice", direct, "m1", "another")


async def test_an_edit_leaves_a_message_with_something_to_say(a: FaultyNode, direct: str) -> None:
    await a.core.sends.send("alice", direct, "m1", Content("first", {"card": 1}))
    edit = partial(a.core.rewrites.edit, "alice", direct, 1)
    await edit(ContentPatch(" \n"), "e1")  # the data stays
    with pytest.raises(BadRequest):
        await edit(ContentPatch(data=None))
    await edit(ContentPatch("second", data=None))
    for patch in (ContentPatch(""), ContentPatch(" \n"), ContentPatch("", data={})):
        with pytest.raises(BadRequest):
            await edit(patch)
    await edit(ContentPatch(mentions=("bob",)))
    await a.core.rewrites.delete("alice", direct, 1)
    assert (await edit(ContentPatch(" \n"), "e1")).is_duplicate
