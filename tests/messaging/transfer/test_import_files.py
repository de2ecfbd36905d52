"""Files of an import: stored once, with a record before the bytes."""

from __future__ import annotations

import hashlib
import io

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.transfer.import_files import ImportFiles
from tidings.messaging.transfer.sources.source import ImportedFile


async def test_the_bytes_are_stored_once_and_their_record_knows_the_checksum(a: FaultyNode, group: str) -> None:
    opened: list[int] = []

    def open_() -> io.BytesIO:
        opened.append(1)
        return io.BytesIO(b"words")

    core = a.core
    files = ImportFiles(core.tables.records, core.files, core.tables.archive.id, core.clock)
    file = ImportedFile("f1", "a.txt", "text/plain", 5, open_)
    first = await files.store(group, "ann", [file])
    assert first["f1"].state == "complete" and first["f1"].sha256 == hashlib.sha256(b"words").hexdigest()
    assert await files.store(group, "ann", [file]) == first and opened == [1]
