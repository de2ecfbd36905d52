"""Mentions are counted exactly for those who are named, for all, and for those who were there."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect
from tidings.messaging.people.mentions import HERE_MAX, mentioned
from tidings.model import Content, ContentPatch, Mention, Sent, Totals
from tidings.pushes import MessageNew, ReadSynced


async def say(
    node: FaultyNode, sender_id: str, conversation_id: str, *mentions: str, mention: Mention | None = None
) -> Sent:
    content = Content("hello", mentions=mentions, mention=mention)
    return await node.core.sends.send(sender_id, conversation_id, None, content)


async def mentions_of(node: FaultyNode, user_id: str, conversation_id: str) -> tuple[int, int | None, int]:
    state = await node.core.unread.state(user_id, conversation_id)
    return state.mention_count, state.first_mention_seq, state.total_mentions


async def lose(node: FaultyNode, *user_ids: str) -> None:
    """The index of these users is lost."""
    for user_id in user_ids:
        await node.command("DEL", node.core.keys.mark(user_id), node.core.keys.inbox(user_id))


def test_all_stands_for_everybody_and_here_adds_those_who_were_there() -> None:
    assert mentioned(None) == mentioned(Content("x")) == ()
    assert mentioned(Content("x", mentions=("bob",), mention="all")) == ("*",)
    assert mentioned(Content("x", mentions=("bob",), mention="here"), ("ann", "bob")) == ("bob", "ann")


def test_more_people_than_a_row_names_are_everybody() -> None:
    here = tuple(f"user{number}" for number in range(HERE_MAX + 1))
    assert mentioned(Content("x", mention="here"), here[1:]) == here[1:]
    assert mentioned(Content("x", mention="here"), here) == ("*",)


async def test_a_mention_counts_for_those_who_are_named_alone(a: FaultyNode, group: str) -> None:
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    await say(a, "alice", group)
    await say(a, "alice", group, "bob", "a stranger")
    assert await mentions_of(a, "bob", group) == (1, 2, 1)
    assert await mentions_of(a, "carol", group) == (0, None, 0)
    assert await mentions_of(a, "alice", group) == (0, None, 0)
    assert await a.core.unread.totals("bob") == Totals(2, 1, 1)
    seen = [(event.mention_count, event.total_mentions) for event in bob.events if isinstance(event, MessageNew)]
    assert seen == [(0, 0), (1, 1)]
    assert [event.mention_count for event in carol.events if isinstance(event, MessageNew)] == [0, 0]
    assert await a.wrong() == []


async def test_a_read_takes_mentions_along_and_tells_the_other_devices(a: FaultyNode, group: str) -> None:
    await say(a, "alice", group, "bob")
    await say(a, "alice", group, mention="all")
    await say(a, "alice", group)
    laptop = await connect(a, "bob")
    state = await a.core.unread.mark_read("bob", group, up_to_seq=1)
    assert (state.unread_count, state.mention_count, state.first_mention_seq, state.total_mentions) == (2, 1, 2, 1)
    assert ReadSynced(state) in laptop.events
    state = await a.core.unread.mark_read("bob", group, seqs=[2])
    assert (state.unread_count, state.mention_count, state.total_mentions) == (1, 0, 0)
    state = await a.core.unread.mark_unread("bob", group, from_seq=1)
    assert (state.unread_count, state.mention_count, state.first_mention_seq) == (3, 2, 1)
    assert await a.wrong() == []


async def test_here_is_who_was_there_on_any_node_also_after_the_index_was_lost(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await connect(b, "bob")
    sent = await say(a, "alice", group, mention="here")
    assert sent.entry.mentions == ("bob",)
    assert (await mentions_of(a, "bob", group), await mentions_of(a, "carol", group)) == ((1, 1, 1), (0, None, 0))
    await connect(b, "carol")
    await lose(a, "bob", "carol")
    assert (await mentions_of(a, "bob", group), await mentions_of(b, "carol", group)) == ((1, 1, 1), (0, None, 0))
    assert await a.wrong() == []


async def test_an_edit_changes_what_is_shown_and_no_count(a: FaultyNode, group: str) -> None:
    await say(a, "alice", group, "bob")
    await a.core.rewrites.edit("alice", group, 1, ContentPatch(mentions=("carol",)))
    entry = (await a.core.history.page("bob", group)).entries[-1]
    assert entry.content is not None and (entry.content.text, entry.content.mentions) == ("hello", ("carol",))
    assert (await mentions_of(a, "bob", group), await mentions_of(a, "carol", group)) == ((1, 1, 1), (0, None, 0))
    await lose(a, "bob", "carol")
    assert (await mentions_of(a, "bob", group), await mentions_of(a, "carol", group)) == ((1, 1, 1), (0, None, 0))


async def test_a_deleted_a_silent_and_a_blocked_person_s_mention_count_for_nobody(a: FaultyNode, group: str) -> None:
    await say(a, "alice", group, "bob")
    await a.core.rewrites.delete("alice", group, 1)
    await a.core.sends.send("alice", group, None, Content("hush", silent=True, mentions=("bob",)))
    await a.core.blocks.block("bob", "carol")
    await say(a, "carol", group, "bob")
    assert await mentions_of(a, "bob", group) == (0, None, 0)
    assert await a.wrong() == []


async def test_those_whom_a_mention_names_share_one_index_call(a: FaultyNode, group: str) -> None:
    before = a.keyspace.said.count("inbox_index")
    await say(a, "alice", group, "bob", "carol")
    assert a.keyspace.said.count("inbox_index") - before == 2  # of the sender, and of the two
    await say(a, "alice", group, mention="all")
    assert a.keyspace.said.count("inbox_index") - before == 3


async def test_history_opens_at_the_first_mention(a: FaultyNode, group: str) -> None:
    for n in range(30):
        await say(a, "alice", group, *(["bob"] if n in (19, 25) else []))
    page = await a.core.history.page("bob", group, anchor="first_mention", limit=4)
    assert [entry.seq_no for entry in page.entries] == [21, 20, 19, 18]
    page = await a.core.history.page("bob", group, anchor="first_unread", limit=4)
    assert [entry.seq_no for entry in page.entries] == [2, 1]


async def test_mentions_are_measured(a: FaultyNode, group: str) -> None:
    await say(a, "alice", group, "bob", "stranger")
    await say(a, "alice", group, mention="all")
    assert a.core.metrics.mentions.value == 1 + 3
