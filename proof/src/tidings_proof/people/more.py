"""Acts beside plain messages: people mention, react, pin, save, draft, flag, filter and block.

They also send messages that count for nobody, and messages that end by themselves. The judge counts all of it again in
the end. Acts that only one device of a user does (`d0`) have one order, so that the last one decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from tidings_proof.people.device import Device
    from tidings_proof.people.workload import Conversation, Workload

KEYS = ("👍", "🎉", "+1")
FILTERS = ("unread", "mentions", "pinned", "archived", "muted")
SILENT, FLEETING, REPLY = "-silent", "-fleeting", "-reply"  # ends of message ids: no news that a conversation counts
TTL_S = 5  # of a message that ends by itself: the shortest there is
_DOER = "d0"


def some_static(people: Workload, device: Device) -> Conversation | None:
    """A conversation of the device whose members never change."""
    mine = [people.conversations[id_] for id_, one in device.followed.items() if one.is_here]
    static = [one for one in mine if not one.is_churned]
    return device.dice.choice(static) if static else None


def _message(people: Workload, device: Device) -> tuple[str, int] | None:
    """An entry that the device has, in a conversation whose members never change."""
    conversation = some_static(people, device)
    have = device.followed[conversation.id].have if conversation is not None else 0
    if device.name != _DOER or conversation is None or not have:
        return None
    return conversation.id, device.dice.randint(max(1, have - 30), have)


async def mention(people: Workload, device: Device) -> None:
    """Name somebody, everybody, or everybody who is there."""
    if (conversation := some_static(people, device)) is None or device.waiting(conversation.id) >= 50:
        return
    others = [user_id for user_id in conversation.members if user_id != device.user_id]
    way = device.dice.random()
    if way < 0.6:
        device.compose(conversation.id, mentions=[device.dice.choice(others)])
    else:
        device.compose(conversation.id, mention="all" if way < 0.8 else "here")


async def whisper(people: Workload, device: Device) -> None:
    """A message that counts for nobody and moves nothing."""
    if (conversation := some_static(people, device)) is not None:
        device.compose(conversation.id, tail=SILENT, silent=True)


async def burn(people: Workload, device: Device) -> None:
    """A message that ends by itself. Its text stands nowhere else, so that it can be looked for."""
    if (conversation := some_static(people, device)) is not None:
        text = f"burns {device.dice.randrange(1 << 60):015x}"
        device.compose(conversation.id, text, tail=FLEETING, ttl_s=TTL_S)


async def react(people: Workload, device: Device) -> None:
    """Or take back a reaction of before."""
    if (place := _message(people, device)) is None:
        return
    is_on = not device.reacted or device.dice.random() < 0.6
    reaction = (*place, device.dice.choice(KEYS)) if is_on else device.dice.choice(device.reacted)
    id_, seq, key = reaction
    device.reacted.append(reaction)
    path = f"/v1/conversations/{id_}/messages/{seq}/reactions/{quote(key, safe='')}"
    await do(people, device, "react", "PUT" if is_on else "DELETE", path, None, id_, [seq, key, is_on])


async def pin(people: Workload, device: Device) -> None:
    if (place := _message(people, device)) is None:
        return
    id_, seq = place
    is_on = device.dice.random() < 0.6
    path = f"/v1/conversations/{id_}/messages/{seq}/pin"
    await do(people, device, "pin", "PUT" if is_on else "DELETE", path, None, id_, [seq, is_on])


async def save(people: Workload, device: Device) -> None:
    if (place := _message(people, device)) is None:
        return
    id_, seq = place
    is_on = device.dice.random() < 0.6
    await do(
        people, device, "save", "PUT" if is_on else "DELETE", f"/v1/saved/{id_}/{seq}", None, id_, [seq, "", is_on]
    )


async def draft(people: Workload, device: Device) -> None:
    """A text that is not sent. The version that is known may be old: then the newer one comes back."""
    if (conversation := some_static(people, device)) is None:
        return
    body = {"text": f"half of a sentence {device.dice.randrange(1000)}", "version": device.dice.randint(0, 3)}
    await do(people, device, "draft", "PUT", f"/v1/drafts/{conversation.id}", body, conversation.id, body)


async def flag(people: Workload, device: Device) -> None:
    conversation = some_static(people, device)
    if conversation is None or device.user_id == people.sleeper:
        return
    name = device.dice.choice(("pinned", "archived", "muted"))
    body = {name: device.dice.random() < 0.5}
    await do(people, device, "flag", "PATCH", f"/v1/inbox/{conversation.id}", body, conversation.id, body)


async def look(people: Workload, device: Device) -> None:
    """A page of one filter, which is of one moment."""
    name = device.dice.choice(FILTERS)
    page = await do(people, device, "filter", "GET", f"/v1/inbox?limit=50&filter={name}", None, "", name)
    if page is not None and not page["stale"]:
        wanted = ("conversation_id", "unread_count", "mention_count", "pinned", "muted", "archived")
        rows = [[row.get(one) for one in wanted] for row in page["conversations"]]
        people.history.event("filtered", user_id=device.user_id, text=name, value=rows)


async def block(people: Workload, device: Device) -> None:
    """Block a person two seats away, or no longer: neighbours write to each other, and the first one leads groups."""
    at, users = people.users.index(device.user_id), people.users
    if device.name != _DOER or len(users) < 5 or at in (0, len(users) - 1, len(users) - 2):
        return
    other, is_on = users[at + 2], device.dice.random() < 0.75
    await do(people, device, "block", "PUT" if is_on else "DELETE", f"/v1/blocks/{other}", None, "", [other, is_on])


async def do(people: Workload, device: Device, f: str, method: str, path: str, body: Any, id_: str, value: Any) -> Any:
    facts = {"user_id": device.user_id, "device": device.name, "conversation_id": id_, "value": value}
    return await people.rest_op(f, device.user_id, method, path, body, **facts)
