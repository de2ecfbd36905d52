"""Walks over what is exported: the log of a conversation, and the records of an owner, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tidings.bounds import ARCHIVE_PAGE, PAGE_MAX
from tidings.model import KINDS, Entry, Head
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Record, Records

FileKey = tuple[str, str]  # conversation_id, file_id


async def entries_of(messages: Messages, head: Head) -> AsyncIterator[Entry]:
    """The log of a conversation, up to the head."""
    after = head.floor_seq
    while page := await messages.page(
        head.conversation_id, after=after, before=head.head + 1, limit=ARCHIVE_PAGE, newest_first=False
    ):
        for entry in page:
            yield entry
        after = page[-1].seq_no


async def records_of(records: Records, owner: str, collection: str) -> AsyncIterator[Record]:
    """The records of an owner, in the order of their names."""
    after = ""
    while page := await records.page(owner, collection, after=after, limit=PAGE_MAX):
        for record in page:
            yield record
        after = page[-1].name


def files_of(entry: Entry) -> list[FileKey]:
    """The files of a message."""
    if entry.content is None or not KINDS[entry.kind].is_target:
        return []
    return [(entry.conversation_id, file.file_id) for file in entry.content.files]
