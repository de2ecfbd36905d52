"""The sweep of files: the archiver's pass removes the bytes of files that nobody can read any more.

Three ways lead here. A record whose time has come: an upload that was never sent, or a file whose message was deleted.
A conversation that was deleted, or a message that was deleted after its content was archived. And once a day all
objects are listed: an object without a record goes, and the files of messages that are deleted or below the floor.
Parts of uploads to S3 are no objects yet, and are listed beside them.

A record is marked as gone before its bytes go, on the condition that it did not change. So a message that is sent at
the same moment either has its file, or is refused.

A store may refuse to list or to delete objects, or to abort uploads, by an old policy. Then the record of such a file
waits for a later pass, and no other file waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
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
_AGAIN_MS = 3_600_000  # until a file that the store kept is tried again: the policy is a person's work
_REFUSED_S = 600.0  # of one pass, spent on what the store refuses: a store that is away takes a minute for each file


@dataclass(eq=False, repr=False, kw_only=True)
class FileSweep:
    records: Records
    messages: Messages
    conversations: Conversations
    blobs: Blobs
    files: FileBytes
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock

    async def due(self) -> None:
        """Remove what has had its time. Raises StoreError where the tables do not answer."""
        async for page in self._due(DAYS):
            await self.records.put([Put(*record.key, None) for record in page])
        refused_s = 0.0
        async for page in self._due(COLLECTION):
            for record in page:
                began_s = self.clock.monotonic_s()
                if not await self._expire(record):
                    refused_s += self.clock.monotonic_s() - began_s
                if refused_s > _REFUSED_S:
                    return  # what was refused stands behind the others now

    async def forget(self, conversation_id: str) -> bool:
        """The conversation was deleted, and its records with it. If it exists again, its new files stay. False: the
        store keeps some."""
        return await self._orphans(files_of(await self.archive_id(), conversation_id))

    async def check(self, conversation_id: str, file_ids: Iterable[str]) -> None:
        """Remove those of these files whose message is not shown any more, and what the store refused to remove."""
        found = await self.records.get(of_conversation(conversation_id), COLLECTION, file_ids)
        heads = await self.conversations.heads([conversation_id])
        floor_seq = heads[conversation_id].floor_seq if conversation_id in heads else 0
        for record in found.values():
            value = value_of(record)
            is_over = value.state == "attached" and not await self._is_shown(conversation_id, value, floor_seq)
            if is_over or value.state == "gone":
                await self._expire(record)

    async def all(self) -> None:
        """List all objects, and remove those that nothing leads to."""
        await self._orphans(root_of(await self.archive_id()))

    async def _due(self, collection: str) -> AsyncIterator[list[Record]]:
        for _ in range(_ROUNDS):
            page = await self.records.due(collection, until_ms=self.clock.now_ms(), limit=bounds.FILES_SWEPT)
            if page:
                yield page
            if len(page) < bounds.FILES_SWEPT:
                return

    async def _expire(self, record: Record) -> bool:
        """Mark the record as gone, remove its bytes, and then the record, unless it was attached at this moment. False:
        the store refuses to remove the bytes, and the record waits."""
        conversation_id, value = record.owner[_CONVERSATION:], value_of(record)
        version, gone = record.version, msgspec.structs.replace(value, state="gone")
        folder = file_folder(await self.archive_id(), conversation_id, record.name)
        try:
            if value.state != "gone":
                due_ms = self.clock.now_ms()
                await self.records.put([put_of(conversation_id, record.name, gone, version, due_ms=due_ms)])
                version += 1
            is_gone = await _tried(self._remove(folder), folder)
            put = Put(*record.key, None, version)
            if not is_gone:
                due_ms = self.clock.now_ms() + _AGAIN_MS
                put = put_of(conversation_id, record.name, gone, version, due_ms=due_ms)
            await self.records.put([put])
            return is_gone
        except Conflict:
            return True

    async def _remove(self, folder: str) -> None:
        """Remove the bytes of a file, and the parts of its upload."""
        for name in (folder, folder + NEW):
            async for chunk in self.blobs.list(name):
                for blob in chunk:
                    await self.blobs.delete(blob.name)
        await self.files.abandon(folder)

    async def _orphans(self, folder: str) -> bool:
        is_done = True
        async for chunk in self.blobs.list(folder):
            by_conversation: dict[str, list[tuple[str, str]]] = {}
            for blob in chunk:
                if (parsed := parse_object(blob.name)) is not None:
                    by_conversation.setdefault(parsed[0], []).append((parsed[1], blob.name))
            for conversation_id, objects in by_conversation.items():
                await self.check(conversation_id, {folder.removesuffix(NEW) for folder, _ in objects})
                is_done &= await self._remove_orphans(conversation_id, objects)
        await self._abandon_orphans(folder)
        return is_done

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
        if is_orphan and await _tried(self.files.abandon(name.rpartition("/")[0]), name):
            log.info("orphan removed", extra={"conversation_id": conversation_id, "object": name})

    async def _remove_orphans(self, conversation_id: str, objects: Sequence[tuple[str, str]]) -> bool:
        """Objects of one conversation, each with the name of its folder. False: the store keeps some."""
        file_ids = {folder.removesuffix(NEW) for folder, _ in objects}
        found = await self.records.get(of_conversation(conversation_id), COLLECTION, file_ids)
        is_done = True
        for folder, name in objects:
            record = found.get(folder.removesuffix(NEW))
            is_late = folder.endswith(NEW) and record is not None and value_of(record).state != "pending"
            if record is not None and not is_late:
                continue
            if await _tried(self.blobs.delete(name), name):
                log.info("orphan removed", extra={"conversation_id": conversation_id, "object": name})
            else:
                is_done = False
        return is_done

    async def _is_shown(self, conversation_id: str, value: FileRecord, floor_seq: int) -> bool:
        if value.seq_no <= floor_seq:
            return False
        entry = await entry_at(self.messages, conversation_id, value.seq_no)
        return entry is not None and not entry.is_deleted


async def _tried(work: Awaitable[None], name: str) -> bool:
    """False: the store refuses it, and other files need not wait."""
    try:
        await work
    except StoreError as error:
        log.warning("the store keeps a file", extra=cause_of(error, object=name))
        return False
    return True
