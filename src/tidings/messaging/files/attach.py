"""Attach and detach: the records of files change in the commit of the message that carries them, or of its delete.

A file is attached once, to a message of its own conversation and of the user who uploaded it. A resend of that message
finds it attached to itself, and the log decides what the resend is. The upload of a message that is sent later is kept
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidings.bounds import UPLOAD_S
from tidings.clock import Clock
from tidings.errors import BadRequest
from tidings.messaging.files.record import COLLECTION, FileRecord, put_of, value_of
from tidings.messaging.send.draft import Companion, Companions, Draft
from tidings.model import KINDS, Entry, File
from tidings.stores.tables.records import Put, RecordKey, Records, of_conversation


class Attachments:
    """Finds the companion of a draft that brings files, or takes them away."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def accompany(self, draft: Draft) -> None:
        """Give the draft its companion, unless it is an edit, which leaves the files as they are."""
        mine: Companion
        if draft.target is None:
            mine = Attaching(draft, self._records)
        elif KINDS[draft.kind].uncounts:
            mine = Detaching(draft, self._records, self._clock)
        else:
            return
        draft.companion = mine if draft.companion is None else Companions(draft.companion, mine)
        draft.is_unread = True


class _OfFiles:
    """The records of some files of one conversation."""

    last_seq = 0  # any order of the entries will do

    def __init__(self, draft: Draft, file_ids: Iterable[str], records: Records) -> None:
        self._draft = draft
        self._file_ids = tuple(file_ids)
        self._records = records
        self._found: dict[str, tuple[FileRecord, int]] = {}  # file_id -> the record and its version
        owner = of_conversation(draft.conversation_id)
        self.keys = frozenset(RecordKey(owner, COLLECTION, file_id) for file_id in self._file_ids)

    async def read(self) -> None:
        owner = of_conversation(self._draft.conversation_id)
        found = await self._records.get(owner, COLLECTION, self._file_ids)
        self._found = {file_id: (value_of(record), record.version) for file_id, record in found.items()}


class Attaching(_OfFiles):
    def __init__(self, draft: Draft, records: Records) -> None:
        assert draft.content is not None
        super().__init__(draft, (file.file_id for file in draft.content.files), records)

    async def read(self) -> None:
        """Read the records, and write the facts of the files into the content. Raises BadRequest."""
        await super().read()
        draft = self._draft
        assert draft.content is not None
        for file_id in self._file_ids:
            check_file(file_id, self._found.get(file_id, (None,))[0], draft.sender_id, draft.message_id)
        facts = tuple(self._found[file_id][0].facts(file_id) for file_id in self._file_ids)
        draft.content = msgspec.structs.replace(draft.content, files=facts)

    def puts(self, entry: Entry) -> Sequence[Put]:
        only_sender = entry.content is not None and entry.content.only_sender
        return [
            put_of(
                entry.conversation_id, file_id, value.attached_to(entry.seq_no, entry.message_id, only_sender), version
            )
            for file_id, (value, version) in self._found.items()
        ]


class Detaching(_OfFiles):
    def __init__(self, draft: Draft, records: Records, clock: Clock) -> None:
        assert draft.target is not None and draft.target.content is not None
        super().__init__(draft, (file.file_id for file in draft.target.content.files), records)
        self._clock = clock

    def puts(self, entry: Entry) -> Sequence[Put]:
        now_ms = self._clock.now_ms()
        return [
            put_of(entry.conversation_id, file_id, msgspec.structs.replace(value, state="gone"), version, due_ms=now_ms)
            for file_id, (value, version) in self._found.items()
        ]


def check_file(file_id: str, value: FileRecord | None, sender_id: str, message_id: str) -> None:
    """Refuse a file that this message cannot carry."""
    if value is None or value.user_id != sender_id:
        raise BadRequest(f"`files`: you have no file `{file_id}` in this conversation")
    if value.state == "pending":
        raise BadRequest(f"`files`: the upload of `{file_id}` is not complete")
    if value.state != "complete" and value.message_id != message_id:
        raise BadRequest(f"`files`: `{file_id}` is in another message, or it is gone")


async def kept_files(
    records: Records, user_id: str, conversation_id: str, message_id: str, files: Sequence[File], *, until_ms: int
) -> list[Put]:
    """The puts that keep the uploads of a message that is sent later, a day longer than this. Raises BadRequest."""
    if not files:
        return []
    found = await records.get(of_conversation(conversation_id), COLLECTION, [file.file_id for file in files])
    puts: list[Put] = []
    for file_id in (file.file_id for file in files):
        record = found.get(file_id)
        value = value_of(record) if record is not None else None
        check_file(file_id, value, user_id, message_id)
        if record is not None and value is not None and value.state == "complete":
            due_ms = max(until_ms + UPLOAD_S * 1000, record.due_ms or 0)
            puts.append(put_of(conversation_id, file_id, value, record.version, due_ms=due_ms))
    return puts
