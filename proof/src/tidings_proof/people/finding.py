"""Acts of files and of search: people share files, say words that stand in one message alone, and search for them.

The stranger searches and asks for files too. The judge holds it against the log (checks_finding.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidings_proof.people.more import do, some_static
from tidings_proof.people.wire import rest

if TYPE_CHECKING:
    from tidings_proof.people.device import Device
    from tidings_proof.people.workload import Workload


class Told(NamedTuple):
    """A word that one message has, and no other."""

    word: str
    conversation_id: str
    user_id: str
    message_id: str


class Shared(NamedTuple):
    """A file that was uploaded whole, and the message that was to carry it."""

    file_id: str
    content: str
    conversation_id: str
    user_id: str
    message_id: str


async def tell(people: Workload, device: Device) -> None:
    if (conversation := some_static(people, device)) is not None and device.waiting(conversation.id) < 50:
        word = f"w{device.dice.randrange(1 << 60):015x}"
        message_id = device.compose(conversation.id, f"the word is {word}")
        people.told.append(Told(word, conversation.id, device.user_id, message_id))


async def seek(people: Workload, device: Device) -> None:
    """Search for a word that somebody said, where the seeker is a member; the stranger is a member of nothing."""
    mine = [one for one in people.told[-40:] if one.conversation_id in device.followed]
    if not mine:
        return
    word, since_s = device.dice.choice(mine).word, people.history.now_s()
    if device.dice.random() < 0.2:
        page, user_id = await people.rest_op("search", people.stranger, "GET", f"/v1/search?q={word}", None), "stranger"
    else:
        page, user_id = await do(people, device, "search", "GET", f"/v1/search?q={word}", None, "", word), ""
    if page is not None:
        hits = [[hit["conversation_id"], hit["message"]["seq"]] for hit in page["hits"]]
        people.history.event("found", user_id=user_id or device.user_id, text=word, value=[since_s, hits])


async def share(people: Workload, device: Device) -> None:
    """Upload a file and send it, through whatever happens. An upload that fails is left behind."""
    conversation = some_static(people, device)
    if device.name != "d0" or conversation is None or device.waiting(conversation.id) >= 50:
        return
    id_, content = conversation.id, f"content {device.dice.randrange(1 << 60):015x}"
    file_id = await _upload(people, device, id_, content)
    if file_id is not None:
        message_id = device.compose(id_, files=[file_id])
        people.shared.append(Shared(file_id, content, id_, device.user_id, message_id))


async def _upload(people: Workload, device: Device, id_: str, content: str) -> str | None:
    path, data = f"/v1/conversations/{id_}/uploads", content.encode()
    body = {"name": "notes.txt", "mime": "text/plain", "bytes": len(data)}
    begun = await do(people, device, "upload", "POST", path, body, id_, None)
    if begun is None:
        return None
    for part in begun["parts"]:
        try:
            status, _ = await rest(
                people.dice.choice(people.ports()), people.token(device.user_id), "PUT", part["url"], data
            )
        except OSError:
            return None
        if status >= 300:
            return None
    path = f"{path}/{begun['file_id']}/complete"
    done = await do(people, device, "upload", "POST", path, None, id_, None)
    return None if done is None else str(done["file_id"])
