"""Indexer: keeps the search index up to the log, in the background.

The index of a conversation has a cursor: everything up to it is indexed. The node that stores entries notes their
conversation, and a loop follows the log from the cursor on. A note that is lost does no harm: a search notices that a
conversation is behind and notes it again. Nodes that index the same conversation do not disturb each other, because
only one of them moves the cursor.

The log shows each message as it is now. So an edit is indexed by reading its target, and a delete removes it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidings.bounds import PAGE_MAX
from tidings.errors import StoreError, cause_of
from tidings.messaging.log import Log
from tidings.messaging.search.words import has_link, words_of
from tidings.model import KINDS, Entry
from tidings.stores.tables.ports import Conversations
from tidings.stores.tables.search import Document, SearchIndex
from tidings.tasks import Loop

EVERY_S = 0.5  # pause of the indexer: what is acknowledged is found a second later
NOTED_MAX = 100_000  # conversations that wait for the indexer: 10 MB; a search notes what was dropped
log = logging.getLogger("tidings.search")


def document_of(entry: Entry) -> Document | None:
    """The words of a message; None where there is nothing to find."""
    content = entry.content
    if not KINDS[entry.kind].is_target or entry.is_deleted or content is None or not content.text:
        return None
    if content.only_sender:
        return None
    return Document(
        entry.seq_no,
        entry.sent_ms,
        entry.sender_id or "",
        words_of(content.text),
        has_file=has_file(entry),
        has_link=has_link(content.text),
    )


def has_file(entry: Entry) -> bool:
    return bool(getattr(entry.content, "files", None))


class Indexer:
    """Without an index, `note` does nothing and there is nothing to follow."""

    def __init__(self, index: SearchIndex | None, entries: Log, conversations: Conversations) -> None:
        self._index = index
        self._entries = entries
        self._conversations = conversations
        self._noted: dict[str, None] = {}
        self.loop = Loop("search", lambda: EVERY_S, self.follow)

    def note(self, conversation_id: str) -> None:
        """There are new entries. Never blocks; a note too many is dropped, and a search makes it again."""
        if self._index is not None and len(self._noted) < NOTED_MAX:
            self._noted[conversation_id] = None

    async def follow(self) -> None:
        """Index the conversations that were noted. Raises StoreError: they stay noted."""
        while self._noted:
            conversation_id = next(iter(self._noted))
            del self._noted[conversation_id]
            try:
                await self.catch_up(conversation_id)
            except StoreError as error:
                self.note(conversation_id)
                log.info("search index waits", extra=cause_of(error, conversation_id=conversation_id))
                return

    async def catch_up(self, conversation_id: str) -> int:
        """Index a conversation up to the end of its log, and answer how many entries that were. Raises StoreError."""
        if self._index is None:
            return 0
        at = (await self._index.cursors([conversation_id])).get(conversation_id, 0)
        done = 0
        while entries := await self._entries.after(conversation_id, at, PAGE_MAX):
            documents, removed = await self._changes(conversation_id, entries)
            up_to = entries[-1].seq_no
            if not await self._index.put(conversation_id, documents, removed, after=at, up_to=up_to):
                return done  # another node is at it
            done, at = done + len(entries), up_to
        if not done and not await self._conversations.heads([conversation_id]):
            await self._index.forget(conversation_id)  # it was deleted
        return done

    async def _changes(self, conversation_id: str, entries: Sequence[Entry]) -> tuple[list[Document], list[int]]:
        """The documents of these entries and of the messages that they rewrite, and the messages that have none."""
        now = {entry.seq_no: entry for entry in entries if KINDS[entry.kind].is_target}
        for entry in entries:
            if KINDS[entry.kind].rewrites and entry.target_seq is not None and entry.target_seq not in now:
                target = await self._entries.entry(conversation_id, entry.target_seq)
                if target is not None:
                    now[target.seq_no] = target
        documents = [document for entry in now.values() if (document := document_of(entry)) is not None]
        there = {document.seq_no for document in documents}
        return documents, [seq_no for seq_no in now if seq_no not in there]
