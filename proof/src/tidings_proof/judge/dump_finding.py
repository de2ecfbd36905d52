"""Files and words in the end: what members and a stranger get of them, and what the blobs hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tidings.messaging.files.record import COLLECTION, files_of, parse_object, value_of
from tidings.node.graph import Core
from tidings.stores.blobs.folder_files import NEW
from tidings.stores.tables.records import of_conversation
from tidings_proof.judge.history import History
from tidings_proof.people.finding import Shared, Told
from tidings_proof.people.wire import rest
from tidings_proof.people.workload import Workload
from tidings_proof.world.world import World

FOUND_S = 5.0  # an acknowledged message is found so soon when nothing is in the way
WORDS_MAX = 40  # that are looked for in the end: the latest
_TRIES = 50
_POLL_S = 0.2


class File(msgspec.Struct, frozen=True):
    """A file in the end: its content as a member reads it, and whether a stranger gets a link."""

    shared: Shared
    content: str | None
    is_open: bool


class Sought(msgspec.Struct, frozen=True):
    """A word in the end: the places (conversation, seq) in which its author and a stranger find it."""

    told: Told
    hits: list[tuple[str, int]]
    by_stranger: list[tuple[str, int]]


async def read_files(world: World, people: Workload) -> list[File]:
    return [await _file(world, people, shared) for shared in people.shared]


async def _file(world: World, people: Workload, shared: Shared) -> File:
    path = f"/v1/conversations/{shared.conversation_id}/files/{shared.file_id}?link=1"
    reader = people.conversations[shared.conversation_id].members[0]
    status, link = await _asked(world, reader, path)
    content = (await _asked(world, reader, _path(link["url"])))[1] if status == 200 else None
    is_open = (await _asked(world, people.stranger, path))[0] == 200
    return File(shared, content, is_open)


async def stored_files(core: Core, conversation_ids: Iterable[str]) -> dict[str, str]:
    """The content of each file in the blobs, after a sweep. An upload that waits for its message is left out."""
    found: dict[str, str] = {}
    await core.cold.file_sweep.due()
    archive_id = await core.tables.archive.id()
    for id_ in conversation_ids:
        await core.cold.file_sweep.forget(id_)
        objects: dict[str, list[str]] = {}
        async for chunk in core.blobs.list(files_of(archive_id, id_)):
            for blob in chunk:
                if (parsed := parse_object(blob.name)) is not None:
                    objects.setdefault(parsed[1].removesuffix(NEW), []).append(blob.name)
        records = await core.tables.records.get(of_conversation(id_), COLLECTION, objects)
        for file_id, names in objects.items():
            if file_id not in records or value_of(records[file_id]).state not in ("pending", "complete"):
                found[file_id] = b"".join([await core.blobs.get(name) for name in sorted(names)]).decode()
    return found


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


async def seek_words(world: World, people: Workload, are_there: Iterable[Told], history: History) -> list[Sought]:
    """`are_there`: those of the words that must be found. They have FOUND_S for it."""
    latest, wanted = people.told[-WORDS_MAX:], set(are_there)
    deadline_s = history.now_s() + FOUND_S
    found: list[Sought] = []
    for told in latest:
        hits = await _hits(world, told.user_id, told.word)
        while not hits and told in wanted and history.now_s() < deadline_s:
            await asyncio.sleep(_POLL_S)
            hits = await _hits(world, told.user_id, told.word)
        found.append(Sought(told, hits, await _hits(world, people.stranger, told.word)))
    return found


async def _hits(world: World, user_id: str, word: str) -> list[tuple[str, int]]:
    _, page = await _asked(world, user_id, f"/v1/search?q={word}")
    return [(hit["conversation_id"], hit["message"]["seq"]) for hit in page["hits"]]


async def _asked(world: World, user_id: str, path: str) -> tuple[int, Any]:
    """Status and answer, once a node has one that is not `try again`."""
    answer: Any = None
    for n in range(_TRIES):
        try:
            status, answer = await rest(world.ports()[n % len(world.fronts)], world.token(user_id), "GET", path)
            if status < 429:
                return status, answer
        except OSError as error:
            answer = error
        await asyncio.sleep(_POLL_S)
    raise RuntimeError(f"GET {path} as {user_id} was never answered: {answer}")
