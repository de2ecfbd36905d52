"""Acts beside plain messages in a simulated world: people mention, react, pin, flag, reply, follow.

They act at any moment of the trouble, through any node. In the end the counts of mentions and the reactions of each
message, and the replies of each thread, are worked out from the rows once more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tidings.errors import Problem, StoreError
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.send.draft import Draft
from tidings.messaging.threads.records import parts_of, read_threads, thread_id
from tidings.model import Content, Entry
from tidings_proof.simulation.nodes import Gone, SimNode

if TYPE_CHECKING:
    from tidings_proof.simulation.devices import Device
    from tidings_proof.simulation.world import World

KEYS = ("+1", "-1")
FLAGS = ("pinned", "muted", "archived")


async def play_beside(world: World) -> None:
    dice = world.dice
    whole_s = world.plan.pause_s * world.plan.deeds
    for number in range(dice.choice((6, 15, 30))):
        await asyncio.sleep(dice.random() * whole_s / 15)
        device = dice.choice(world.devices)
        if device.connection is None:
            continue
        node, id_ = device.connection.node, dice.choice(world.conversation_ids)
        if dice.random() < 0.5:
            _send(world, node, device, id_, number)
            continue
        try:
            await node.ask(_act(world, node, device, id_))
        except (Problem, StoreError, Gone) as problem:
            world.tell(f"{device.name} beside {type(problem).__name__} {problem}")


def _send(world: World, node: SimNode, device: Device, conversation_id: str, number: int) -> None:
    """A message that mentions somebody or everybody, or that counts for nobody."""
    message_id, other = f"beside{number}", world.dice.choice(world.plan.people)
    world.texts[message_id] = f"text beside {number}"
    reply = {"thread_seq": _some_seq(world, conversation_id), "also_here": world.dice.random() < 0.3}
    more: dict[str, Any] = world.dice.choice(
        ({"mentions": (other,)}, {"mention": "all"}, {"silent": True}, reply, reply, reply | {"mentions": (other,)})
    )
    node.submit(
        Draft(
            sender_id=device.user_id,
            conversation_id=conversation_id,
            message_id=message_id,
            content=Content(world.texts[message_id], **more),
            reply=lambda result: None,
        )
    )


async def _act(world: World, node: SimNode, device: Device, conversation_id: str) -> None:
    dice, core, user_id = world.dice, node.core, device.user_id
    way, is_on = dice.random(), dice.random() < 0.6
    if way < 0.5:
        change: dict[str, Any] = {dice.choice(FLAGS): is_on}
        await core.flags.set(user_id, conversation_id, FlagChange(**change))
        return
    seq_no = _some_seq(world, conversation_id)
    if way < 0.6:
        await core.threads.follow(user_id, conversation_id, seq_no, is_on=is_on)
    elif way < 0.7:
        await core.threads.mark_read(user_id, conversation_id, seq_no, up_to_seq=seq_no + dice.randint(0, 9))
    elif way < 0.85:
        await core.reactions.react(user_id, conversation_id, seq_no, dice.choice(KEYS), is_on=is_on)
    else:
        await core.pins.set(user_id, conversation_id, seq_no, is_on=is_on)


def _some_seq(world: World, conversation_id: str) -> int:
    found = world.rows("SELECT max(seq_no) FROM messages WHERE conversation_id = ?", conversation_id)
    return world.dice.randint(1, int(found[0][0] or 0) + 1)


async def check_beside(world: World, node: SimNode, conversation_id: str, entries: list[Entry]) -> None:
    """The summary of each message is what the entries of the log make it."""
    reacted: dict[int, dict[str, set[str]]] = {}
    pinned: set[int] = set()
    for entry in entries:
        target, content = entry.target_seq or 0, entry.content or Content()
        for key, added, removed in content.reactions or ():
            who = reacted.setdefault(target, {}).setdefault(key, set())
            who |= set(added)
            who -= set(removed)
        if entry.kind == "pin":
            (pinned.add if content.pinned else pinned.discard)(target)
    for entry in entries:
        if entry.kind != "message" or entry.is_deleted:
            continue
        summary, _ = await node.core.summaries.read(conversation_id, entry.seq_no)
        found = {key: set(users) for key, users in summary.reactions.items() if users}
        wanted = {key: users for key, users in reacted.get(entry.seq_no, {}).items() if users}
        if found != wanted or summary.is_pinned != (entry.seq_no in pinned):
            world.note(f"{conversation_id} {entry.seq_no} shows {summary}, not {wanted} and {entry.seq_no in pinned}")


async def check_threads(world: World, node: SimNode, conversation_id: str, entries: list[Entry]) -> None:
    """Each thread has the replies of the log, and a list of unread threads is as long as the total says."""
    replies: dict[int, int] = {}
    for entry in entries:
        if entry.kind == "message" and entry.thread_seq is not None:
            replies[entry.thread_seq] = replies.get(entry.thread_seq, 0) + (not entry.is_deleted)
    threads = await read_threads(node.core.tables.records, [thread_id(conversation_id, root) for root in replies])
    found = {parts_of(id_)[1]: thread.replies for id_, thread in threads.items()}
    if found != replies:
        world.note(f"the threads of {conversation_id} have {found} replies, not {replies}")
    for user_id in world.plan.people:
        page = await node.core.threads.page(user_id, limit=100, cursor=None, filter_name="unread")
        if len(page.items) != page.unread_threads:
            world.note(f"{user_id} has {page.unread_threads} unread threads, and a list of {len(page.items)}")
