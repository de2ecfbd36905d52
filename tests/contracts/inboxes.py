"""What every adapter of the Inboxes port must do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contracts import START_MS, conversation, fresh, group, message
from tidings.errors import Missing
from tidings.model import Content, Entry, File, Head, Member, MemberChange, Row, Status
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.stored_content import AT_HEAD, last_of
from tidings.stores.tables.values import Touch


def touch(user_id: str, conversation_id: str, last_seq: int, **fields: object) -> Touch:
    values: dict[str, Any] = {"last_ms": START_MS + last_seq, "preview": f"text {last_seq}", **fields}
    return Touch(user_id=user_id, conversation_id=conversation_id, last_seq=last_seq, **values)


async def row_of(tables: Tables, user_id: str, conversation_id: str) -> Row:
    return (await tables.inboxes.rows(user_id, [conversation_id]))[conversation_id]


class InboxesContract:
    async def test_rows_answers_exactly_those_named(self, tables: Tables) -> None:
        alice, bob = fresh("alice"), fresh("bob")
        cs = [await conversation(tables, alice) for _ in range(3)]
        of_bob = await conversation(tables, bob)
        found = await tables.inboxes.rows(alice, iter([cs[2], of_bob, cs[0], fresh("c"), cs[0]]))
        assert set(found) == {cs[0], cs[2]}
        assert found[cs[0]] == Row(user_id=alice, conversation_id=cs[0], kind="group")
        assert await tables.inboxes.rows(alice, []) == {}

    async def test_scan_goes_through_all_rows_in_order_of_the_id(self, tables: Tables) -> None:
        alice = fresh("alice")
        cs = sorted([await conversation(tables, alice, fresh("bob")) for _ in range(7)])
        seen: list[str] = []
        after_id = ""
        while page := await tables.inboxes.scan(alice, after_id=after_id, limit=3):
            assert len(page) <= 3
            seen += [row.conversation_id for row in page]
            after_id = seen[-1]
        assert seen == cs

    async def test_a_touch_moves_the_row_forward(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, unread_count=2)])
        row = await row_of(tables, alice, c)
        assert (row.last_seq, row.last_message_ts, row.last_message_preview, row.unread_count) == (
            3,
            START_MS + 3,
            "text 3",
            2,
        )

    async def test_a_row_shows_the_role_and_more_about_the_last_message(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, last_message='{"sender_id":"bob"}')])
        change = MemberChange("role", (alice,), "admin")
        entry = Entry(c, 1, "member", START_MS, sender_id=alice, member=change)
        admin = Member(conversation_id=c, user_id=alice, role="admin")
        assert await tables.log.append([group(entry, members=(admin,))]) == [None]
        row = await row_of(tables, alice, c)
        assert (row.last_message, row.role, row.last_message_preview) == ('{"sender_id":"bob"}', "admin", "text 3")

    async def test_a_late_touch_changes_nothing(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, unread_count=2)])
        before = await row_of(tables, alice, c)
        await tables.inboxes.touch([touch(alice, c, 2, unread_count=9)])
        assert await row_of(tables, alice, c) == before

    async def test_a_touch_at_the_same_message_is_applied(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, unread_count=2)])
        await tables.inboxes.touch([touch(alice, c, 3, preview=None, unread_count=0)])
        row = await row_of(tables, alice, c)
        assert (row.last_message_preview, row.unread_count, row.last_message) == (None, 0, None)

    async def test_the_text_of_a_deleted_message_does_not_come_back_with_a_late_touch(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, preview=None)])
        await tables.inboxes.touch([touch(alice, c, 3, preview="deleted since", unread_count=9)])
        row = (await tables.inboxes.rows(alice, [c]))[c]
        assert (row.last_message_preview, row.unread_count) == (None, None)
        await tables.inboxes.touch([touch(alice, c, 4, preview="next")])
        await tables.inboxes.touch([touch(alice, c, 4, preview="edited")])
        assert (await tables.inboxes.rows(alice, [c]))[c].last_message_preview == "edited"

    async def test_a_message_without_a_text_shows_the_text_that_an_edit_gives_it(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        there = last_of("bob", Content(files=(File("f1"),)), is_deleted=False)
        gone = last_of("bob", None, is_deleted=True)
        await tables.inboxes.touch([touch(alice, c, 3, preview=None, last_message=there)])
        await tables.inboxes.touch([touch(alice, c, 3, preview="words", last_message=there)])
        assert (await row_of(tables, alice, c)).last_message_preview == "words"
        await tables.inboxes.touch([touch(alice, c, 3, preview=None, last_message=gone)])
        await tables.inboxes.touch([touch(alice, c, 3, preview="words", last_message=there)])
        row = await row_of(tables, alice, c)
        assert (row.last_message_preview, row.last_message) == (None, gone)

    async def test_an_empty_text_is_a_text_that_an_edit_may_change(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        for preview in ("", "edited"):
            await tables.inboxes.touch([touch(alice, c, 1, preview=preview)])
            assert (await row_of(tables, alice, c)).last_message_preview == preview

    async def test_a_text_that_was_left_to_the_head_comes_back_with_a_touch(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, last_message=last_of("bob", Content("x"), is_deleted=False))])
        await tables.inboxes.touch([touch(alice, c, 3, preview=None, last_message=AT_HEAD)])
        row = await row_of(tables, alice, c)
        assert (row.last_message_preview, row.last_message) == (None, AT_HEAD)
        await tables.inboxes.touch([touch(alice, c, 3, preview="words")])
        assert (await row_of(tables, alice, c)).last_message_preview == "words"

    async def test_a_count_is_not_known_after_a_touch_without_one(self, tables: Tables) -> None:
        """Else a member whose index is cold would have 0 unread, however many messages came."""
        alice = fresh("alice")
        c = await conversation(tables, alice)
        assert (await row_of(tables, alice, c)).unread_count == 0
        await tables.inboxes.touch([touch(alice, c, 1, unread_count=5)])
        await tables.inboxes.touch([touch(alice, c, 2)])
        row = await row_of(tables, alice, c)
        assert (row.last_seq, row.unread_count) == (2, None)

    async def test_a_count_does_not_outlive_the_status_it_was_made_from(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 4, unread_count=4)])
        await tables.statuses.put(Status(conversation_id=c, user_id=alice, version=1, cursor_seq=2, read_seq=2))
        assert (await row_of(tables, alice, c)).unread_count is None
        await tables.inboxes.touch([touch(alice, c, 4, unread_count=4)])
        assert (await row_of(tables, alice, c)).unread_count is None, "written late, from before the mark"
        await tables.inboxes.touch([touch(alice, c, 4, unread_count=2, version=1)])
        assert (await row_of(tables, alice, c)).unread_count == 2
        await tables.statuses.put(Status(conversation_id=c, user_id=alice, version=2, cursor_seq=4, read_seq=4))
        assert (await row_of(tables, alice, c)).unread_count in (0, None), "everything is read"
        await tables.inboxes.touch([touch(alice, c, 4, unread_count=2, version=1)])
        assert (await row_of(tables, alice, c)).unread_count in (0, None)

    async def test_the_latest_rows_come_in_the_order_of_the_inbox(self, tables: Tables) -> None:
        alice = fresh("alice")
        cs = [await conversation(tables, alice) for _ in range(6)]
        await tables.inboxes.touch([touch(alice, c, 1, last_ms=10 * at) for at, c in enumerate(cs[:4], start=1)])
        await tables.inboxes.touch([touch(alice, cs[4], 1, last_ms=20, unread_count=3)])
        places = [(40, cs[3]), (30, cs[2]), *sorted([(20, cs[1]), (20, cs[4])], reverse=True), (10, cs[0]), (1, cs[5])]
        seen: list[tuple[int, str]] = []
        before: tuple[int, str] | None = None
        while page := await tables.inboxes.latest(alice, before=before, limit=2):
            seen += [(max(row.last_message_ts, row.joined_ms, 1), row.conversation_id) for row in page]
            before = seen[-1]
        assert seen == places
        assert await tables.inboxes.unread(alice) == (3, 1)

    async def test_a_hidden_row_is_not_among_the_latest(self, tables: Tables) -> None:
        c, bob = fresh("c"), fresh("bob")
        row = Row(user_id=bob, conversation_id=c, kind="direct", is_hidden=True)
        await tables.conversations.create(Head(conversation_id=c, kind="direct", created_ms=START_MS), [], [row])
        assert await tables.inboxes.latest(bob, before=None, limit=9) == []
        await tables.inboxes.touch([touch(bob, c, 1)])
        assert [row.conversation_id for row in await tables.inboxes.latest(bob, before=None, limit=9)] == [c]

    async def test_a_touch_never_creates_a_row(self, tables: Tables) -> None:
        alice, bob = fresh("alice"), fresh("bob")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(bob, c, 1), touch(alice, fresh("c"), 1), touch(alice, c, 1)])
        assert await tables.inboxes.rows(bob, [c]) == {}
        assert [row.last_seq for row in await tables.inboxes.scan(alice, after_id="", limit=10)] == [1]

    async def test_a_hidden_row_comes_back_with_a_later_message_alone(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3)])
        await tables.inboxes.hide(alice, c, up_to_seq=3)
        await tables.inboxes.touch([touch(alice, c, 3)])
        hidden = await row_of(tables, alice, c)
        assert (hidden.is_hidden, hidden.hidden_seq) == (True, 3)
        await tables.inboxes.touch([touch(alice, c, 4)])
        assert not (await row_of(tables, alice, c)).is_hidden
        await tables.inboxes.hide(fresh("bob"), c, up_to_seq=4)
        assert await tables.inboxes.rows(alice, [fresh("c")]) == {}

    async def test_a_hidden_row_loses_the_text_of_a_deleted_message_and_stays_hidden(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 3, unread_count=2)])
        await tables.inboxes.hide(alice, c, up_to_seq=3)
        await tables.inboxes.touch([touch(alice, c, 3, preview=None, unread_count=1)])
        row = await row_of(tables, alice, c)
        assert (row.last_message_preview, row.unread_count, row.is_hidden) == (None, 1, True)
        await tables.inboxes.touch([touch(alice, c, 2)])
        assert await row_of(tables, alice, c) == row

    async def test_a_label_changes_name_and_picture_of_the_rows_named_alone(self, tables: Tables) -> None:
        alice, bob = fresh("alice"), fresh("bob")
        c, d = await conversation(tables, alice, bob), await conversation(tables, alice)
        before = await row_of(tables, alice, c)
        others = [await row_of(tables, bob, c), await row_of(tables, alice, d)]
        await tables.inboxes.label(
            [(alice, c), (bob, d), (alice, fresh("c"))], name="Bo", avatar_url="https://x.test/bo.png"
        )
        labelled = msgspec.structs.replace(before, name="Bo", avatar_url="https://x.test/bo.png")
        assert await row_of(tables, alice, c) == labelled
        assert [await row_of(tables, bob, c), await row_of(tables, alice, d)] == others
        assert (
            await tables.inboxes.rows(bob, [d]) == {}
            and len(await tables.inboxes.scan(alice, after_id="", limit=10)) == 2
        )
        await tables.inboxes.label([(alice, c)], name="bob", avatar_url=None)
        assert await row_of(tables, alice, c) == msgspec.structs.replace(before, name="bob", avatar_url=None)
        await tables.inboxes.label([], name="nobody", avatar_url=None)

    async def test_many_touches_at_once_each_reach_their_row(self, tables: Tables) -> None:
        user_ids = [fresh("user") for _ in range(150)]
        c = await conversation(tables, *user_ids)
        await tables.inboxes.touch(
            [touch(user_id, c, number, unread_count=number) for number, user_id in enumerate(user_ids)]
        )
        for number, user_id in enumerate(user_ids):
            assert (await row_of(tables, user_id, c)).unread_count == number

    async def test_two_touches_of_one_row_in_one_call_end_at_the_later(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.touch([touch(alice, c, 2), touch(alice, c, 1)])
        assert (await row_of(tables, alice, c)).last_seq == 2
        await tables.inboxes.touch([touch(alice, c, 3), touch(alice, c, 4)])
        assert (await row_of(tables, alice, c)).last_seq == 4
        await tables.inboxes.touch([])

    async def test_the_first_message_shows_a_hidden_row(self, tables: Tables) -> None:
        c, bob = fresh("c"), fresh("bob")
        row = Row(user_id=bob, conversation_id=c, kind="direct", is_hidden=True)
        await tables.conversations.create(Head(conversation_id=c, kind="direct", created_ms=START_MS), [], [row])
        await tables.inboxes.touch([touch(bob, c, 0, unread_count=0)])
        assert (await row_of(tables, bob, c)).is_hidden
        await tables.inboxes.touch([touch(bob, c, 1)])
        assert not (await row_of(tables, bob, c)).is_hidden

    async def test_flag_sets_what_is_named_and_answers_the_row(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        row = await tables.inboxes.flag(
            alice, c, {"muted": True, "muted_until": 9, "archived": True, "archived_seq": 3}
        )
        assert (row.muted, row.muted_until, row.pinned, row.archived, row.archived_seq) == (True, 9, False, True, 3)
        assert row == await row_of(tables, alice, c)
        changes = {"muted": False, "muted_until": None, "pinned": True, "pinned_ms": 7, "notify": "mentions"}
        row = await tables.inboxes.flag(alice, c, changes)
        assert (row.muted, row.muted_until, row.pinned, row.pinned_ms) == (False, None, True, 7)
        assert (row.archived, row.archived_seq, row.notify) == (True, 3, "mentions")
        assert row == await row_of(tables, alice, c) == await tables.inboxes.flag(alice, c, {})

    async def test_a_touch_leaves_the_flags(self, tables: Tables) -> None:
        alice = fresh("alice")
        c = await conversation(tables, alice)
        await tables.inboxes.flag(alice, c, {"muted": True, "pinned": True, "archived": True})
        await tables.inboxes.touch([touch(alice, c, 1)])
        row = await row_of(tables, alice, c)
        assert (row.muted, row.pinned, row.archived) == (True, True, True)

    async def test_flagging_a_row_that_does_not_exist_is_missing(self, tables: Tables) -> None:
        with pytest.raises(Missing):
            await tables.inboxes.flag(fresh("alice"), fresh("c"), {"muted": True})

    async def test_users_are_named_once_in_order(self, tables: Tables) -> None:
        prefix = fresh("zz")
        user_ids = [f"{prefix}.{letter}" for letter in "abcde"]
        for _ in range(3):
            c = await conversation(tables, *user_ids)
        await tables.log.append([group(message(c, 1), rows_removed=(user_ids[2],))])
        assert await tables.inboxes.users(after_id=prefix, limit=3) == user_ids[:3]
        assert await tables.inboxes.users(after_id=user_ids[2], limit=2) == user_ids[3:]
        assert await tables.inboxes.users(after_id="zzz", limit=2) == []

    async def test_a_user_without_rows_is_not_named(self, tables: Tables) -> None:
        prefix = fresh("zz")
        c = await conversation(tables, f"{prefix}.a", f"{prefix}.b")
        await tables.log.append([group(message(c, 1), rows_removed=(f"{prefix}.a",))])
        assert await tables.inboxes.users(after_id=prefix, limit=1) == [f"{prefix}.b"]
