"""What every adapter of the Conversations port must do."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts import START_MS, conversation, fresh, group, head_of, log, message
from tidings.errors import Missing
from tidings.model import Head, Member, Row, Status
from tidings.stores.ports import Tables


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
        assert await tables.create(head, [member], [row]) is True
        assert await tables.heads([c]) == {c: head}
        assert await tables.members(c) == [member]
        assert await tables.rows("alice", [c]) == {c: row}

    async def test_creating_it_twice_changes_nothing(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", name="first")
        second = Head(conversation_id=c, kind="direct", created_ms=START_MS, name="second")
        bob = Member(conversation_id=c, user_id="bob")
        assert await tables.create(second, [bob], [Row(user_id="bob", conversation_id=c, kind="direct")]) is False
        head = await head_of(tables, c)
        assert (head.name, head.kind) == ("first", "group")
        assert [member.user_id for member in await tables.members(c)] == ["alice"]
        assert await tables.rows("bob", [c]) == {}

    async def test_of_many_who_create_it_at_once_one_does(self, tables: Tables) -> None:
        c = fresh("c")
        heads = [Head(conversation_id=c, kind="group", created_ms=number) for number in range(10)]
        created = await asyncio.gather(*(tables.create(head, [], []) for head in heads))
        assert sorted(created) == [False] * 9 + [True]
        assert (await head_of(tables, c)).created_ms == created.index(True)

    async def test_a_conversation_of_the_largest_size_is_created(self, tables: Tables) -> None:
        user_ids = [f"user{number:04}" for number in range(1000)]
        c = await conversation(tables, *user_ids)
        assert [member.user_id for member in await tables.members(c)] == user_ids

    async def test_heads_answers_those_that_exist(self, tables: Tables) -> None:
        first, second = await conversation(tables), await conversation(tables)
        found = await tables.heads(iter([second, fresh("c"), first, first]))
        assert {c: head.conversation_id for c, head in found.items()} == {first: first, second: second}
        assert await tables.heads([]) == {}

    async def test_members_are_the_present_ones_by_user_id(self, tables: Tables) -> None:
        c = await conversation(tables, "carol", "alice", "bob")
        left = Member(conversation_id=c, user_id="bob", left_seq=1)
        await tables.append([group(message(c, 1), members=(left,))])
        assert [member.user_id for member in await tables.members(c)] == ["alice", "carol"]
        assert await tables.members(fresh("c")) == []

    async def test_who_comes_back_is_a_member_again(self, tables: Tables) -> None:
        c = await conversation(tables, "alice", "bob")
        await tables.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        back = Member(conversation_id=c, user_id="bob", joined_seq=2)
        await tables.append([group(message(c, 2), members=(back,))])
        assert (await tables.members(c))[1] == back

    async def test_rename_sets_the_head_and_the_rows_of_present_members(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice", "bob", name="old"), await conversation(tables, "alice")
        await tables.append([group(message(c, 1), members=(Member(conversation_id=c, user_id="bob", left_seq=1),))])
        await tables.rename(c, name="new", avatar_url="u")
        head, row = await head_of(tables, c), (await tables.rows("alice", [c]))[c]
        assert (head.name, head.avatar_url, row.name, row.avatar_url) == ("new", "u", "new", "u")
        assert (await tables.rows("bob", [c]))[c].name is None
        assert (await tables.rows("alice", [other]))[other].name is None
        await tables.rename(c, name=None, avatar_url=None)
        assert (await head_of(tables, c)).name is None

    async def test_renaming_what_does_not_exist_is_missing(self, tables: Tables) -> None:
        with pytest.raises(Missing):
            await tables.rename(fresh("c"), name="x", avatar_url=None)

    async def test_delete_leaves_nothing_of_it_and_all_of_the_others(self, tables: Tables) -> None:
        c, other = await conversation(tables, "alice", "bob"), await conversation(tables, "alice")
        for each in (c, other):
            await tables.append([group(message(each, 1), message(each, 2))])
            await tables.put(Status(conversation_id=each, user_id="alice", version=1, read_seq=2))
        await tables.delete(c)
        assert await tables.heads([c]) == {}
        assert await log(tables, c) == []
        assert await tables.members(c) == []
        assert await tables.rows("alice", [c]) == {}
        assert await tables.of_conversation(c) == []
        assert len(await log(tables, other)) == 2
        assert await tables.rows("alice", [other]) and await tables.of_conversation(other)

    async def test_deleting_it_again_is_no_complaint(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.delete(c)
        await tables.delete(c)

    async def test_a_deleted_conversation_takes_no_entry_and_may_be_created_anew(self, tables: Tables) -> None:
        c = await conversation(tables, "alice")
        await tables.append([group(message(c, 1))])
        await tables.delete(c)
        [refused] = await tables.append([group(message(c, 2))])
        assert refused is not None and refused.is_gone
        assert await tables.create(Head(conversation_id=c, kind="group", created_ms=1), [], [])
        assert await tables.append([group(message(c, 1))]) == [None]
