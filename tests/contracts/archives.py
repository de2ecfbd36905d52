"""What every adapter of the Archive port must do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import START_MS, conversation, fresh, group, log, message, void
from tidings.errors import Conflict
from tidings.model import Content, Entry
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import EVERY_SEGMENT, Candidate, Move, Recheck, Rewrite, Why

REF = "1-9.1.0123456789ab"
OTHER = "1-9.2.ba9876543210"


async def texts(tables: Tables, *texts: str) -> str:
    """A conversation with these messages."""
    id_ = await conversation(tables, "alice", "bob")
    await tables.log.append([group(*(message(id_, seq_no, text) for seq_no, text in enumerate(texts, start=1)))])
    return id_


def to(s3_ref: str | None, *rows: Entry, **fields: Any) -> list[Move]:
    return [Move(seq_no=row.seq_no, rev=row.rev, from_ref=row.s3_ref, to_ref=s3_ref, **fields) for row in rows]


def recheck(conversation_id: str, s3_ref: str = REF, why: Why = "writing", mark: str = "mark") -> Recheck:
    return Recheck(conversation_id=conversation_id, s3_ref=s3_ref, why=why, mark=mark, since_ms=START_MS)


async def rechecks_of(tables: Tables, *conversation_ids: str) -> list[Recheck]:
    """Of these, a few at a time."""
    found: list[Recheck] = []
    after = ("", "")
    while page := await tables.archive.rechecks(after=after, limit=3):
        found += page
        after = (page[-1].conversation_id, page[-1].s3_ref)
    return [one for one in found if one.conversation_id in conversation_ids]


async def candidates_of(tables: Tables, before_ms: int, *conversation_ids: str) -> list[Candidate]:
    found: list[Candidate] = []
    after_id: str | None = ""
    while after_id is not None:
        page, after_id = await tables.archive.candidates(after_id=after_id, before_ms=before_ms, limit=50)
        found += page
    return [one for one in found if one.conversation_id in conversation_ids]


def edit(target: Entry, edit_seq: int, text: str | None = "new") -> Rewrite:
    return Rewrite(
        target_seq=target.seq_no,
        expected_rev=target.rev,
        content=None if text is None else Content(text),
        is_deleted=text is None,
        edited_ms=START_MS,
        edit_seq=None if text is None else edit_seq,
        wipe_seq=target.edit_seq,
    )


def edited(target: Entry, seq_no: int, text: str | None = "new") -> Any:
    """The group that stores an edit, or a delete."""
    entry = Entry(
        conversation_id=target.conversation_id,
        seq_no=seq_no,
        kind="delete" if text is None else "edit",
        sent_ms=START_MS + seq_no,
        message_id=f"e{seq_no}",
        sender_id="alice",
        content=None if text is None else Content(text),
        target_seq=target.seq_no,
    )
    return group(entry, rewrites=(edit(target, seq_no, text),))


class ArchivesContract:
    async def test_the_archive_has_a_name_that_stays(self, tables: Tables) -> None:
        name = await tables.archive.id()
        assert name.isalnum() and await tables.archive.id() == name

    async def test_a_cut_removes_the_beginning_and_raises_the_floor(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two", "three")
        for up_to_seq in (2, 1):  # the floor never goes back
            while not await tables.archive.cut(id_, up_to_seq=up_to_seq):
                continue
            assert [entry.text for entry in await log(tables, id_)] == ["three"]
            head = (await tables.conversations.heads([id_]))[id_]
            assert (head.floor_seq, head.preview) == (2, "three")

    async def test_every_fence_is_later_than_the_ones_before(self, tables: Tables) -> None:
        fences = [
            await tables.archive.take_fence(),
            *await asyncio.gather(*(tables.archive.take_fence() for _ in range(5))),
        ]
        assert sorted(set(fences)) == sorted(fences) and min(fences) == fences[0]

    # --- moves ------------------------------------------------------------------------------------

    async def test_a_text_goes_out_to_another_segment_and_back(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two", "three")
        fence = await tables.archive.take_fence()
        before = await log(tables, id_)
        assert await tables.archive.move(fence, id_, to(REF, *before[:2])) == {1, 2}
        rows = await log(tables, id_)
        assert [(row.text, row.s3_ref, row.rev) for row in rows] == [(None, REF, 0), (None, REF, 0), ("three", None, 0)]
        assert [row.digest for row in rows] == [row.digest for row in before]
        assert await tables.archive.move(fence, id_, to(OTHER, rows[0])) == {1}
        rows = await log(tables, id_)
        assert [row.s3_ref for row in rows] == [OTHER, REF, None]
        assert await tables.archive.move(fence, id_, to(None, rows[1], content=Content("two"))) == {2}
        rows = await log(tables, id_)
        assert (rows[1].text, rows[1].s3_ref) == ("two", None)
        assert rows[1].rev > before[1].rev  # whoever saw it before it went out must not move it now

    async def test_what_is_not_as_it_was_seen_stays(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two", "three")
        fence = await tables.archive.take_fence()
        seen = await log(tables, id_)
        await tables.log.append([edited(seen[0], 4)])
        assert await tables.archive.move(fence, id_, to(REF, *seen)) == {2, 3}
        rows = await log(tables, id_)
        assert [(row.text, row.s3_ref) for row in rows] == [("new", None), (None, REF), (None, REF), ("new", None)]
        assert await tables.archive.move(fence, id_, to(OTHER, seen[1])) == set()  # it is archived already
        wrong = [Move(seq_no=2, rev=rows[1].rev, from_ref=OTHER, to_ref=None, content=Content("?"))]
        assert await tables.archive.move(fence, id_, wrong) == set()
        assert await tables.archive.move(fence, id_, [Move(seq_no=99, rev=0, from_ref=None, to_ref=REF)]) == set()
        assert await log(tables, id_) == rows

    async def test_two_archivers_leave_every_row_with_one_of_them(self, tables: Tables) -> None:
        id_ = await texts(tables, *(f"text {number}" for number in range(20)))
        fence = await tables.archive.take_fence()
        seen = await log(tables, id_)
        mine, theirs = await asyncio.gather(
            tables.archive.move(fence, id_, to(REF, *seen)), tables.archive.move(fence, id_, to(OTHER, *seen))
        )
        assert mine | theirs == set(range(1, 21)) and not mine & theirs
        rows = await log(tables, id_)
        assert {row.seq_no for row in rows if row.s3_ref == REF} == mine
        assert {row.seq_no for row in rows if row.s3_ref == OTHER} == theirs

    async def test_an_entry_without_a_text_has_nothing_to_move(self, tables: Tables) -> None:
        id_ = await texts(tables, "one")
        await tables.log.append([group(void(id_, 2))])
        fence = await tables.archive.take_fence()
        assert await tables.archive.move(fence, id_, to(REF, *await log(tables, id_))) == {1}

    async def test_an_empty_text_moves_like_any_other(self, tables: Tables) -> None:
        id_ = await texts(tables, "")
        fence = await tables.archive.take_fence()
        assert await tables.archive.move(fence, id_, to(REF, *await log(tables, id_))) == {1}
        assert await tables.archive.move(fence, id_, to(None, *await log(tables, id_), content=Content(""))) == {1}
        assert [row.text for row in await log(tables, id_)] == [""]

    async def test_who_has_an_earlier_fence_changes_nothing(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two")
        early, late = await tables.archive.take_fence(), await tables.archive.take_fence()
        seen = await log(tables, id_)
        with pytest.raises(Conflict):
            await tables.archive.move(early, id_, to(REF, *seen))
        assert await log(tables, id_) == seen
        assert await tables.archive.move(late, id_, to(REF, *seen)) == {1, 2}

    async def test_a_whole_segment_moves_at_once(self, tables: Tables) -> None:
        id_ = await conversation(tables, "alice")
        for start in range(1, 301, 30):
            await tables.log.append([group(*(message(id_, seq_no) for seq_no in range(start, start + 30)))])
        fence = await tables.archive.take_fence()
        seen = await log(tables, id_)
        await tables.log.append([edited(seen[41], 301), edited(seen[250], 302)])
        moved = await tables.archive.move(fence, id_, to(REF, *seen))
        assert moved == {row.seq_no for row in seen} - {42, 251}

    # --- how far ----------------------------------------------------------------------------------

    async def test_a_conversation_is_a_candidate_until_all_of_it_is_done(self, tables: Tables) -> None:
        id_, empty = await texts(tables, "one", "two", "three"), await conversation(tables, "alice")
        assert await candidates_of(tables, START_MS, id_, empty) == [Candidate(id_, 0, 3)]
        await tables.archive.advance(id_, archived_seq=2, next_ms=START_MS + 3)
        assert await candidates_of(tables, START_MS + 2, id_, empty) == []
        assert await candidates_of(tables, START_MS + 3, id_, empty) == [Candidate(id_, 2, 3)]
        await tables.archive.advance(id_, archived_seq=3, next_ms=0)
        assert await candidates_of(tables, START_MS * 2, id_) == []
        await tables.log.append([group(message(id_, 4))])
        assert await candidates_of(tables, START_MS, id_) == [Candidate(id_, 3, 4)]

    async def test_how_far_never_goes_back(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two", "three")
        await tables.archive.advance(id_, archived_seq=2, next_ms=0)
        await tables.archive.advance(id_, archived_seq=1, next_ms=0)
        assert await candidates_of(tables, START_MS, id_) == [Candidate(id_, 2, 3)]
        await tables.archive.advance(fresh("nowhere"), archived_seq=1, next_ms=0)

    # --- rechecks ---------------------------------------------------------------------------------

    async def test_a_recheck_is_listed_until_its_mark_is_taken_off(self, tables: Tables) -> None:
        a, b = fresh("a"), fresh("b")
        asked = [recheck(a), recheck(a, OTHER), recheck(b), recheck(b, EVERY_SEGMENT, "deleted")]
        for one in asked:
            await tables.archive.put_recheck(one)
        found = await rechecks_of(tables, a, b)
        assert sorted(found, key=repr) == sorted(asked, key=repr)
        assert await tables.archive.remove_recheck(asked[0]) and not await tables.archive.remove_recheck(asked[0])
        assert len(await rechecks_of(tables, a, b)) == 3

    async def test_whoever_asks_again_is_not_forgotten(self, tables: Tables) -> None:
        a = fresh("a")
        await tables.archive.put_recheck(recheck(a))
        await tables.archive.put_recheck(recheck(a, why="rewritten", mark="later"))
        assert not await tables.archive.remove_recheck(recheck(a))
        await tables.archive.put_recheck(recheck(a, why="damaged", mark="last"), only_new=True)
        assert await rechecks_of(tables, a) == [recheck(a, why="rewritten", mark="later")]

    @pytest.mark.parametrize("text", ["new", None], ids=["edited", "deleted"])
    async def test_a_rewrite_of_an_archived_message_asks_for_its_segment(
        self, tables: Tables, text: str | None
    ) -> None:
        id_ = await texts(tables, "one", "two")
        await tables.archive.move(await tables.archive.take_fence(), id_, to(REF, *await log(tables, id_)))
        target = (await log(tables, id_))[0]
        assert await tables.log.append([edited(target, 3, text)]) == [None]
        (asked,) = await rechecks_of(tables, id_)
        assert (asked.s3_ref, asked.why) == (REF, "rewritten")
        row = (await log(tables, id_))[0]
        assert (row.text, row.s3_ref, row.rev) == (text, None, 1)
        assert not await tables.archive.remove_recheck(recheck(id_))

    async def test_the_segments_of_earlier_edits_are_asked_for_too(self, tables: Tables) -> None:
        id_ = await texts(tables, "one")
        fence = await tables.archive.take_fence()
        await tables.log.append([edited((await log(tables, id_))[0], 2, "second")])
        rows = await log(tables, id_)
        await tables.archive.move(fence, id_, to(REF, rows[0]))
        await tables.archive.move(fence, id_, to(OTHER, rows[1]))
        await tables.log.append([edited((await log(tables, id_))[0], 3, "third")])
        assert {one.s3_ref for one in await rechecks_of(tables, id_)} == {REF, OTHER}
        assert [row.text for row in await log(tables, id_)] == ["third", None, "third"]

    async def test_a_rewrite_of_what_is_not_archived_asks_for_nothing(self, tables: Tables) -> None:
        id_ = await texts(tables, "one")
        await tables.log.append([edited((await log(tables, id_))[0], 2)])
        assert await rechecks_of(tables, id_) == []

    async def test_two_rewrites_in_one_segment_and_one_commit(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two")
        await tables.archive.move(await tables.archive.take_fence(), id_, to(REF, *await log(tables, id_)))
        first, second = (edited(row, 3 + at) for at, row in enumerate(await log(tables, id_)))
        both = group(*first.entries, *second.entries, rewrites=first.rewrites + second.rewrites)
        assert await tables.log.append([both]) == [None]
        assert [one.s3_ref for one in await rechecks_of(tables, id_)] == [REF]

    async def test_an_edit_that_races_the_archiver_never_leaves_its_text_unasked_for(self, tables: Tables) -> None:
        """Whichever comes first: the row keeps the new text, or the segment that took the old one is asked for."""
        fence = await tables.archive.take_fence()
        for _ in range(10):
            id_ = await texts(tables, "old")
            (seen,) = await log(tables, id_)
            moved, refused = await asyncio.gather(
                tables.archive.move(fence, id_, to(REF, seen)), tables.log.append([edited(seen, 2)])
            )
            assert refused == [None]
            row = (await log(tables, id_))[0]
            assert (row.text, row.s3_ref) == ("new", None)
            assert len(await rechecks_of(tables, id_)) == len(moved)

    async def test_a_deleted_conversation_asks_for_all_its_segments(self, tables: Tables) -> None:
        id_ = await texts(tables, "one")
        await tables.archive.move(await tables.archive.take_fence(), id_, to(REF, *await log(tables, id_)))
        await tables.archive.advance(id_, archived_seq=1, next_ms=0)
        await tables.conversations.delete(id_)
        (asked,) = await rechecks_of(tables, id_)
        assert (asked.s3_ref, asked.why) == (EVERY_SEGMENT, "deleted")
        assert await candidates_of(tables, START_MS * 2, id_) == []

    async def test_a_deleted_conversation_that_was_never_archived_asks_for_its_rest_too(self, tables: Tables) -> None:
        id_ = await texts(tables, "one")
        await tables.conversations.delete(id_)
        (asked,) = await rechecks_of(tables, id_)
        assert (asked.s3_ref, asked.why) == (EVERY_SEGMENT, "deleted")

    async def test_finishing_a_deletion_leaves_what_exists_alone_and_asks_for_nothing(self, tables: Tables) -> None:
        id_ = await texts(tables, "one", "two")
        assert await tables.archive.finish_deletion(id_)
        assert (
            len(await log(tables, id_)) == 2
            and await tables.conversations.heads([id_])
            and await tables.conversations.members(id_)
        )
        await tables.archive.move(await tables.archive.take_fence(), id_, to(REF, *await log(tables, id_)))
        await tables.archive.advance(id_, archived_seq=2, next_ms=0)
        await tables.conversations.delete(id_)
        (asked,) = await rechecks_of(tables, id_)
        assert await tables.archive.finish_deletion(id_) and await tables.archive.finish_deletion(fresh("none"))
        assert await rechecks_of(tables, id_) == [asked]
        assert await tables.conversations.heads([id_]) == {} and await log(tables, id_) == []
