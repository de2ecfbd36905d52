"""JSON lines: an export of Tidings (its folder, its zip, or the lines alone), or lines that somebody wrote.

The file is read once from end to end, to find where the lines of each conversation are. Messages are then read from
their places, so the memory that this takes does not grow with their texts.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources.lines import SKIPPED, Line, content_of, entry_of_line
from tidings.messaging.transfer.sources.source import (
    ImportedConversation,
    ImportedFile,
    ImportedMember,
    ImportedMessage,
    Person,
    Root,
    Source,
    Users,
    binary,
    conversation_id_of,
    message_id_of,
    opened,
    size_of,
    type_of,
)
from tidings.model import KINDS
from tidings.stores.tables.records import Put, of_conversation

LINES = "export.jsonl"  # in a folder or zip
FILES = "files"  # the folder of the bytes of files, by file_id


class JsonLines(Source):
    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._root: Root | None = opened(path) if path.is_dir() or zipfile.is_zipfile(path) else None
        self._lines = _seekable(self._root / LINES if self._root is not None else path)
        self._user = Users(users)
        self._places: dict[str, array[int]] = {}  # conversation_id -> where its messages begin
        self._records: dict[str, list[Put]] = {}
        self._people: list[Person] = []
        self._conversations: list[ImportedConversation] = []
        place = 0
        for number, line in enumerate(self._lines, start=1):
            if line.strip():
                self._take(number, place, _decoded(number, line))
            place += len(line)

    def people(self) -> list[Person]:
        return self._people

    def conversations(self) -> list[ImportedConversation]:
        return self._conversations

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        for place in self._places.get(conversation.conversation_id, ()):
            self._lines.seek(place)
            yield self._message(msgspec.json.decode(self._lines.readline()))

    def records(self, conversation: ImportedConversation) -> Iterator[Put]:
        return iter(self._records.get(conversation.conversation_id, ()))

    def _take(self, number: int, place: int, line: Line) -> None:
        takes = {
            "user": self._take_user,
            "conversation": self._take_conversation,
            "record": self._take_record,
            "message": self._take_message,
        }
        try:
            type_ = line["type"]
            if type_ in takes:
                takes[type_](line, place)
            elif type_ not in SKIPPED:
                raise BadRequest(f"there is no `type` {type_!r}")
        except KeyError as error:
            raise BadRequest(f"line {number} lacks {error}") from None
        except BadRequest as error:
            raise BadRequest(f"line {number}: {error}") from None

    def _take_user(self, line: Line, place: int) -> None:
        self._people.append(Person(self._user(line["user_id"]), line.get("name"), line.get("avatar_url")))

    def _take_conversation(self, line: Line, place: int) -> None:
        self._conversations.append(self._conversation(line))

    def _take_record(self, line: Line, place: int) -> None:
        owner, value = of_conversation(line["conversation_id"]), msgspec.json.encode(line["value"])
        put = Put(owner, line["collection"], line["name"], value, due_ms=line.get("due_at"))
        self._records.setdefault(line["conversation_id"], []).append(put)

    def _take_message(self, line: Line, place: int) -> None:
        self._message(line)  # a mistake is found before anything is written
        self._places.setdefault(line["conversation_id"], array("q")).append(place)

    def _conversation(self, line: Line) -> ImportedConversation:
        members = [self._member(at, one) for at, one in enumerate(line["members"])]
        return ImportedConversation(
            conversation_id_of(line["conversation_id"]),
            line.get("kind", "group"),
            line.get("name"),
            tuple(members),
            line.get("created_at", 0),
            line.get("avatar_url"),
            line.get("history", "all"),
            line.get("floor_seq", 0),
            line.get("members_seq", 0),
        )

    def _member(self, at: int, line: Line | str) -> ImportedMember:
        if isinstance(line, str):
            return ImportedMember(self._user(line), "member" if at else "owner")
        role = line.get("role", "member")
        return ImportedMember(self._user(line["user_id"]), role, line.get("joined_seq", 0), line.get("joined_at"))

    def _message(self, line: Line) -> ImportedMessage:
        if "seq" in line:
            return self._as_it_was(line)
        try:
            content = content_of(line)
        except msgspec.ValidationError as error:
            raise BadRequest(str(error)) from None
        return ImportedMessage(
            message_id_of(line["message_id"]),
            self._user(line["sender_id"]),
            line["sent_at"],
            line["text"],
            line.get("data"),
            mentions=tuple(map(self._user, content.mentions)) if content is not None else (),
            mention=content.mention if content is not None else None,
        )

    def _as_it_was(self, line: Line) -> ImportedMessage:
        entry = entry_of_line(line)
        named = entry.sender_id
        if named is not None:
            entry = msgspec.structs.replace(entry, sender_id=self._user(named))
        files = entry.content.files if entry.content is not None and KINDS[entry.kind].is_target else ()
        kept = tuple(one for file in files if (one := self._bytes_of(file)) is not None)
        return ImportedMessage(
            entry.message_id or "", entry.sender_id or "", entry.sent_ms, entry.text, files=kept, entry=entry
        )

    def _bytes_of(self, file: Any) -> ImportedFile | None:
        if self._root is None or not file.file_id.isalnum():
            return None
        found = self._root / FILES / file.file_id
        if not found.is_file():
            return None
        return ImportedFile(
            file.file_id,
            file.name,
            type_of(file.mime, file.name),
            size_of(found),
            lambda: binary(found),
            file.width,
            file.height,
            file.blurhash,
        )


def _seekable(found: Root) -> BinaryIO:
    """The lines. Those in a zip are unpacked to a file without a name, because nobody can jump about in a zip."""
    if not found.is_file():
        raise BadRequest(f"there is no {found}")
    if isinstance(found, Path):
        return binary(found)
    whole: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the source
    with binary(found) as packed:
        shutil.copyfileobj(packed, whole)
    whole.seek(0)
    return whole


def _decoded(number: int, line: bytes) -> Line:
    try:
        decoded = msgspec.json.decode(line)
    except msgspec.DecodeError:
        raise BadRequest(f"line {number} is no JSON") from None
    if not isinstance(decoded, dict):
        raise BadRequest(f"line {number} is no JSON object")
    return decoded
