"""Exporting: everything, one conversation or one person as JSON lines, with the bytes of files and a manifest.

An export is a run of pieces, each a name with its bytes: `export.jsonl`, `files/<file_id>` for each file, and at last
`manifest.json` with the size and the SHA-256 of every piece. An export without its manifest is not whole. Nothing is
held in memory but the ids of the files. Texts come from the cold tier too. Of a conversation the export holds the
entries up to the head that its line names; `import jsonl` puts them back as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tidings.bounds import ARCHIVE_PAGE, FILE_CHUNK_BYTES, PAGE_MAX
from tidings.clock import Clock
from tidings.errors import Missing, NotFound
from tidings.messaging.access import RULES
from tidings.messaging.banned import BANS
from tidings.messaging.files.record import COLLECTION as FILE_RECORDS
from tidings.messaging.files.record import file_folder, value_of
from tidings.messaging.lifecycle.expiry import EXPIRING
from tidings.messaging.reactions.pins import PINS
from tidings.messaging.summaries import COLLECTION as SUMMARIES
from tidings.messaging.threads.records import REPLIES, THREADS
from tidings.messaging.transfer.own_data import OwnData
from tidings.messaging.transfer.sources.jsonl import FILES, LINES
from tidings.messaging.transfer.sources.lines import (
    Line,
    encode,
    line_of_conversation,
    line_of_entry,
    line_of_record,
    line_of_user,
)
from tidings.messaging.transfer.walk import FileKey, entries_of, files_of, records_of
from tidings.model import Head
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.tables.ports import Messages, Tables
from tidings.stores.tables.records import of_conversation

MANIFEST = "manifest.json"
BESIDE = (RULES, BANS, PINS, SUMMARIES, EXPIRING, THREADS, REPLIES)  # the records of a conversation that move with it


class Piece(NamedTuple):
    """A part of an export. It must be read to its end before the next one."""

    name: str
    chunks: AsyncIterator[bytes]


class Sum(msgspec.Struct, frozen=True):
    """A piece in the manifest."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    format: str
    of: str  # `all`, or the conversation or user
    made_at: int
    lines: dict[str, int]  # by type
    pieces: list[Sum]
    missing: list[str]  # files whose bytes are not there


@dataclass(eq=False, repr=False)
class Exporting:
    tables: Tables
    messages: Messages  # with the texts of the cold tier
    files: FileBytes
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock

    def __post_init__(self) -> None:
        self._own = OwnData(self.tables, self.messages)

    def all(self) -> AsyncIterator[Piece]:
        return self._pieces("all", self._everything)

    async def conversation(self, conversation_id: str) -> AsyncIterator[Piece]:
        """Raises NotFound."""
        found = (await self.tables.conversations.heads([conversation_id])).get(conversation_id)
        if found is None:
            raise NotFound("no such conversation")
        head = found
        return self._pieces(f"conversation {conversation_id}", lambda files: self._with_people(head, files))

    def user(self, user_id: str, *, is_everywhere: bool) -> AsyncIterator[Piece]:
        """All that a person wrote and set. `is_everywhere`: also where they left, which takes longer."""
        return self._pieces(
            f"user {user_id}", lambda files: self._own.lines(user_id, files, is_everywhere=is_everywhere)
        )

    # --- pieces -----------------------------------------------------------------------------------

    async def _pieces(self, of: str, lines_of: Callable[[list[FileKey]], AsyncIterator[Line]]) -> AsyncIterator[Piece]:
        files: list[FileKey] = []
        counts: dict[str, int] = {}
        sums: list[Sum] = []
        missing: list[str] = []
        yield Piece(LINES, _summed(LINES, _gathered(lines_of(files), counts), sums))
        for key in files:
            name = f"{FILES}/{key[1]}"
            with suppress(Missing):
                chunks = self._bytes_of(key)
                first = await anext(chunks, b"")
                yield Piece(name, _summed(name, _again(first, chunks), sums))
                continue
            missing.append(key[1])
        manifest = Manifest("tidings export 1", of, self.clock.now_ms(), counts, sums, missing)
        yield Piece(MANIFEST, _once(msgspec.json.format(msgspec.json.encode(manifest))))

    async def _bytes_of(self, key: FileKey) -> AsyncIterator[bytes]:
        """Raises Missing."""
        conversation_id, file_id = key
        found = await self.tables.records.get(of_conversation(conversation_id), FILE_RECORDS, [file_id])
        if file_id not in found:
            raise Missing("no such file", store="tables", op="get")
        value = value_of(found[file_id])
        folder = file_folder(await self.archive_id(), conversation_id, file_id)
        async for chunk in self.files.read(folder, value.parts, 0, value.bytes):
            yield chunk

    # --- lines ------------------------------------------------------------------------------------

    async def _everything(self, files: list[FileKey]) -> AsyncIterator[Line]:
        after, is_more = "", True
        while is_more:
            users, after = await self.tables.whole.walk("users", after=after, limit=ARCHIVE_PAGE)
            for user in users:
                yield line_of_user(user)
            is_more = bool(after)
        after, is_more = "", True
        while is_more:
            heads, after = await self.tables.whole.walk("conversation_heads", after=after, limit=PAGE_MAX)
            for head in heads:
                async for line in self._conversation(head, files):
                    yield line
            is_more = bool(after)

    async def _with_people(self, head: Head, files: list[FileKey]) -> AsyncIterator[Line]:
        members = await self.tables.conversations.members(head.conversation_id)
        for user in (await self.tables.accounts.users(member.user_id for member in members)).values():
            yield line_of_user(user)
        async for line in self._conversation(head, files):
            yield line

    async def _conversation(self, head: Head, files: list[FileKey]) -> AsyncIterator[Line]:
        id_ = head.conversation_id
        yield line_of_conversation(head, await self.tables.conversations.members(id_))
        for collection in BESIDE:
            async for record in records_of(self.tables.records, of_conversation(id_), collection):
                yield line_of_record(id_, record)
        async for entry in entries_of(self.messages, head):
            yield line_of_entry(entry)
            files += files_of(entry)


async def _gathered(lines: AsyncIterator[Line], counts: dict[str, int]) -> AsyncIterator[bytes]:
    """Lines as chunks of some size."""
    waiting = bytearray()
    async for line in lines:
        counts[line["type"]] = counts.get(line["type"], 0) + 1
        waiting += encode(line)
        if len(waiting) >= FILE_CHUNK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


async def _summed(name: str, chunks: AsyncIterator[bytes], sums: list[Sum]) -> AsyncIterator[bytes]:
    digest, size = hashlib.sha256(), 0
    async for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        yield chunk
    sums.append(Sum(name, size, digest.hexdigest()))


async def _again(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


async def _once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk
