"""Erasing: no text of the person stays, counts stay exact, and a job that was interrupted goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound
from tidings.messaging.archive.schedule import Pass
from tidings.messaging.lifecycle.erasing import JOBS
from tidings.messaging.lifecycle.scheduled import Scheduled
from tidings.model import Content, ContentPatch, User
from tidings.stores.tables.records import DEPLOYMENT
from tidings.stores.tables.search import Asked, Term
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.file import connect


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
        await a.core.jobs.step()
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
            await a.core.jobs.step()
            a.clock.ahead_ms += 3_000
        waiting = await a.core.erasing.job(job.job_id)
        assert (waiting.is_cleared, waiting.ended) == (True, None)
    assert (await a.core.erasing.run(job.job_id)).ended is not None


async def test_a_certificate_waits_until_nothing_is_left_in_the_unused_space_of_pages(
    a: FaultyNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "EMPTY_S", 0.01)
    file = tmp_path / "tidings.db"
    foreign = connect(file)
    foreign.execute("CREATE TABLE rest (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID")
    chance = random.Random(7)
    sizes, people = (9, 90, 900), ("bob", "ann")
    texts = [
        (f"{chance.getrandbits(64):016x}", f"words of {chance.choice(people)}" + "." * chance.choice(sizes))
        for _ in range(4_000)
    ]
    with foreign:
        foreign.executemany("INSERT INTO rest VALUES (?, ?)", texts)
    with foreign:
        foreign.execute("DELETE FROM rest WHERE text LIKE 'words of bob%'")
    foreign.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert b"words of bob" in file.read_bytes(), "as SQLite leaves it"
    job = await a.core.erasing.begin("bob", "remove")
    reader = connect(file, is_reader=True)
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    for _ in range(5):
        await a.core.jobs.step()
        a.clock.ahead_ms += 3_000
    waiting = await a.core.erasing.job(job.job_id)
    assert (waiting.is_cleared, waiting.ended) == (True, None), "somebody reads the tables of before"
    reader.execute("COMMIT")
    assert (await a.core.erasing.run(job.job_id)).ended is not None
    log = file.with_name(file.name + "-wal")
    assert b"words of bob" not in file.read_bytes() + log.read_bytes()


async def test_a_text_whose_earlier_delete_never_reached_the_index_goes_too(a: FaultyNode, group: str) -> None:
    indexer = a.core.searching.indexer
    await a.send("bob", group, "m1", "quetzal")
    await indexer.follow()
    await a.core.rewrites.delete("bob", group, 1)
    indexer._noted.clear()  # the node died before it followed
    await a.core.erasing.run((await a.core.erasing.begin("bob", "remove")).job_id)
    assert a.tables.search is not None
    assert await a.tables.search.find(Asked(terms=(Term(("quetzal",)),), conversation_ids=[group], limit=10)) == []


async def test_a_job_ends_although_another_node_came_for_it_meanwhile(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass may take minutes. The other node waits for it, and writes down when it will come again."""
    job = await a.core.erasing.begin("bob", "remove")
    sweep = a.core.erasing.sweep
    swept = 0

    async def sweep_slowly() -> Pass:
        nonlocal swept
        swept += 1
        async with b.core.cold.archiving._lead():
            (record,) = (await b.tables.records.get(DEPLOYMENT, JOBS, [job.job_id])).values()
            await b.core.erasing.step(record)
        return await sweep()

    monkeypatch.setattr(a.core.erasing, "sweep", sweep_slowly)
    assert (await a.core.erasing.run(job.job_id)).ended is not None
    assert swept == 1
