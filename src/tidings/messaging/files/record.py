"""The record of a file: its facts and its state, among the records of its conversation.

A file is `pending` while its parts come, `complete` when all are there, `attached` in the commit of its message, and
`gone` from the commit of the message's delete on. A record that is not attached has a time, and the sweep removes what
is still there then. The record is made before any byte can come, and goes after the last byte. So an object without a
record is always an orphan, however late it came.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.messaging.archive.segment import folder_of, parse_folder
from tidings.model import File
from tidings.stores.blobs.ports import Part
from tidings.stores.tables.records import Put, Record, of_conversation

COLLECTION = "files"
State = Literal["pending", "complete", "attached", "gone"]


class FileRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record."""

    user_id: str  # who uploaded it
    name: str
    mime: str
    bytes: int
    part_bytes: int
    state: State = "pending"
    seq_no: int = 0  # of the message that it is attached to
    message_id: str | None = None  # of that message
    sha256: str | None = None
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None
    only_sender: bool = False  # of a message that is shown to its sender only

    def is_shown_to(self, user_id: str) -> bool:
        return not self.only_sender or self.user_id == user_id

    @property
    def is_image(self) -> bool:
        return self.mime.startswith("image/")

    @property
    def parts(self) -> list[Part]:
        starts = range(0, self.bytes, self.part_bytes)
        return [Part(start, min(start + self.part_bytes, self.bytes)) for start in starts] or [Part(0, 0)]

    def attached_to(self, seq_no: int, message_id: str | None, only_sender: bool = False) -> FileRecord:
        place = {"seq_no": seq_no, "message_id": message_id, "only_sender": only_sender}
        return msgspec.structs.replace(self, state="attached", **place)

    def facts(self, file_id: str) -> File:
        """The file as its message shows it."""
        return File(file_id, self.name, self.mime, self.bytes, self.width, self.height, self.blurhash)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FileRecord).decode


def value_of(record: Record) -> FileRecord:
    return _decode(record.value)


def put_of(
    conversation_id: str, file_id: str, value: FileRecord, expected: int | None, *, due_ms: int | None = None
) -> Put:
    return Put(of_conversation(conversation_id), COLLECTION, file_id, _encode(value), expected, due_ms)


# --- names of objects -----------------------------------------------------------------------------


def root_of(archive_id: str) -> str:
    """The folder of all files of these tables, beside that of the segments."""
    return f"{archive_id}.files"


def files_of(archive_id: str, conversation_id: str) -> str:
    return folder_of(root_of(archive_id), conversation_id)


def file_folder(archive_id: str, conversation_id: str, file_id: str) -> str:
    """The folder of one file: its bytes and its thumbnails."""
    return f"{files_of(archive_id, conversation_id)}/{file_id}"


def parse_object(name: str) -> tuple[str, str, str] | None:
    """(conversation_id, name of the file's folder, name in it) of an object below `root_of`."""
    folder, _, last = name.rpartition("/")
    place, _, file_name = folder.rpartition("/")
    conversation_id = parse_folder(place)
    return (conversation_id, file_name, last) if conversation_id is not None else None
