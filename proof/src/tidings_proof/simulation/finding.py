"""Files and search in a simulated world: people attach files and delete messages, and an index follows the log.

They upload through one node and send through any, and one file is sent in two messages at once. Nodes die, so notes of
the index are lost. In the end each file is in one message that stands, with its bytes, or in none, and goes with it.
The words of each message that stands are found, and the index names no message that is deleted or says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

import apsw

from tidings.errors import NotFound, Problem, StoreError
from tidings.messaging.files.record import COLLECTION, file_folder, value_of
from tidings.messaging.files.uploads import UPLOAD_PATH, NewFile
from tidings.messaging.search.search import Question
from tidings.messaging.search.words import terms_of
from tidings.messaging.send.draft import Draft
from tidings.model import Content, Entry, File
from tidings.stores.blobs.folder_files import NEW
from tidings.stores.tables.records import of_conversation
from tidings.stores.tables.search import Asked
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.sqlite.search.index import make_tables
from tidings_proof.simulation.nodes import Gone, SimNode

if TYPE_CHECKING:
    from tidings_proof.simulation.devices import Device
    from tidings_proof.simulation.world import World

FOUND_S = 5.0  # of virtual time: so soon after a search that noticed a conversation behind


class Shared(NamedTuple):
    """A file that was uploaded whole."""

    conversation_id: str
    user_id: str
    data: bytes


def open_index() -> Transaction:
    """One index for all nodes, in memory."""
    connection = apsw.Connection(":memory:")
    make_tables(connection, "simulated")
    return Transaction(connection)


async def play_finding(world: World) -> None:
    dice = world.dice
    whole_s = world.plan.pause_s * world.plan.deeds
    for number in range(dice.choice((4, 8, 15))):
        await asyncio.sleep(dice.random() * whole_s / 8)
        device = dice.choice(world.devices)
        if device.connection is None:
            continue
        try:
            await _act(world, device, dice.choice(world.conversation_ids), number)
        except (Problem, StoreError, Gone) as problem:
            world.tell(f"{device.name} finding {type(problem).__name__} {problem}")


async def _act(world: World, device: Device, conversation_id: str, number: int) -> None:
    assert device.connection is not None
    node = device.connection.node
    mine = [file_id for file_id, shared in world.shared.items() if shared[:2] == (conversation_id, device.user_id)]
    if mine and world.dice.random() < 0.3:
        await node.ask(_delete(node, device, conversation_id, world.dice.choice(mine)))
        return
    if world.dice.random() < 0.2:
        await node.ask(node.core.searching.search.find(device.user_id, Question(q="text")))
        return
    data = f"bytes {number}".encode()
    file_id = await node.ask(_upload(node, device, conversation_id, data))
    world.shared[file_id] = Shared(conversation_id, device.user_id, data)
    for again in range(world.dice.choice((1, 1, 2))):
        other = world.some_node() or node
        _send(world, other, device, conversation_id, file_id, f"file{number}-{again}")


async def _upload(node: SimNode, device: Device, conversation_id: str, data: bytes) -> str:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    uploads = node.core.filing.uploads
    begun = await uploads.begin(device.user_id, conversation_id, NewFile("notes.txt", "text/plain", len(data)))
    for _, signed in begun.parts:
        await uploads.write(uploads.ticket(signed.url.removeprefix(UPLOAD_PATH)), chunks())
    await uploads.complete(device.user_id, conversation_id, begun.file_id)
    return begun.file_id


def _send(world: World, node: SimNode, device: Device, conversation_id: str, file_id: str, message_id: str) -> None:
    world.texts[message_id] = f"text with {message_id.replace('-', ' ')}"
    content = Content(world.texts[message_id], files=(File(file_id),))
    node.submit(
        Draft(
            sender_id=device.user_id,
            conversation_id=conversation_id,
            message_id=message_id,
            content=content,
            reply=lambda result: None,
        )
    )


async def _delete(node: SimNode, device: Device, conversation_id: str, file_id: str) -> None:
    found = await node.core.tables.records.get(of_conversation(conversation_id), COLLECTION, [file_id])
    seq_no = value_of(found[file_id]).seq_no if file_id in found else 0
    if seq_no:
        await node.core.rewrites.delete(device.user_id, conversation_id, seq_no)


# --- in the end -------------------------------------------------------------------------------------


async def check_finding(world: World, node: SimNode, conversation_id: str, entries: list[Entry]) -> None:
    await _check_files(world, node, conversation_id, entries)
    await _check_words(world, node, conversation_id, entries)


async def _check_files(world: World, node: SimNode, conversation_id: str, entries: list[Entry]) -> None:
    """Once the sweep has been there."""
    await node.core.cold.file_sweep.due()
    await node.core.cold.file_sweep.all()
    archive_id = await node.core.tables.archive.id()
    carried: dict[str, list[int]] = {}
    for entry in entries:
        for file in entry.content.files if entry.kind == "message" and entry.content is not None else ():
            carried.setdefault(file.file_id, []).append(entry.seq_no)
    mine = [file_id for file_id, shared in world.shared.items() if shared.conversation_id == conversation_id]
    records = await node.core.tables.records.get(of_conversation(conversation_id), COLLECTION, mine)
    for file_id in mine:
        seqs, folder = carried.get(file_id, []), file_folder(archive_id, conversation_id, file_id)
        objects = [name for name in world.object_data if name.startswith((f"{folder}/", f"{folder}{NEW}/"))]
        state = value_of(records[file_id]).state if file_id in records else None
        if len(seqs) > 1:
            world.note(f"{file_id} is in the messages {seqs} of {conversation_id}")
        stored = b"".join(world.object_data[name] for name in sorted(objects))
        if (state == "attached") != bool(seqs) or stored != (world.shared[file_id].data if state else b""):
            world.note(f"{file_id} is {state}, in the messages {seqs}, and has the objects {objects}")


async def _check_words(world: World, node: SimNode, conversation_id: str, entries: list[Entry]) -> None:
    readers = [user_id for user_id in world.plan.people if world.is_member(user_id, conversation_id)]
    if not readers:
        return
    search, index = node.core.searching.search, node.core.tables.search
    assert index is not None
    question = Question(q="text", conversation_id=conversation_id)
    try:
        await search.find(readers[0], question)  # it notices what is behind
        await asyncio.sleep(FOUND_S)
        if not (await search.find(readers[0], question)).is_complete:
            world.note(f"{conversation_id} is not indexed to its end")
    except NotFound:
        return
    said = {one.message_id: one.text for device in world.devices for one in device.said} | world.texts
    for entry in entries:
        words = said.get(entry.message_id or "")
        if entry.kind not in ("message", "edit") or words is None:
            continue
        target = entry.seq_no if entry.kind == "message" else entry.target_seq
        places = await index.find(Asked(terms=terms_of(words), conversation_ids=[conversation_id], limit=1_000))
        is_named = target in {place.seq_no for place in places}
        stands = next((one.text for one in entries if one.seq_no == target and not one.is_deleted), None) == words
        if is_named != stands:
            world.note(
                f"{words!r} of {conversation_id} {target} {'stands' if stands else 'is gone'}, named: {is_named}"
            )
