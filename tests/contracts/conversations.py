"""What every adapter of the Conversations port must do."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contracts import START_MS, conversation, fresh, group, head_of, log, message
from tidings.model import Content, Entry, Head, Member, Row, Status
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Group, Refused


def renaming(conversation_id: str, seq_no: int, **fields: Any) -> Group:
    """The commit of an entry in which alice changes her conversation."""
    content = Content(conversation=fields)
    entry = Entry(conversation_id, seq_no, "conversation", START_MS, f"rename{seq_no}", "alice", content=content)
    return group(entry, members=(Member(conversation_id=conversation_id, user_id="alice"),))


async def rename(tables: Tables, conversation_id: str, seq_no: int, **fields: Any) -> None:
    assert await tables.log.append([renaming(conversation_id, seq_no, **fields)]) == [None]
    await tables.conversations.rename_rows(conversation_id)


class ConversationsContract:
    async def test_a_created_conversation_has_its_head_members_and_rows(self, tables: Tables) -> None:
        c = fresh("c")
        head = Head(
            conversation_id=c,
            kind="channel",
            created_ms=START_MS,
            name="news",
            avatar_url="https://example.org/a.png",
            history="joined",
        )
        member = Member(conversation_id=c, user_id="alice", role="owner", joined_seq=2, joined_ms=3)
        row = Row(user_id="alice", conversation_id=c, kind="channel", name="news", joined_ms=3, is_hidden=True)
        assert await tables.conversations.create(head, [member], [row]) is True
        assert await tables.conversations.heads([c]) == {c: head}
        assert await tables.conversations.members(c) == [member]
        assert await tables.inboxes.rows("alice", [c]) == {c: row}

    async def test_creating_it_twice_changes_nothing(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", name="first")
        second = Head(conversation_id=c, kind="direct", created_ms=START_MS, name="second")
        bob = Member(conversation_id=c, user_id="bob")
        assert (
            await tables.conversations.create(second, [bob], [Row(user_id="bob", conversation_id=c, kind="direct")])
            is False
        )
        head = await head_of(tables, c)
        assert (head.name, head.kind) == ("first", "group")
        assert [member.user_id for member in await tables.conversations.members(c)] == ["alice"]
        assert await tables.inboxes.rows("bob", [c]) == {}

    async def test_of_many_who_create_it_at_once_one_does(self, tables: Tables) -> None:
        c = fresh("c")
        heads = [Head(conversation_id=c, kind="group", created_ms=number) for number in range(10)]
        created = await asyncio.gather(*(tables.conversations.create(head, [], []) for head in heads))
        assert sorted(created) == [False] * 9 + [True]
        assert (await head_of(tables, c)).created_ms == created.index(True)

    async def test_a_conversation_of_the_largest_size_is_created(self, tables: Tables) -> None:
        user_ids = [f"user{number:04}" for number in range(1000)]
        c = await conversation(tables, *user_ids)
        assert [member.user_id for member in await tables.conversations.members(c)] == user_ids

    async def test_heads_answers_those_that_exist(self, tables: Tables) -> None:
        first, second = await conversation(tables), await conversation(tables)
        found = await tables.conversations.heads(iter([second, fresh("c"), first, first]))
        assert {c: head.conversation_id for c, head in found.items()} == {first: first, second: second}
        assert await tables.conversations.heads([]) == {}

    async def test_members_are_the_present_ones_by_user_id(self, tables: Tables) -> None:
        c = await conversation(tables, "carol", "alice", "bob")
        left = Member(conversation_id=c, user_id="bob", left_seq=1)
        await tables.log.append([group(message(c, 1), members=(left,))])
        assert [member.user_id for member in await tables.conversations.members(c)] == ["alice", "carol"]
        assert await tables.conversations.members(fresh("c")) == []

    async def test_a_long_member_list_comes_in_pages(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob", "carol", "dave", "Zoe")
        left = Member(conversation_id=c, user_id="bob", left_seq=1)
        await tables.log.append([group(message(c, 1), members=(left,))])
        pages, after_id = [], ""
        while page := await tables.conversations.members_after(c, after_id=after_id, limit=2):
            pages.append([member.user_id for member in page])
            after_id = page[-1].user_id
        assert pages == [["Zoe", "alice"], ["carol", "dave"]]
        assert await tables.conversations.members_after(fresh("c"), after_id="", limit=2) == []

    async def test_some_members_are_read_by_name(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob", "carol")
        left = Member(conversation_id=c, user_id="bob", left_seq=1)
        await tables.log.append([group(message(c, 1), members=(left,))])
        found = await tables.conversations.named(c, ["carol", "bob", "nobody", "alice"])
        assert sorted(member.user_id for member in found) == ["alice", "carol"]
        assert await tables.conversations.former(c, ["carol", "bob", "nobody"]) == [left]

    async def test_who_comes_back_is_a_member_again(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        await tables.log.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        back = Member(conversation_id=c, user_id="bob", joined_seq=2)
        await tables.log.append([group(message(c, 2), members=(back,))])
        assert (await tables.conversations.members(c))[1] == back

    async def test_an_invitation_is_a_row_without_a_membership(self, tables: Tables) -> None:
        bob, alice = fresh("bob"), fresh("alice")
        c = await conversation(tables, alice)
        invited = [Member(conversation_id=c, user_id=user_id, left_seq=0) for user_id in (bob, alice)]
        rows = [Row(user_id=one.user_id, conversation_id=c, kind="group", is_invited=True) for one in invited]
        await tables.conversations.invite(invited, rows)
        assert [member.user_id for member in await tables.conversations.members(c)] == [alice], "a member stays one"
        assert not (await tables.inboxes.rows(alice, [c]))[c].is_invited
        assert await tables.inboxes.rows(bob, [c]) == {c: rows[0]}
        assert await tables.conversations.former(c, [bob, alice, fresh("carol")]) == [invited[0]]
        assert [await tables.conversations.withdraw(c, user_id) for user_id in (alice, bob, bob)] == [
            False,
            True,
            False,
        ]
        assert await tables.inboxes.rows(bob, [c]) == {} and c in await tables.inboxes.rows(alice, [c])

    async def test_the_rows_of_invited_people_go_with_the_conversation(self, tables: Tables) -> None:
        bob = fresh("bob")
        c = await conversation(tables, "alice")
        row = Row(user_id=bob, conversation_id=c, kind="group", is_invited=True)
        await tables.conversations.invite([Member(conversation_id=c, user_id=bob, left_seq=0)], [row])
        await tables.conversations.delete(c)
        assert await tables.inboxes.rows(bob, [c]) == {}

    async def test_an_accepted_request_is_one_no_more_for_member_and_row(self, tables: Tables) -> None:
        bob = fresh("bob")
        c = fresh("c")
        asked = Member(conversation_id=c, user_id=bob, is_requested=True)
        row = Row(user_id=bob, conversation_id=c, kind="direct", name="x", is_requested=True)
        await tables.conversations.create(Head(conversation_id=c, kind="direct", created_ms=1), [asked], [row])
        assert await tables.conversations.members(c) == [asked]
        assert await tables.inboxes.rows(bob, [c]) == {c: row}
        accepted = Member(conversation_id=c, user_id=bob)
        change = Group(conversation_id=c, entries=(message(c, 1),), members=(accepted,), rows_accepted=(bob,))
        assert await tables.log.append([change]) == [None]
        assert await tables.conversations.members(c) == [accepted]
        assert not (await tables.inboxes.rows(bob, [c]))[c].is_requested
        assert (await head_of(tables, c)).members_seq == 1

    async def test_an_entry_renames_the_head_and_the_rows_of_present_members(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice", "bob", name="old"), await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        await rename(tables, c, 2, name="new", avatar_url="u", post="admins")
        head, row = await head_of(tables, c), (await tables.inboxes.rows("alice", [c]))[c]
        assert (head.name, head.avatar_url, row.name, row.avatar_url) == ("new", "u", "new", "u")
        assert (head.head, head.members_seq) == (2, 2)
        assert (await tables.inboxes.rows("bob", [c]))[c].name is None
        assert (await tables.inboxes.rows("alice", [other]))[other].name is None
        await rename(tables, c, 3, name=None)
        head, row = await head_of(tables, c), (await tables.inboxes.rows("alice", [c]))[c]
        assert (head.name, head.avatar_url, row.name, row.avatar_url) == (None, "u", None, "u")

    async def test_a_refused_entry_renames_nothing(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", name="old")
        await tables.log.append([group(message(c, 1))])
        (answer,) = await tables.log.append([renaming(c, 1, name="new")])
        assert isinstance(answer, Refused) and (await head_of(tables, c)).name == "old"
        await tables.conversations.rename_rows(c)
        assert (await tables.inboxes.rows("alice", [c]))[c].name != "new"

    async def test_the_rows_of_a_conversation_that_does_not_exist_are_not_renamed(self, tables: Tables) -> None:
        await tables.conversations.rename_rows(fresh("c"))

    async def test_delete_leaves_nothing_of_it_and_all_of_the_others(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice", "bob"), await conversation(tables, "alice")
        for each in (c, other):
            await tables.log.append([group(message(each, 1), message(each, 2))])
            await tables.statuses.put(Status(conversation_id=each, user_id="alice", version=1, read_seq=2))
        await tables.conversations.delete(c)
        assert await tables.conversations.heads([c]) == {}
        assert await log(tables, c) == []
        assert await tables.conversations.members(c) == []
        assert await tables.inboxes.rows("alice", [c]) == {}
        assert await tables.statuses.of_conversation(c) == []
        assert len(await log(tables, other)) == 2
        assert await tables.inboxes.rows("alice", [other]) and await tables.statuses.of_conversation(other)

    async def test_deleting_it_again_is_no_complaint(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.conversations.delete(c)
        await tables.conversations.delete(c)

    async def test_a_deleted_conversation_takes_no_entry_and_may_be_created_anew(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.log.append([group(message(c, 1))])
        await tables.conversations.delete(c)
        [refused] = await tables.log.append([group(message(c, 2))])
        assert isinstance(refused, Refused) and refused.is_gone
        assert await tables.conversations.create(Head(conversation_id=c, kind="group", created_ms=1), [], [])
        assert await tables.log.append([group(message(c, 1))]) == [None]
