"""The rule of unread, applied to the tables."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound
from tidings.messaging.reactions import reactions
from tidings.messaging.reading.inbox import FILTERS
from tidings.messaging.unread.count import Count
from tidings.model import Content, ContentPatch


async def test_what_is_unread_and_what_mentions_the_user_are_counted(a: FaultyNode, group: str) -> None:
    for mentions in ((), ("bob",), ("carol", "bob")):
        await a.core.sends.send("alice", group, None, Content("x", mentions=mentions))
    await a.core.sends.send("bob", group, None, Content("mine", mentions=("bob",)))
    count = Count(a.core.tables, a.core.scripts, a.clock)
    bob = await count.one("bob", group)
    assert (bob.unread, bob.mentions) == ([3, 2, 1], [3, 2])
    assert (bob.mark.count, bob.mark.first, bob.mark.mentions, bob.mark.first_mention) == (3, 1, 2, 2)
    carol = await count.one("carol", group)
    assert (carol.unread, carol.mentions) == ([4, 3, 2, 1], [3])
    assert [one async for chunk in count.all("bob") for one in chunk] == [bob]


async def test_a_conversation_that_the_tables_do_not_have_is_not_found(a: FaultyNode) -> None:
    count = Count(a.core.tables, a.core.scripts, a.clock)
    with pytest.raises(NotFound):
        await count.one("bob", "nowhere")


# --- what counts for nobody -------------------------------------------------------------------------

USERS = ("alice", "bob", "carol")


async def shown(node: FaultyNode) -> list[Any]:
    """Everything that entries can move for every user: order, counts, filters, threads and badge."""
    found: list[Any] = []
    for user_id in USERS:
        page = await node.core.inbox.page(user_id, limit=20, cursor=None)
        found.append((user_id, [(item.row.conversation_id, item.state) for item in page.items], page.totals))
        for name in FILTERS:
            part = await node.core.inbox.page(user_id, limit=20, cursor=None, filter_name=name)
            found.append([item.row.conversation_id for item in part.items])
        threads = await node.core.threads.page(user_id, limit=20, cursor=None, filter_name="all")
        found.append([(one.conversation_id, one.thread_seq, one.unread_count) for one in threads.items])
    return found


async def converse(node: FaultyNode, dice: random.Random) -> list[str]:
    """Three groups with messages, mentions, replies and reads."""
    ids = []
    for _ in range(3):
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob", "carol"])
        ids.append(view.head.conversation_id)
    for number in range(12):
        named = tuple(dice.sample(USERS, dice.randint(0, 2)))
        root = 1 if number >= 3 and dice.random() < 0.3 else None
        said = Content("x", mentions=named, thread_seq=root, also_here=root is not None and dice.random() < 0.5)
        await node.core.sends.send(dice.choice(USERS), ids[number % 3], f"m{number}", said)
    for id_ in ids:
        await node.core.unread.mark_read(dice.choice(USERS), id_, up_to_seq=dice.randint(1, 3))
    return ids


async def move_nothing(node: FaultyNode, id_: str, act: str, dice: random.Random, number: int) -> None:
    """One entry of a kind that counts for nobody."""
    core, entries = node.core, [one for one in await node.log(id_) if one.kind == "message" and not one.is_deleted]
    entry, user_id = dice.choice(entries), dice.choice(USERS)
    assert entry.sender_id is not None
    if act == "reaction":
        await core.reactions.react(user_id, id_, entry.seq_no, dice.choice("👍👎"), is_on=dice.random() < 0.7)
    elif act == "pin":
        await core.pins.set(user_id, id_, entry.seq_no, is_on=dice.random() < 0.7)
    elif act == "edit":
        await core.rewrites.edit(entry.sender_id, id_, entry.seq_no, ContentPatch("new", mentions=USERS))
    elif act == "delete":  # of a message that nobody had to read: taking an unread one away is what a delete is for
        sent = await core.sends.send(user_id, id_, f"s{number}", Content("x", silent=True, mentions=USERS))
        await core.rewrites.delete(user_id, id_, sent.entry.seq_no)
    elif act == "silent":
        thread_seq = dice.choice((None, 1))
        await core.sends.send(
            user_id, id_, f"s{number}", Content("x", silent=True, mentions=USERS, thread_seq=thread_seq)
        )
    elif "dave" in (await core.access.authorize("alice", id_, "read")).members:
        await core.directory.remove("alice", id_, "dave")
    else:
        await core.directory.add("alice", id_, ["dave"], is_server=True)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 60))])
async def test_no_reaction_pin_edit_delete_member_change_or_silent_message_moves_a_count_an_order_or_a_badge(
    a: FaultyNode, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactions, "REACTIONS_GATHER_S", 0)
    dice = random.Random(seed)
    ids = await converse(a, dice)
    for user_id in USERS:  # everybody has been named in the first thread, so that a silent reply makes nobody follow
        for id_ in ids:
            await a.core.threads.follow(user_id, id_, 1, is_on=True)
    for id_ in ids:
        await a.core.sends.send("alice", id_, "first", Content("x", thread_seq=1))
    before = await shown(a)
    acts = ["reaction", "pin", "edit", "delete", "silent", "member"] * 3
    dice.shuffle(acts)
    for number, act in enumerate(acts):
        await move_nothing(a, dice.choice(ids), act, dice, number)
        assert await shown(a) == before, act
    assert await a.wrong() == []
    for user_id in USERS:
        await a.command("DEL", a.core.keys.mark(user_id), a.core.keys.inbox(user_id))
    assert await shown(a) == before, "a rebuild"
