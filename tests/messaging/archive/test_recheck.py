"""A segment holds exactly what rows refer to: after an edit, a delete, a crash, a restore, and a sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.archive_node import DAY_MS, Freezer, open_freezer
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.archive.segment import name_of, pack, parse_ref
from tidings.model import Content, ContentPatch
from tidings.stores.tables.search import Asked, Term


@pytest.fixture
async def freezer(settings: Settings) -> AsyncIterator[Freezer]:
    async with open_freezer(settings) as freezer:
        yield freezer


@pytest.fixture
async def channel(freezer: Freezer) -> str:
    """With 20 archived messages."""
    id_ = await freezer.create("alice", "bob")
    await freezer.fill(id_, 20)
    await freezer.run()
    return id_


# --- edited and deleted -----------------------------------------------------------------------------


async def test_a_deleted_message_is_gone_from_the_blobs_too(freezer: Freezer, channel: str) -> None:
    (old,) = await freezer.objects()
    await freezer.core.rewrites.delete("alice", channel, 7)
    texts = await freezer.texts("bob", channel)
    assert texts[6] is None and texts[5] == "text 6"
    assert b'"text 7"' in await freezer.content()  # until the next pass
    done = await freezer.run()
    assert (done.rechecked.rewritten, done.rechecked.deleted) == (1, 1)
    assert b'"text 7"' not in await freezer.content()
    assert old not in await freezer.objects() and len(await freezer.objects()) == 1
    assert await freezer.texts("bob", channel) == texts
    assert await freezer.rechecks() == []


async def test_an_edited_message_is_shown_as_edited_and_its_old_text_goes(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.edit("alice", channel, 7, ContentPatch("better"))
    row = (await freezer.rows(channel))[6]
    assert (row.text, row.s3_ref, row.rev) == ("better", None, 1)
    await freezer.run()
    assert (await freezer.texts("bob", channel))[6] == "better"
    assert b'"text 7"' not in await freezer.content()


async def test_the_old_object_goes_only_after_the_new_one_was_read_back(freezer: Freezer, channel: str) -> None:
    (old,) = await freezer.objects()
    await freezer.core.rewrites.delete("alice", channel, 7)
    freezer.steps.clear()
    await freezer.run()
    (new,) = await freezer.objects()
    assert freezer.steps == [("get", old), ("put", new), ("get", new), ("move", new), ("delete", old)]


async def test_edits_and_deletes_of_archived_edits_leave_nothing_behind(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.edit("alice", channel, 7, ContentPatch("second"))
    freezer.clock.ahead_ms += 40 * DAY_MS
    await freezer.run()  # the edit entry holds the text too, and is archived by now
    await freezer.core.rewrites.edit("alice", channel, 7, ContentPatch("third"))
    await freezer.run()
    assert b"second" not in await freezer.content()
    await freezer.core.rewrites.delete("alice", channel, 7)
    freezer.clock.ahead_ms += 40 * DAY_MS
    await freezer.run()
    content = await freezer.content()
    assert b"second" not in content and b"third" not in content and b'"text 8"' in content
    assert all(row.text != "third" for row in await freezer.rows(channel))


async def test_a_segment_whose_messages_are_all_gone_goes(freezer: Freezer, channel: str) -> None:
    for seq_no in range(1, 21):
        await freezer.core.rewrites.delete("alice", channel, seq_no)
    await freezer.run()
    assert await freezer.objects() == []
    assert await freezer.texts("bob", channel) == [None] * 40


async def test_a_message_deleted_while_its_segment_is_rewritten_is_gone_as_well(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.delete("alice", channel, 7)

    async def delete_another() -> None:
        freezer.archive.before_move = None
        await freezer.core.rewrites.delete("alice", channel, 8)

    freezer.archive.before_move = delete_another
    await freezer.run()
    content = await freezer.content()
    assert b'"text 7"' not in content and b'"text 8"' not in content and b'"text 9"' in content
    assert len(await freezer.objects()) == 1 and await freezer.rechecks() == []


async def test_a_deleted_conversation_leaves_no_object(freezer: Freezer, channel: str) -> None:
    other = await freezer.create("alice", "bob")
    expected = await freezer.fill(other, 5)
    await freezer.run()
    await freezer.core.directory.delete("alice", channel)
    await freezer.run()
    assert len(await freezer.objects()) == 1 and await freezer.rechecks() == []
    assert await freezer.texts("bob", other) == expected


async def test_the_words_of_a_deleted_conversation_go_although_its_node_died(freezer: Freezer) -> None:
    index, id_ = freezer.core.tables.search, await freezer.create("alice", "bob")
    assert index is not None
    await freezer.fill(id_, 3)
    await freezer.core.searching.indexer.catch_up(id_)
    assert await index.cursors([id_])
    await freezer.core.tables.conversations.delete(id_)  # no node knows of it any more
    await freezer.run()
    assert await index.cursors([id_]) == {} and await freezer.rechecks() == []


async def test_a_conversation_that_was_made_anew_is_indexed_anew(freezer: Freezer) -> None:
    index, direct = freezer.core.tables.search, await freezer.create("alice", "bob", kind="direct")
    assert index is not None
    await freezer.fill(direct, 5, text="before {}")
    await freezer.core.searching.indexer.catch_up(direct)
    await freezer.core.tables.conversations.delete(direct)
    freezer.core.access.forget([direct])
    await freezer.create("alice", "bob", kind="direct")
    await freezer.fill(direct, 2, text="after {}")
    await freezer.run()
    await freezer.core.searching.indexer.catch_up(direct)
    for word, hits in (("before", 0), ("after", 2)):
        assert len(await index.find(Asked(terms=(Term((word,)),), conversation_ids=[direct], limit=9))) == hits


async def test_a_deletion_that_somebody_is_still_at_stays_on_the_list(
    freezer: Freezer, channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await freezer.core.directory.delete("alice", channel)
    with monkeypatch.context() as busy:

        async def finish_deletion(conversation_id: str) -> bool:
            return False

        busy.setattr(freezer.archive, "finish_deletion", finish_deletion, raising=False)
        await freezer.run()
        assert [asked.conversation_id for asked in await freezer.rechecks()] == [channel]
    await freezer.run()
    assert await freezer.rechecks() == [] and await freezer.objects() == []


async def test_a_conversation_that_was_made_anew_keeps_its_own_segments(freezer: Freezer) -> None:
    direct = await freezer.create("alice", "bob", kind="direct")
    await freezer.fill(direct, 5, text="before {}")
    await freezer.run()
    await freezer.core.tables.conversations.delete(direct)
    freezer.core.access.forget([direct])
    assert await freezer.create("alice", "bob", kind="direct") == direct
    expected = await freezer.fill(direct, 6, text="after {}")
    await freezer.run()
    assert b"before" not in await freezer.content()
    assert await freezer.texts("bob", direct) == expected


# --- killed on the way ------------------------------------------------------------------------------


class Killed(BaseException):
    """As if the process were gone."""


@pytest.mark.parametrize("step", ["put", "get", "move"])
async def test_killed_before_any_step_the_next_run_puts_it_right(freezer: Freezer, step: str) -> None:
    id_ = await freezer.create("alice", "bob")
    expected = await freezer.fill(id_, 30)

    async def kill() -> None:
        raise Killed

    if step == "move":
        freezer.archive.before_move = kill
    else:
        freezer.blobs.error = Killed() if step == "put" else None  # type: ignore[assignment]
        if step == "get":
            real = freezer.blobs._note

            def note(what: str, name: str) -> None:
                real(what, name)
                if what == "get":
                    raise Killed

            freezer.blobs._note = note  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await freezer.run()
    assert [one.why for one in await freezer.rechecks()] == ["writing"]
    assert [row.text for row in await freezer.rows(id_)] == expected
    freezer.archive.before_move = freezer.blobs.error = None
    if step == "get":
        freezer.blobs._note = real  # type: ignore[method-assign]
    done = await freezer.run()
    assert (done.archived.messages, done.rechecked.deleted) == (30, 1)
    assert await freezer.texts("bob", id_) == expected
    assert len(await freezer.objects()) == 1 and await freezer.rechecks() == []


async def test_killed_between_two_commits_of_rows_the_half_that_moved_is_kept(
    freezer: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await freezer.create("alice", "bob")
    expected = await freezer.fill(id_, 30)
    real = freezer.archive._archive.move

    async def half(fence: int, conversation_id: str, moves: object) -> set[int]:
        await real(fence, conversation_id, moves[:15])  # type: ignore[index]
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(freezer.archive._archive, "move", half)
        with pytest.raises(Killed):
            await freezer.run()
    assert [row.s3_ref is None for row in await freezer.rows(id_)] == [False] * 15 + [True] * 15
    assert await freezer.texts("bob", id_) == expected
    done = await freezer.run()
    assert (done.archived.messages, done.rechecked.rewritten) == (15, 1)
    assert [(ref.first, ref.last) for ref in await freezer.refs(id_)] == [(1, 15), (16, 30)]
    assert await freezer.texts("bob", id_) == expected
    assert len(await freezer.objects()) == 2


async def test_killed_between_the_new_segment_and_the_end_of_the_old_one(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.delete("alice", channel, 7)
    real = freezer.blobs._note

    def note(what: str, name: str) -> None:
        if what == "delete":
            raise Killed
        real(what, name)

    freezer.blobs._note = note  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await freezer.run()
    assert len(await freezer.objects()) == 2
    freezer.blobs._note = real  # type: ignore[method-assign]
    await freezer.run()
    assert len(await freezer.objects()) == 1 and b'"text 7"' not in await freezer.content()
    assert await freezer.rechecks() == []


# --- the sweep --------------------------------------------------------------------------------------


async def orphan(freezer: Freezer, conversation_id: str, fence: int) -> str:
    """An object that nothing refers to and no recheck names."""
    s3_ref, data = pack(conversation_id, {1: Content("nobody's")}, fence)
    await freezer.blobs._blobs.put(name_of(await freezer.archive.id(), conversation_id, s3_ref), data)
    return s3_ref


async def test_an_old_object_that_nothing_refers_to_is_swept(freezer: Freezer, channel: str) -> None:
    (kept,) = await freezer.objects()
    lost = await orphan(freezer, channel, 1)
    elsewhere = await orphan(freezer, "c-none", 1)
    await freezer.run()
    assert set(await freezer.objects()) == {kept, lost, elsewhere}  # too young
    freezer.clock.ahead_ms += 2 * DAY_MS
    done = await freezer.run()
    assert (await freezer.objects(), done.rechecked.deleted) == ([kept], 2)


async def test_what_another_archiver_may_be_about_to_use_is_not_swept(freezer: Freezer, channel: str) -> None:
    fence = await freezer.archive.take_fence()
    theirs = await orphan(freezer, channel, fence + 5)
    freezer.clock.ahead_ms += 2 * DAY_MS
    await freezer.run()
    assert theirs in await freezer.objects()


async def test_objects_that_are_in_use_are_not_read_by_a_sweep(freezer: Freezer, channel: str) -> None:
    freezer.clock.ahead_ms += 2 * DAY_MS
    freezer.steps.clear()
    await freezer.run()
    assert freezer.steps == []


async def test_what_is_no_segment_of_ours_is_left_alone(freezer: Freezer, channel: str) -> None:
    name = f"{await freezer.archive.id()}/notes.txt"
    await freezer.blobs._blobs.put(name, b"somebody's")
    freezer.clock.ahead_ms += 2 * DAY_MS
    await freezer.run()
    assert "notes.txt" in await freezer.objects()


# --- damaged ----------------------------------------------------------------------------------------


async def test_a_damaged_segment_is_never_rewritten_and_stays_reported(freezer: Freezer, channel: str) -> None:
    (ref,) = await freezer.refs(channel)
    good = await freezer.stored(channel, str(ref))
    await freezer.damage(channel, str(ref), good[:-1])
    await freezer.core.rewrites.delete("alice", channel, 7)
    for _ in range(2):
        done = await freezer.run()
        assert (done.rechecked.damaged, done.rechecked.rewritten) == ([f"{channel} {ref}"], 0)
    assert [one.why for one in await freezer.rechecks()] == ["damaged"]
    assert await freezer.objects() == [str(ref)]
    await freezer.damage(channel, str(ref), good)  # put right by somebody
    assert (await freezer.run()).rechecked.rewritten == 1
    assert await freezer.rechecks() == [] and b'"text 7"' not in await freezer.content()


async def test_an_object_that_is_gone_is_reported(freezer: Freezer, channel: str) -> None:
    (ref,) = await freezer.refs(channel)
    await freezer.damage(channel, str(ref), None)
    await freezer.core.rewrites.delete("alice", channel, 7)
    assert (await freezer.run()).rechecked.damaged == [f"{channel} {ref}"]
    assert freezer.count("missing") == 1


# --- restore ----------------------------------------------------------------------------------------


async def test_a_restored_conversation_has_its_texts_in_its_rows(freezer: Freezer, channel: str) -> None:
    expected = [f"text {number}" for number in range(1, 21)] + await freezer.fill(channel, 1_500, age_days=35)
    await freezer.run()
    done = await freezer.core.cold.archiving.restore(channel)
    assert done.restored == 1_520
    assert [row.text for row in await freezer.rows(channel)] == expected
    assert await freezer.objects() == [] and await freezer.rechecks() == []
    assert await freezer.texts("bob", channel) == expected
    assert (await freezer.run()).archived.messages == 0  # it stays, until it is asked for
    assert (await freezer.run(conversation_id=channel)).archived.messages == 1_520
    assert await freezer.texts("bob", channel) == expected


async def test_what_was_deleted_is_not_restored(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.delete("alice", channel, 7)
    await freezer.core.cold.archiving.restore(channel)
    assert (await freezer.rows(channel))[6].text is None


async def test_a_restore_leaves_out_what_is_damaged_and_says_so(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 5, age_days=35)
    await freezer.run()
    first, _ = await freezer.refs(channel)
    await freezer.damage(channel, str(first), b"nonsense")
    done = await freezer.core.cold.archiving.restore(channel)
    assert (done.restored, done.damaged) == (5, [f"{channel} {first}"])
    assert [one.why for one in await freezer.rechecks()] == ["damaged"]


async def test_an_archiver_paused_through_a_restore_changes_nothing_any_more(freezer: Freezer) -> None:
    id_ = await freezer.create("alice", "bob")
    expected = await freezer.fill(id_, 10)
    fence = await freezer.archive.take_fence()
    seen = await freezer.rows(id_)
    await freezer.run()
    await freezer.core.cold.archiving.restore(id_)
    assert [row.text for row in await freezer.rows(id_)] == expected
    assert all(now.rev > then.rev for now, then in zip(await freezer.rows(id_), seen, strict=True))
    assert fence < (await freezer.archive.take_fence())


async def test_trouble_with_the_blobs_ends_a_recheck_and_keeps_it(freezer: Freezer, channel: str) -> None:
    await freezer.core.rewrites.delete("alice", channel, 7)
    freezer.blobs.error = Unavailable("blobs: nobody there")
    with pytest.raises(Unavailable):
        await freezer.run()
    assert len(await freezer.rechecks()) == 1
    freezer.blobs.error = None
    assert (await freezer.run()).rechecked.rewritten == 1
    assert parse_ref((await freezer.objects())[0]).fence > 1
