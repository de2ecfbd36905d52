"""Files of an import: their bytes are stored before the message that carries them.

The record comes first, with a time, as for any upload. So the bytes of an import that ends in the middle are swept, and
no sweep takes the bytes of a file that is on its way.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from tidings.bounds import FILE_CHUNK_BYTES, UPLOAD_S
from tidings.clock import Clock
from tidings.messaging.files.record import COLLECTION, FileRecord, file_folder, put_of, value_of
from tidings.messaging.transfer.sources.source import ImportedFile
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.tables.records import Records, of_conversation


@dataclass(eq=False, repr=False)
class ImportFiles:
    records: Records
    files: FileBytes
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock

    async def store(self, conversation_id: str, user_id: str, files: Sequence[ImportedFile]) -> dict[str, FileRecord]:
        """Store the bytes of these files, and return their records, which the message attaches. Raises StoreError."""
        return {file.file_id: await self._store(conversation_id, user_id, file) for file in files}

    async def _store(self, conversation_id: str, user_id: str, file: ImportedFile) -> FileRecord:
        owner = of_conversation(conversation_id)
        if (found := (await self.records.get(owner, COLLECTION, [file.file_id])).get(file.file_id)) is not None:
            known = value_of(found)
            if known.state == "complete":  # a run before this one stored it, and ended
                return known
        made = FileRecord(
            user_id,
            file.name,
            file.mime,
            file.bytes,
            max(file.bytes, 1),
            width=file.width,
            height=file.height,
            blurhash=file.blurhash,
        )
        due_ms = self.clock.now_ms() + UPLOAD_S * 1000
        await self.records.put([put_of(conversation_id, file.file_id, made, None, due_ms=due_ms)])
        digest = hashlib.sha256()
        folder = file_folder(await self.archive_id(), conversation_id, file.file_id)
        with file.open() as source:
            await self.files.put(folder, file.bytes, _chunks(source, digest.update))
        whole = msgspec.structs.replace(made, state="complete", sha256=digest.hexdigest())
        await self.records.put([put_of(conversation_id, file.file_id, whole, None, due_ms=due_ms)])
        return whole


async def _chunks(source: BinaryIO, seen: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(source.read, FILE_CHUNK_BYTES):
        seen(chunk)
        yield chunk
