"""What every adapter of the Messages port must do."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts import START_MS, conversation, fresh, group, head_of, log, message, void
from tidings import bounds
from tidings.model import Content, Entry, Member, MemberChange, Row
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.stored_content import LastMessage, read_last
from tidings.stores.tables.values import Group, Known, Refused, Rewrite, Stored, Top


class MessagesContract:
    async def test_what_was_appended_is_read_back_field_by_field(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        first = message(c, 1, "one\n\0 \N{GRINNING FACE}", receiver_id="bob", timestamp=-5)
        change = MemberChange("added", ("bob", "carol"), "admin")
        second = Entry(conversation_id=c, seq_no=2, kind="member", sent_ms=START_MS, sender_id="alice", member=change)
        assert await tables.log.append([group(first, second)]) == [None]
        assert await log(tables, c) == [first, second]

    async def test_all_that_a_message_carries_is_read_back(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        content = Content("one", {"a": [1, {"b": "\N{GRINNING FACE}"}]}, silent=True, reply_to=3)
        fields = {"content": content, "is_uncounted": True, "thread_seq": 4, "mentions": ("bob", "carol")}
        first = msgspec.structs.replace(message(c, 1), **fields)
        assert await tables.log.append([group(first)]) == [None]
        assert await log(tables, c) == [first]

    async def test_a_message_that_counts_for_nobody_is_no_unread_and_moves_no_head(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        silent = msgspec.structs.replace(message(c, 2, "quiet"), is_uncounted=True)
        await tables.log.append([group(message(c, 1, "loud"), silent)])
        assert [seq_no for seq_no, *_ in await tables.log.unread(c, "bob", after=0, limit=10)] == [1]
        head = await head_of(tables, c)
        assert (head.head, head.last_seq, head.preview) == (2, 1, "loud")

    async def test_a_message_id_sent_again_is_known_with_its_first_number_and_digest(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        first = message(c, 1, message_id="x")
        await tables.log.append([group(first)])
        again = message(c, 2, message_id="x")
        assert await tables.log.append([group(again)]) == [Refused({0: Known(1)}, frozenset())]
        assert await log(tables, c) == [first]

    async def test_the_same_id_with_another_text_is_known(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one", message_id="x"))])
        [refused] = await tables.log.append([group(message(c, 2, "two", message_id="x"))])
        assert refused == Refused({0: Known(1)}, frozenset())

    async def test_an_entry_already_in_its_own_slot_is_known_and_not_taken(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        one = group(message(c, 1))
        await tables.log.append([one])
        assert await tables.log.append([one]) == [Refused({0: Known(1)}, frozenset())]

    async def test_known_is_told_by_position_and_beside_taken_slots(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, message_id="x"), message(c, 2, message_id="y"))])
        [refused] = await tables.log.append([group(message(c, 2, message_id="new"), message(c, 3, message_id="x"))])
        assert refused == Refused({1: Known(1)}, frozenset({0}))

    async def test_message_ids_are_of_one_sender_in_one_conversation(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice"), await conversation(tables, "alice")
        groups = [
            group(message(c, 1, message_id="x"), message(c, 2, message_id="x", sender_id="bob")),
            group(message(other, 1, message_id="x")),
        ]
        assert await tables.log.append(groups) == [None, None]

    async def test_entries_without_a_message_id_never_meet_as_known(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        entries = [message(c, seq_no, message_id=None) for seq_no in (1, 2)]
        assert await tables.log.append([group(*entries)]) == [None]
        assert await log(tables, c) == entries

    async def test_catching_up_with_what_the_head_has_changes_nothing(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one"), message(c, 2, "two"))])
        before = await head_of(tables, c)
        await tables.log.catch_up(c, await log(tables, c))
        await tables.log.catch_up(c, (await log(tables, c))[:1])
        assert await head_of(tables, c) == before and before.head == 2

    async def test_a_taken_slot_keeps_its_entry_and_is_named(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        first = message(c, 1)
        await tables.log.append([group(first)])
        [refused] = await tables.log.append([group(message(c, 1, "other", message_id="other"))])
        assert refused == Refused({}, frozenset({0}))
        assert await log(tables, c) == [first]

    async def test_a_slot_closed_by_a_void_is_taken(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(void(c, 1))])
        assert await tables.log.append([group(message(c, 1))]) == [Refused({}, frozenset({0}))]

    async def test_a_void_whose_slot_is_taken_is_left_out_and_named_and_the_rest_is_stored(
        self, tables: Tables
    ) -> None:
        c = await conversation(tables, "alice")
        first = message(c, 1)
        await tables.log.append([group(first)])
        closing = group(void(c, 1), void(c, 2), message(c, 3))
        assert await tables.log.append([closing]) == [Stored(frozenset({0}))]
        assert await log(tables, c) == [first, void(c, 2), message(c, 3)]
        assert await tables.log.append([group(void(c, 2))]) == [Stored(frozenset({0}))]
        assert (await head_of(tables, c)).head == 3

    @pytest.mark.parametrize("is_plain", [True, False])
    @pytest.mark.parametrize("is_void_first", [True, False])
    async def test_a_void_hides_no_entry_of_the_same_number_whose_slot_is_taken(
        self, tables: Tables, is_plain: bool, is_void_first: bool
    ) -> None:
        c = await conversation(tables, "alice")
        other = message(c, 1, message_id="other")
        await tables.log.append([group(other)])
        more = {} if is_plain else {"rows_added": (Row(user_id="alice", conversation_id=c, kind="group"),)}
        pair = [void(c, 1), message(c, 1)] if is_void_first else [message(c, 1), void(c, 1)]
        doubled = group(*pair, message(c, 2), **more)
        assert await tables.log.append([doubled]) == [Refused({}, frozenset({1 if is_void_first else 0}))]
        assert await log(tables, c) == [other]

    @pytest.mark.parametrize("is_plain", [True, False])
    async def test_a_number_that_a_group_has_twice_is_its_first_entrys(self, tables: Tables, is_plain: bool) -> None:
        c = await conversation(tables, "alice")
        more = {} if is_plain else {"rows_added": (Row(user_id="alice", conversation_id=c, kind="group"),)}
        twice = group(message(c, 1), message(c, 1, message_id="other"), message(c, 2), **more)
        assert await tables.log.append([twice]) == [Refused({}, frozenset({1}))]
        closed = group(void(c, 1), message(c, 1), **more)
        assert await tables.log.append([closed]) == [Refused({}, frozenset({1}))]
        assert await log(tables, c) == []
        needless = group(message(c, 1), void(c, 1), message(c, 2), **more)
        assert await tables.log.append([needless]) == [Stored(frozenset({1}))]
        assert await log(tables, c) == [message(c, 1), message(c, 2)]

    async def test_a_group_is_stored_wholly_or_not_at_all(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        await tables.log.append([group(message(c, 2))])
        before = await head_of(tables, c)
        refused_group = group(
            message(c, 1, message_id="new"),
            message(c, 2, message_id="other"),
            void(c, 3),
            members=(Member(conversation_id=c, user_id="carol"),),
            rows_added=(Row(user_id="carol", conversation_id=c, kind="group"),),
            rows_removed=("bob",),
        )
        assert await tables.log.append([refused_group]) == [Refused({}, frozenset({1}))]
        assert await log(tables, c) == [message(c, 2)]
        assert await head_of(tables, c) == before
        assert [member.user_id for member in await tables.conversations.members(c)] == ["alice", "bob"]
        assert await tables.inboxes.rows("bob", [c]) and not await tables.inboxes.rows("carol", [c])

    async def test_new_messages_before_a_known_or_taken_one_are_not_stored(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice"), await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1)), group(message(other, 9))])
        new = [message(c, seq_no, message_id=f"new{seq_no}") for seq_no in range(2, 40)]
        known = group(*new, message(c, 40, message_id="m1"))
        assert await tables.log.append([known]) == [Refused({38: Known(1)}, frozenset())]
        taken = group(message(other, 7), message(other, 8), message(other, 9, message_id="new"))
        assert await tables.log.append([taken]) == [Refused({}, frozenset({2}))]
        assert await log(tables, c) == [message(c, 1)]
        assert await log(tables, other) == [message(other, 9)]
        assert (await head_of(tables, c)).head == 1

    async def test_a_refused_group_does_not_touch_its_neighbours(self, tables: Tables) -> None:
        cs = [await conversation(tables, "alice") for _ in range(40)]
        await tables.log.append([group(message(c, 1, "first")) for c in cs[::10]])
        verdicts = await tables.log.append(
            [group(message(c, 1, message_id="new"), message(c, 2)) for c in reversed(cs)]
        )
        assert [verdict is None for verdict in reversed(verdicts)] == [number % 10 != 0 for number in range(40)]
        for number, c in enumerate(cs):
            assert [entry.seq_no for entry in await log(tables, c)] == ([1] if number % 10 == 0 else [1, 2])
            assert (await head_of(tables, c)).head == (1 if number % 10 == 0 else 2)

    async def test_two_groups_of_one_conversation_in_one_call_are_both_stored(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        assert await tables.log.append([group(message(c, 1, "one")), group(message(c, 2, "two"))]) == [None, None]
        head = await head_of(tables, c)
        assert (head.head, head.last_seq, head.preview) == (2, 2, "two")

    async def test_no_group_has_no_verdict(self, tables: Tables) -> None:
        assert await tables.log.append([]) == []

    async def test_a_conversation_that_does_not_exist_is_gone(self, tables: Tables) -> None:
        c, gone = await conversation(tables, "alice"), fresh("c")
        verdicts = await tables.log.append([group(message(gone, 1)), group(message(c, 1)), group(void(gone, 2))])
        nothing = Refused({}, frozenset(), is_gone=True)
        assert verdicts == [nothing, None, nothing]
        assert await log(tables, gone) == []
        assert await log(tables, c) == [message(c, 1)]

    async def test_of_many_appends_at_one_slot_exactly_one_wins(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        rivals = [message(c, 1, f"text {number}", message_id=f"id{number}") for number in range(20)]
        verdicts = await asyncio.gather(*(tables.log.append([group(rival)]) for rival in rivals))
        winners = [rival for rival, [verdict] in zip(rivals, verdicts, strict=True) if verdict is None]
        assert len(winners) == 1
        assert await log(tables, c) == winners
        assert [verdict for [verdict] in verdicts if verdict is not None] == [Refused({}, frozenset({0}))] * 19

    async def test_one_message_id_sent_at_many_slots_at_once_is_stored_once(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        copies = [message(c, seq_no, message_id="x") for seq_no in range(1, 21)]
        verdicts = await asyncio.gather(*(tables.log.append([group(copy)]) for copy in copies))
        [stored] = await log(tables, c)
        known = Refused({0: Known(stored.seq_no)}, frozenset())
        assert [verdict for [verdict] in verdicts if verdict is not None] == [known] * 19

    async def test_many_concurrent_appends_are_all_stored(self, tables: Tables) -> None:
        cs = [await conversation(tables, "alice") for _ in range(5)]
        calls = [tables.log.append([group(message(c, seq_no))]) for c in cs for seq_no in range(1, 31)]
        assert await asyncio.gather(*calls) == [[None]] * 150
        for c in cs:
            assert [entry.seq_no for entry in await log(tables, c)] == list(range(1, 31))
            assert (await head_of(tables, c)).head == 30

    async def test_a_group_of_the_largest_size_is_stored(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        entries = [message(c, seq_no) for seq_no in range(1, bounds.GROUP_ENTRIES_MAX + 1)]
        assert await tables.log.append([group(*entries)]) == [None]
        assert await log(tables, c) == entries


class HeadsContract:
    """The head row follows the log in the same commit."""

    async def test_a_message_raises_the_head_and_sets_the_preview(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one"), message(c, 2, "two\nlines"), void(c, 3))])
        head = await head_of(tables, c)
        assert (head.head, head.last_seq, head.last_ms, head.preview) == (3, 2, START_MS + 2, "two lines")
        assert read_last(head.last_message or "") == LastMessage("alice")

    async def test_a_preview_is_cut(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "x" * 1000))])
        assert (await head_of(tables, c)).preview == "x" * bounds.PREVIEW_CHARS_MAX

    async def test_an_earlier_slot_filled_later_lowers_nothing(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 5, "five"))])
        await tables.log.append([group(message(c, 2, "two"))])
        head = await head_of(tables, c)
        assert (head.head, head.last_seq, head.last_ms, head.preview) == (5, 5, START_MS + 5, "five")

    async def test_entries_that_are_no_messages_leave_the_preview(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one"))])
        change = MemberChange("left", ("bob",))
        await tables.log.append(
            [group(Entry(conversation_id=c, seq_no=2, kind="member", sent_ms=START_MS, member=change))]
        )
        head = await head_of(tables, c)
        assert (head.head, head.last_seq, head.preview) == (2, 1, "one")

    async def test_a_member_change_commits_members_rows_and_members_seq_with_its_entry(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        change = MemberChange("added", ("carol",), "member")
        entry = Entry(conversation_id=c, seq_no=1, kind="member", sent_ms=START_MS, member=change)
        carol = Member(conversation_id=c, user_id="carol", role="admin", joined_seq=1, joined_ms=START_MS)
        bob = Member(conversation_id=c, user_id="bob", left_seq=1)
        row = Row(user_id="carol", conversation_id=c, kind="group", joined_seq=1, joined_ms=START_MS, last_seq=0)
        added = group(entry, members=(carol, bob), rows_added=(row,), rows_removed=("bob",))
        assert await tables.log.append([added]) == [None]
        assert (await head_of(tables, c)).members_seq == 1
        assert await tables.conversations.members(c) == [Member(conversation_id=c, user_id="alice"), carol]
        assert await tables.inboxes.rows("carol", [c]) == {c: row}
        assert await tables.inboxes.rows("bob", [c]) == {}
        await tables.log.append([group(message(c, 2))])
        assert (await head_of(tables, c)).members_seq == 1

    async def test_members_seq_never_goes_back(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        for seq_no in (9, 4):
            entry = Entry(conversation_id=c, seq_no=seq_no, kind="member", sent_ms=START_MS)
            await tables.log.append([group(entry, members=(Member(conversation_id=c, user_id="alice"),))])
        assert (await head_of(tables, c)).members_seq == 9

    async def test_a_row_added_again_keeps_what_its_user_set(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        own = {"muted": True, "muted_until": 8, "pinned": True, "pinned_ms": 7, "archived": True, "archived_seq": 1}
        await tables.inboxes.flag("alice", c, own | {"notify": "none"})
        row = Row(user_id="alice", conversation_id=c, kind="group", name="new", joined_seq=3, unread_count=2)
        await tables.log.append([group(message(c, 1), rows_added=(row,))])
        kept = msgspec.structs.replace(row, **own, notify="none")
        assert await tables.inboxes.rows("alice", [c]) == {c: kept}


def edit(c: str, seq_no: int, target: Entry, text: str | None) -> Group:
    """An edit of `target` to `text`, or with None its deletion, numbered `seq_no`."""
    is_deleted = text is None
    entry = Entry(
        conversation_id=c,
        seq_no=seq_no,
        kind="delete" if is_deleted else "edit",
        sent_ms=START_MS + seq_no,
        sender_id="alice",
        target_seq=target.seq_no,
        content=None if text is None else Content(text),
    )
    rewrite = Rewrite(
        target_seq=target.seq_no,
        expected_rev=target.rev,
        content=None if text is None else Content(text),
        is_deleted=is_deleted,
        edited_ms=None if is_deleted else entry.sent_ms,
        edit_seq=None if is_deleted else seq_no,
        wipe_seq=target.edit_seq,
        sender_id=target.sender_id,
    )
    return group(entry, rewrites=(rewrite,))


class RewritesContract:
    """Edits and deletes change their target in the commit of their own entry."""

    async def test_a_digest_outlives_an_edit_and_goes_with_a_delete(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one"), message(c, 2, "two"))])
        one, two = await log(tables, c)
        assert one.digest and two.digest
        first = msgspec.structs.replace(edit(c, 3, one, "other").entries[0], digest=b"of the edit", message_id="e")
        await tables.log.append([msgspec.structs.replace(edit(c, 3, one, "other"), entries=(first,))])
        await tables.log.append([edit(c, 4, two, None)])
        edited, deleted, by, _ = await log(tables, c)
        assert (edited.digest, deleted.digest, by.digest) == (one.digest, None, b"of the edit")
        await tables.log.append([edit(c, 5, edited, None)])
        assert [entry.digest for entry in await log(tables, c)] == [None] * 5
        [again] = await tables.log.append([group(message(c, 6, "one", message_id="m1"))])
        assert again == Refused({0: Known(1)}, frozenset()), "its id is known all the same"

    async def test_an_edit_gives_the_target_its_new_text_and_a_new_rev(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "old"))])
        assert await tables.log.append([edit(c, 2, message(c, 1, "old"), "new")]) == [None]
        target, entry = await log(tables, c)
        assert (target.text, target.rev, target.edited_ms, target.edit_seq) == ("new", 1, START_MS + 2, 2)
        assert (entry.kind, entry.target_seq, entry.text) == ("edit", 1, "new")
        assert (await head_of(tables, c)).preview == "new"

    async def test_an_id_is_known_after_an_edit_and_a_delete(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "old"))])
        await tables.log.append([edit(c, 2, message(c, 1, "old"), "new")])
        await tables.log.append([edit(c, 3, (await log(tables, c))[0], None)])
        [refused] = await tables.log.append([group(message(c, 4, "old", message_id="m1"))])
        assert refused == Refused({0: Known(1)}, frozenset())

    async def test_a_second_edit_wipes_the_text_of_the_first(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "old"))])
        await tables.log.append([edit(c, 2, message(c, 1, "old"), "newer")])
        await tables.log.append([edit(c, 3, (await log(tables, c))[0], "newest")])
        assert [entry.text for entry in await log(tables, c)] == ["newest", None, "newest"]

    async def test_a_delete_wipes_the_text_everywhere_and_the_preview(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "old"))])
        await tables.log.append([edit(c, 2, message(c, 1, "old"), "new")])
        assert await tables.log.append([edit(c, 3, (await log(tables, c))[0], None)]) == [None]
        target, first_edit, entry = await log(tables, c)
        assert (target.text, target.is_deleted, target.rev, target.edit_seq) == (None, True, 2, None)
        assert (first_edit.text, entry.kind, entry.text) == (None, "delete", None)
        head = await head_of(tables, c)
        assert (head.preview, head.last_seq, head.head) == (None, 1, 3)
        assert read_last(head.last_message or "") == LastMessage("alice", deleted=True)

    async def test_a_rewrite_of_an_earlier_message_leaves_the_preview(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "one"), message(c, 2, "two"))])
        await tables.log.append([edit(c, 3, message(c, 1, "one"), None)])
        assert (await head_of(tables, c)).preview == "two"

    @pytest.mark.parametrize("text", ["other", None])
    async def test_a_rewrite_of_a_later_message_that_counts_for_nobody_leaves_the_preview(
        self, tables: Tables, text: str | None
    ) -> None:
        c = await conversation(tables, "alice", "bob")
        silent = msgspec.structs.replace(message(c, 2, "quiet"), is_uncounted=True)
        await tables.log.append([group(message(c, 1, "loud"), silent)])
        before = await head_of(tables, c)
        assert await tables.log.append([edit(c, 3, silent, text)]) == [None]
        assert await head_of(tables, c) == msgspec.structs.replace(before, head=3)

    async def test_a_target_with_another_rev_is_stale_and_nothing_is_written(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1, "old"))])
        await tables.log.append([edit(c, 2, message(c, 1, "old"), "new")])
        before = await log(tables, c)
        late = edit(c, 3, message(c, 1, "old"), "late")
        assert await tables.log.append([late]) == [Refused({}, frozenset(), is_stale=True)]
        assert await tables.log.append([edit(c, 3, message(c, 9), "none")]) == [Refused({}, frozenset(), is_stale=True)]
        assert await log(tables, c) == before
        assert (await head_of(tables, c)).head == 2

    async def test_of_two_edits_of_one_revision_one_wins(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        target = message(c, 1, "old")
        await tables.log.append([group(target)])
        calls = [tables.log.append([edit(c, seq_no, target, f"text {seq_no}")]) for seq_no in (2, 3)]
        verdicts = [verdict for [verdict] in await asyncio.gather(*calls)]
        assert sorted(verdict is None for verdict in verdicts) == [False, True]
        assert len(await log(tables, c)) == 2


class ReadsContract:
    """Pages, numbering, unread and time."""

    async def test_a_page_lies_between_its_bounds_and_comes_from_the_chosen_end(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(*(message(c, seq_no) for seq_no in range(1, 11)))])

        async def seq_nos(after: int, before: int, limit: int, newest_first: bool) -> list[int]:
            page = await tables.log.page(c, after=after, before=before, limit=limit, newest_first=newest_first)
            return [entry.seq_no for entry in page]

        assert await seq_nos(2, 9, 3, True) == [8, 7, 6]
        assert await seq_nos(2, 9, 3, False) == [3, 4, 5]
        assert await seq_nos(2, 5, 100, True) == [4, 3]
        assert await seq_nos(0, 10**30, 2, True) == [10, 9]
        assert await seq_nos(4, 5, 10, True) == []
        assert await seq_nos(0, 100, 0, True) == []

    async def test_a_page_holds_entries_of_its_conversation_only(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice"), await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1)), group(message(other, 1, "other"))])
        assert await log(tables, c) == [message(c, 1)]
        assert await log(tables, fresh("c")) == []

    async def test_top_is_read_from_the_log(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", members_seq=0)
        assert await tables.log.top(c) == Top(0, 0, 0)
        change = Entry(conversation_id=c, seq_no=1, kind="member", sent_ms=START_MS)
        await tables.log.append([group(change, members=(Member(conversation_id=c, user_id="bob"),))])
        await tables.log.append([group(message(c, 3), void(c, 7))])
        assert await tables.log.top(c) == Top(7, START_MS + 7, 1)

    async def test_the_time_of_the_top_is_the_highest_of_the_last_entries(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        ahead = Entry(conversation_id=c, seq_no=2, kind="void", sent_ms=START_MS + 60_000)
        await tables.log.append([group(message(c, 1), ahead, message(c, 3))])
        assert await tables.log.top(c) == Top(3, START_MS + 60_000, 0)

    async def test_unread_names_the_messages_of_others_newest_first(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        nobody = message(c, 6, sender_id="x", message_id=None)
        entries = [
            message(c, 1, sender_id="bob"),
            message(c, 2),
            message(c, 3, sender_id="bob"),
            void(c, 4),
            Entry(conversation_id=c, seq_no=5, kind="member", sent_ms=START_MS, sender_id="bob"),
            msgspec.structs.replace(nobody, sender_id=None),
            message(c, 7, sender_id="bob"),
            message(c, 8, sender_id="bob"),
        ]
        await tables.log.append([group(*entries)])
        await tables.log.append([edit(c, 9, entries[-1], None)])
        found = [(7, False), (6, False), (3, False), (1, False)]
        assert await tables.log.unread(c, "alice", after=0, limit=100) == found
        assert await tables.log.unread(c, "alice", after=3, limit=100) == found[:2]
        assert await tables.log.unread(c, "alice", after=0, limit=2) == found[:2]
        assert await tables.log.unread(c, "alice", after=9, limit=2) == []

    async def test_unread_says_which_messages_mention_the_user(self, tables: Tables) -> None:
        c = await conversation(tables, "al", "alice", "bob")
        named = (("alice", "carol"), ("*",), (), ("al",), ("carol", "alice"))
        rows = [message(c, n, sender_id="bob") for n in range(1, 6)]
        entries = [msgspec.structs.replace(row, mentions=who) for row, who in zip(rows, named, strict=True)]
        await tables.log.append([group(*entries)])
        found = await tables.log.unread(c, "alice", after=0, limit=10)
        assert found == [(5, True), (4, False), (3, False), (2, True), (1, True)]
        found = await tables.log.unread(c, "al", after=0, limit=10, but=("nobody",))
        assert found == [(5, False), (4, True), (3, False), (2, True), (1, False)]

    async def test_unread_leaves_out_the_senders_named(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob", "carol")
        senders = ("bob", "carol", "bob", "carol", "bob")
        await tables.log.append([group(*(message(c, n, sender_id=who) for n, who in enumerate(senders, 1)))])
        left = [(4, False), (2, False)]
        assert await tables.log.unread(c, "alice", after=0, limit=10, but=("bob", "nobody")) == left
        assert await tables.log.unread(c, "alice", after=0, limit=1, but=frozenset(("bob",))) == left[:1]
        assert await tables.log.unread(c, "alice", after=0, limit=10, but=("bob", "carol")) == []

    @settings(max_examples=25)
    @given(
        steps=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), max_size=40),
        wanted=st.lists(st.integers(0, 130), min_size=1, max_size=10),
    )
    async def test_seq_at_is_the_last_entry_not_later(
        self, tables: Tables, steps: list[tuple[int, int, bool]], wanted: list[int]
    ) -> None:
        """A step is: how far the next number is (gaps between), how much later, and whether it is a void."""
        c = await conversation(tables, "alice")
        entries: list[Entry] = []
        seq_no, sent_ms = 0, 1
        for gap, wait_ms, is_void in steps:
            seq_no, sent_ms = seq_no + gap, sent_ms + wait_ms
            made = void(c, seq_no) if is_void else message(c, seq_no)
            entries.append(msgspec.structs.replace(made, sent_ms=sent_ms))
        if entries:
            assert await tables.log.append([group(*entries)]) == [None]
        for at_ms in wanted:
            expected = max((entry.seq_no for entry in entries if entry.sent_ms <= at_ms), default=0)
            assert await tables.log.seq_at(c, at_ms) == expected

    async def test_a_read_sees_every_write_that_was_answered(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        for seq_no in range(1, 51):
            await tables.log.append([group(message(c, seq_no))])
            assert (await tables.log.top(c)).seq_no == seq_no
