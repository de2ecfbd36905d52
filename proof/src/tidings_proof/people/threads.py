"""Acts in threads: people reply, follow and no longer follow, read a thread, and look at the list of unread threads.

Replies go to few roots, so that threads grow. The judge counts them again in the end (checks_threads.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidings_proof.people.more import REPLY, do, some_static

if TYPE_CHECKING:
    from tidings_proof.people.device import Device
    from tidings_proof.people.workload import Workload

_ROOTS = 4  # in each conversation


def _root(people: Workload, device: Device) -> tuple[str, int] | None:
    """One of the first messages that somebody sent in a conversation whose members never change."""
    if (conversation := some_static(people, device)) is None:
        return None
    sent = (one for other in people.devices for one in other.acked[:20] if one[0] == conversation.id)
    roots = sorted({seq for _, message_id, seq, _ in sent if not message_id.endswith(REPLY)})[:_ROOTS]
    return (conversation.id, device.dice.choice(roots)) if roots else None


async def reply(people: Workload, device: Device) -> None:
    """Some replies are shown in the conversation too, and then they count there like any message."""
    if (place := _root(people, device)) is None or device.waiting(place[0]) >= 50:
        return
    id_, root = place
    others = [user_id for user_id in people.conversations[id_].members if user_id != device.user_id]
    named: dict[str, Any] = {"mentions": [device.dice.choice(others)]} if device.dice.random() < 0.2 else {}
    if device.dice.random() < 0.2:
        device.compose(id_, thread_seq=root, also_here=True, **named)
    else:
        device.compose(id_, tail=REPLY, thread_seq=root, **named)


async def follow(people: Workload, device: Device) -> None:
    if device.name != "d0" or (place := _root(people, device)) is None:
        return
    id_, root = place
    is_on = device.dice.random() < 0.7
    path = f"/v1/conversations/{id_}/threads/{root}/follow"
    await do(people, device, "follow", "PUT" if is_on else "DELETE", path, None, id_, [root, is_on])


async def read_thread(people: Workload, device: Device) -> None:
    if device.user_id == people.sleeper or (place := _root(people, device)) is None:
        return
    id_, root = place
    have = device.followed[id_].have
    if device.dice.random() < 0.8:
        up_to = device.dice.randint(max(1, have - 20), max(1, have))
        await device.ask("thread-read", "message.read", id_, thread_seq=root, up_to_seq=up_to)
    else:
        await device.ask("thread-read", "message.unread", id_, thread_seq=root, from_seq=max(1, have - 5))


async def list_threads(people: Workload, device: Device) -> None:
    """A page of the unread threads, which is of one moment."""
    page = await do(people, device, "list", "GET", "/v1/threads?filter=unread&limit=50", None, "", None)
    if page is not None and not page["next_cursor"]:
        counts = [row["unread_count"] for row in page["threads"]]
        people.history.event("threads", user_id=device.user_id, value=[counts, page["unread_threads"]])
