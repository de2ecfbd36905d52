"""The sweep of files: the archiver's pass removes the bytes of files that nobody can read any more.

Three ways lead here. A record whose time has come: an upload that was never sent, or a file whose message was deleted.
A conversation that was deleted, or a message that was deleted after its content was archived. And once a day all
objects are listed: an object without a record goes, and the files of messages that are deleted or below the floor.
Parts of uploads to S3 are no objects yet, and are listed beside them.

A record is marked as gone before its bytes go, on the condition that it did not change. So a message that is sent at
the same moment either has its file, or is refused.

A store may remove objects and refuse to list or to abort uploads, by an old policy. Then the record of such a file
waits for a later pass, and no other file waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict, StoreError, cause_of
from tidings.messaging.files.record import (
    COLLECTION,
    FileRecord,
    file_folder,
    files_of,
    parse_object,
    put_of,
    root_of,
    value_of,
)
from tidings.messaging.files.uploads import DAYS
from tidings.messaging.log import entry_at
from tidings.stores.blobs.folder_files import NEW
from tidings.stores.blobs.ports import Blobs, FileBytes
from tidings.stores.tables.ports import Conversations, Messages
from tidings.stores.tables.records import Put, Record, Records, of_conversation

log = logging.getLogger("tidings.files")
_CONVERSATION = len(of_conversation(""))
_ROUNDS = 1_000  # pages in one pass; an index that is read a moment late must not hold a pass up for ever
_AGAIN_MS = 3_600_000  # until the parts of an upload that the store kept are tried again: the policy is a person's work


@dataclass(eq=False, repr=False, kw_only=True)
class FileSweep:
    records: Records
    messages: Messages
    conversations: Conversations
    blobs: Blobs
    files: FileBytes
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock

    async def due(self) -> int:
        """Remove what has had its time. Returns the number of files. Raises StoreError."""
        removed = 0
        for _ in range(_ROUNDS):
            page = await self._due(COLLECTION)
            for record in page:
                removed += await self._expire(record)
            if len(page) < bounds.FILES_SWEPT:
                break
        for _ in range(_ROUNDS):
            page = await self._due(DAYS)
            if page:
                await self.records.put([Put(*record.key, None) for record in page])
            if len(page) < bounds.FILES_SWEPT:
                break
        return removed

    async def forget(self, conversation_id: str) -> None:
        """The conversation was deleted, and its records with it. If it exists again, its new files stay."""
        await self._orphans(files_of(await self.archive_id(), conversation_id))

    async def check(self, conversation_id: str, file_ids: Iterable[str]) -> None:
        """Remove those of these files whose message is not shown any more."""
        found = await self.records.get(of_conversation(conversation_id), COLLECTION, file_ids)
        heads = await self.conversations.heads([conversation_id])
        floor_seq = heads[conversation_id].floor_seq if conversation_id in heads else 0
        for record in found.values():
            value = value_of(record)
            if value.state == "attached" and not await self._is_shown(conversation_id, value, floor_seq):
                await self._expire(record)

    async def all(self) -> None:
        """List all objects, and remove those that nothing leads to."""
        await self._orphans(root_of(await self.archive_id()))

    async def _due(self, collection: str) -> list[Record]:
        return await self.records.due(collection, until_ms=self.clock.now_ms(), limit=bounds.FILES_SWEPT)

    async def _expire(self, record: Record) -> bool:
        """Mark the record as gone, remove its bytes, and then the record. False: it was attached at this moment."""
        conversation_id, value = record.owner[_CONVERSATION:], value_of(record)
        version = record.version
        try:
            if value.state != "gone":
                gone, due_ms = msgspec.structs.replace(value, state="gone"), self.clock.now_ms()
                await self.records.put([put_of(conversation_id, record.name, gone, version, due_ms=due_ms)])
                version += 1
            folder = file_folder(await self.archive_id(), conversation_id, record.name)
            await self._remove(folder)
            put = Put(*record.key, None, version)
            if not await self._abandon(folder):
                gone, due_ms = msgspec.structs.replace(value, state="gone"), self.clock.now_ms() + _AGAIN_MS
                put = put_of(conversation_id, record.name, gone, version, due_ms=due_ms)
            await self.records.put([put])
        except Conflict:
            return False
        return True

    async def _remove(self, folder: str) -> None:
        for name in (folder, folder + NEW):
            async for chunk in self.blobs.list(name):
                for blob in chunk:
                    await self.blobs.delete(blob.name)

    async def _abandon(self, folder: str) -> bool:
        """Remove the parts of an upload. False: the store refuses it, and other files need not wait."""
        try:
            await self.files.abandon(folder)
        except StoreError as error:
            log.warning("parts of an upload stay", extra=cause_of(error, object=folder))
            return False
        return True

    async def _orphans(self, folder: str) -> None:
        async for chunk in self.blobs.list(folder):
            by_conversation: dict[str, list[tuple[str, str]]] = {}
            for blob in chunk:
                if (parsed := parse_object(blob.name)) is not None:
                    by_conversation.setdefault(parsed[0], []).append((parsed[1], blob.name))
            for conversation_id, objects in by_conversation.items():
                await self.check(conversation_id, {folder.removesuffix(NEW) for folder, _ in objects})
                await self._remove_orphans(conversation_id, objects)
        await self._abandon_orphans(folder)

    async def _abandon_orphans(self, folder: str) -> None:
        try:
            names = [name async for name in self.files.unfinished(folder)]
        except StoreError as error:  # what comes after the files, such as the wipe of the tables, need not wait
            log.warning("uploads are not listed", extra=cause_of(error, object=folder))
            return
        for name in names:
            if (parsed := parse_object(name)) is not None:
                await self._abandon_orphan(parsed[0], parsed[1], name)

    async def _abandon_orphan(self, conversation_id: str, file_id: str, name: str) -> None:
        """The parts of an upload that nobody can complete any more. The record was made before the upload began."""
        found = await self.records.get(of_conversation(conversation_id), COLLECTION, [file_id])
        is_orphan = file_id not in found or value_of(found[file_id]).state != "pending"
        if is_orphan and await self._abandon(name.rpartition("/")[0]):
            log.info("orphan removed", extra={"conversation_id": conversation_id, "object": name})

    async def _remove_orphans(self, conversation_id: str, objects: Iterable[tuple[str, str]]) -> None:
        """Objects of one conversation, each with the name of its folder."""
        objects = list(objects)
        file_ids = {folder.removesuffix(NEW) for folder, _ in objects}
        found = await self.records.get(of_conversation(conversation_id), COLLECTION, file_ids)
        for folder, name in objects:
            record = found.get(folder.removesuffix(NEW))
            is_late = folder.endswith(NEW) and record is not None and value_of(record).state != "pending"
            if record is None or is_late:
                await self.blobs.delete(name)
                log.info("orphan removed", extra={"conversation_id": conversation_id, "object": name})

    async def _is_shown(self, conversation_id: str, value: FileRecord, floor_seq: int) -> bool:
        if value.seq_no <= floor_seq:
            return False
        entry = await entry_at(self.messages, conversation_id, value.seq_no)
        return entry is not None and not entry.is_deleted
