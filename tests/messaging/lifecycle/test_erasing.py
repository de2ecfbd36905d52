"""Erasing: no text of the person stays, counts stay exact, and a job that was interrupted goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound
from tidings.messaging.lifecycle.scheduled import Scheduled
from tidings.model import Content, ContentPatch, User


async def test_after_an_erasure_no_text_of_the_person_is_left(
    a: FaultyNode, group: str, direct: str, tmp_path: Path
) -> None:
    await a.core.directory.introduce(User(user_id="bob", name="Robert Tables"))
    await a.send("bob", group, "m1", "words of bob in the group")
    await a.send("bob", direct, "m2", "words of bob to alice")
    await a.core.rewrites.edit("bob", direct, 1, ContentPatch("other words of bob"))
    await a.send("alice", group, "m3", "kept")
    await a.core.schedule.put("bob", Scheduled(group, Content("later words of bob"), 1 << 40, "m4"))
    await a.core.directory.remove("bob", group, "bob")  # texts stay behind in conversations that one left
    job = await a.core.erasing.begin("bob", "remove")
    while (await a.core.erasing.job(job.job_id)).ended is None:
        await a.core.timed.step()
    done = await a.core.erasing.job(job.job_id)
    assert (done.messages, done.records) == (2, 1) and done.remains
    texts = [entry.text for id_ in (group, direct) for entry in await a.log(id_)]
    assert [text for text in texts if text] == ["kept"]
    assert await a.unread("alice") == 0 and await a.wrong() == []
    assert (await a.tables.accounts.user("bob") or User(user_id="bob")).name is None
    raw = (tmp_path / "tidings.db").read_bytes()
    assert b"of bob" not in raw and b"Robert Tables" not in raw


async def test_texts_are_kept_where_the_team_says_so(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1", "kept")
    job = await a.core.erasing.begin("bob", "keep")
    done = await a.core.erasing.run(job.job_id)
    assert (done.messages, done.is_walked) == (0, False)
    assert (await a.log(group))[0].text == "kept"


async def test_a_job_that_nobody_began_is_not_found(a: FaultyNode) -> None:
    with pytest.raises(NotFound):
        await a.core.erasing.job("nothing")


async def test_a_person_who_is_erased_leaves_all_groups_and_is_found_no_more(a: FaultyNode, group: str) -> None:
    await a.core.directory.introduce(User(user_id="alice", name="Alice Liddell"))
    done = await a.core.erasing.run((await a.core.erasing.begin("alice", "remove")).job_id)
    assert (done.groups, done.is_cleared) == (1, True) and done.ended is not None
    members = {one.user_id: one.role for one in await a.tables.conversations.members(group)}
    assert "alice" not in members and "owner" in members.values()
    assert [names async for names in a.core.names.user_ids("liddell")] == []


async def test_an_erasure_waits_for_an_archiver_on_another_node(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1", "words")
    job = await a.core.erasing.begin("bob", "remove")
    async with b.core.cold.archiving._lead():
        for _ in range(5):
            await a.core.timed.step()
            a.clock.ahead_ms += 3_000
        waiting = await a.core.erasing.job(job.job_id)
        assert (waiting.is_cleared, waiting.ended) == (True, None)
    assert (await a.core.erasing.run(job.job_id)).ended is not None
