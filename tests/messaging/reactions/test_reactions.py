"""Reactions: exact whatever is retried, in few entries, and nothing else moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost, request_lost
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.errors import Forbidden, NotFound, TooLarge
from tidings.messaging.reactions.reactions import REACTION_KEYS_MAX, REACTIONS_BYTES_MAX, ReactionEntry
from tidings.model import Entry, InboxPage, ReactionCount
from tidings.pushes import MessageNew

UP, DOWN = "👍", "👎"


async def react(node: FaultyNode, user_id: str, id_: str, key: str = UP, *, on: bool = True, seq: int = 1) -> Any:
    return await node.core.reactions.react(user_id, id_, seq, key, is_on=on)


def recount(log: list[Entry], seq: int = 1) -> dict[str, set[str]]:
    """The reactions to a message from the log alone, applied in its order. Each change must change something."""
    found: dict[str, set[str]] = {}
    for entry in log:
        if entry.kind != "reaction" or entry.target_seq != seq:
            continue
        assert entry.content is not None and entry.content.reactions
        for key, added, removed in entry.content.reactions:
            users = found.setdefault(key, set())
            assert not users & set(added) and users >= set(removed) and not set(added) & set(removed)
            users |= set(added)
            users -= set(removed)
    return {key: users for key, users in found.items() if users}


async def kept(node: FaultyNode, id_: str, seq: int = 1) -> dict[str, set[str]]:
    summary, _ = await node.core.summaries.read(id_, seq)
    return {key: set(users) for key, users in summary.reactions.items()}


def reactions(log: list[Entry]) -> list[Entry]:
    return [entry for entry in log if entry.kind == "reaction"]


async def test_reactions_at_the_same_time_share_one_entry_and_the_answer_is_the_state(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    first, second, third = await asyncio.gather(
        react(a, "bob", group), react(a, "carol", group), react(a, "alice", group, DOWN)
    )
    assert first.reactions == {UP: ReactionCount(2, True), DOWN: ReactionCount(1, False)}
    assert third.reactions[DOWN].mine and second.reactions_seq == 2
    (entry,) = reactions(await a.log(group))
    assert entry.target_seq == 1 and entry.content is not None
    assert entry.content.reactions == ((UP, ("bob", "carol"), ()), (DOWN, ("alice",), ()))


async def test_the_same_reaction_twice_is_once_and_the_last_wish_of_a_user_counts(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await asyncio.gather(react(a, "bob", group), react(a, "bob", group))
    await react(a, "bob", group)
    assert len(reactions(await a.log(group))) == 1
    await asyncio.gather(react(a, "bob", group, DOWN), react(a, "bob", group, DOWN, on=False))
    assert len(reactions(await a.log(group))) == 1
    gone = await react(a, "bob", group, on=False)
    assert gone.reactions == {} and gone.reactions_seq == 3
    assert (await react(a, "bob", group, on=False)).reactions_seq == 3
    assert recount(await a.log(group)) == {}


async def test_a_lost_answer_or_a_lost_request_changes_no_count(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    for fault in (answer_lost, request_lost, answer_lost):
        a.faulty_log.faults.append(fault)
        await asyncio.gather(react(a, "bob", group), react(a, "carol", group))
        await react(a, "bob", group, on=False)
    log = await a.log(group)
    assert recount(log) == await kept(a, group) == {UP: {"carol"}}
    assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))


async def test_two_nodes_keep_one_summary_that_a_recount_of_the_log_confirms(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    for turn in range(4):
        wishes = [
            react(node, user_id, group, key, on=(turn + len(user_id) + len(key)) % 2 == 0)
            for node in (a, b)
            for user_id in ("alice", "bob", "carol")
            for key in (UP, "ok")
        ]
        toggles = [react(a, "bob", group, DOWN, on=True), react(b, "bob", group, DOWN, on=False)]
        await asyncio.gather(*wishes, *toggles)
        assert recount(await a.log(group)) == await kept(b, group)


async def test_a_message_has_so_many_kinds_of_reactions_and_the_rest_of_the_entry_is_stored(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    wishes = [react(a, "bob", group, f"k{at}") for at in range(REACTION_KEYS_MAX + 1)]
    answers = await asyncio.gather(*wishes, return_exceptions=True)
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [TooLarge]
    assert len(await kept(a, group)) == REACTION_KEYS_MAX
    await asyncio.gather(react(a, "bob", group, "k0", on=False), react(a, "carol", group, "new"))
    assert recount(await a.log(group)) == await kept(a, group)


async def test_a_summary_stays_within_what_a_record_holds(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    made = ReactionEntry(a.core.summaries, (group, 1), {("u" * 128 + str(at), UP): True for at in range(4_000)})
    await made.read()
    assert made.refused and sum(map(len, made.users)) <= REACTIONS_BYTES_MAX + 1_000


async def test_strangers_deleted_messages_and_what_is_no_message_get_no_reactions(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    await a.core.rewrites.delete("alice", group, 2)
    with pytest.raises(NotFound):
        await react(a, "mallory", group)
    for seq in (2, 3, 99):
        with pytest.raises(NotFound):
            await react(a, "bob", group, seq=seq)
    assert not reactions(await a.log(group))


async def test_a_blocked_person_reacts_to_nothing_in_a_direct_conversation(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.blocks.block("alice", "bob")
    with pytest.raises(Forbidden):
        await react(a, "bob", direct)


async def test_who_left_meanwhile_is_left_out_and_who_left_later_keeps_theirs(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    bob, carol = asyncio.create_task(react(a, "bob", group)), asyncio.create_task(react(a, "carol", group))
    while not a.core.reactions._gathering or len(next(iter(a.core.reactions._gathering.values())).wants) < 2:
        await asyncio.sleep(0)
    await a.core.directory.remove("bob", group, "bob")
    answers = await asyncio.gather(bob, carol, return_exceptions=True)
    assert isinstance(answers[0], NotFound) and await kept(a, group) == {UP: {"carol"}}
    await a.core.directory.remove("carol", group, "carol")
    assert await kept(a, group) == {UP: {"carol"}}


async def test_everybody_sees_the_entry_live_also_on_the_other_node(a: FaultyNode, b: FaultyNode, group: str) -> None:
    async with telling(a, b):
        here, there = await connect(a, "bob"), await connect(b, "carol")
        await a.send("alice", group, "m1")
        await react(a, "bob", group)
        await eventually(lambda: there.seqs()[-1:] == [2])
        for device in (here, there):
            (event,) = [one for one in device.events if isinstance(one, MessageNew) and one.entry.kind == "reaction"]
            assert event.entry.content is not None and event.entry.content.reactions == ((UP, ("bob",), ()),)


async def shown(node: FaultyNode) -> InboxPage:
    return await node.core.inbox.page("bob", limit=20, cursor=None)


async def test_a_reaction_counts_for_nobody_and_moves_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.rows.flush()
    before = await shown(a), await a.unread("bob"), await a.unread("carol")
    await react(a, "carol", group)
    await a.core.rows.flush()
    assert (await shown(a), await a.unread("bob"), await a.unread("carol")) == before
    assert await a.wrong() == []
    await a.command("FLUSHALL", "SYNC")
    assert (await a.unread("bob"), await a.unread("carol")) == before[1:]


async def test_a_thousand_members_react_within_a_second_in_few_entries(a: FaultyNode) -> None:
    people = [f"user{at}" for at in range(999)]
    view, _ = await a.core.directory.create("alice", kind="channel", members=people, name="all")
    id_ = view.head.conversation_id
    await a.send("alice", id_, "m1")
    await asyncio.gather(*(react(a, user_id, id_, UP if at % 3 else DOWN) for at, user_id in enumerate(people)))
    log = await a.log(id_)
    assert recount(log) == await kept(a, id_)
    assert sum(map(len, recount(log).values())) == 999 and len(reactions(log)) <= 6
