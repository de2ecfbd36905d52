"""Indexer: keeps the search index up to the log, in the background.

The index of a conversation has a cursor: everything up to it is indexed. The node that stores entries holds their words
for a moment, and a loop follows. Where they begin right above the cursor, they are indexed from memory, those of many
conversations in one commit. Otherwise the loop reads the log from the cursor on. A note that is lost does no harm: a
search notices that a conversation is behind and notes it again. Nodes that index the same conversation do not disturb
each other, because only one of them moves the cursor.

The log shows each message as it is now. So an edit is indexed by reading its target, and a delete removes it. A message
may leave the log while its words are put. So the floor of the log, or its end, is read once more after such a put.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from tidings.bounds import PAGE_MAX
from tidings.errors import StoreError, cause_of
from tidings.messaging.log import Log
from tidings.messaging.search.words import has_link, words_of
from tidings.model import KINDS, Entry
from tidings.stores.tables.ports import Conversations
from tidings.stores.tables.search import Document, Part, SearchIndex
from tidings.tasks import Loop

EVERY_S = 2.0  # pause of the indexer: what is acknowledged is found two seconds later, and shares a commit until then
TOGETHER = 256  # conversations whose logs are read at the same time
PUT_TOGETHER = 4_096  # conversations in one commit: FTS5 writes a segment for each commit, and merges them all later
HELD_CHARS_MAX = 12_000_000  # of words that are held: 12 MB, or 48 MB where all are emoji. From half of it on the
# indexer begins at once: 20,000 messages of nine words, so a node under full load gathers for the whole pause
NOTED_MAX = 100_000  # conversations that wait for the indexer: 10 MB; a search notes what was dropped
_DOCUMENT_CHARS = 256  # of a document that is held, beside its words
log = logging.getLogger("tidings.search")


def document_of(entry: Entry) -> Document:
    """The words of a message; none where there is nothing to find."""
    content, sender_id = entry.content, entry.sender_id or ""
    if content is None or entry.is_deleted or not content.text or content.only_sender:
        return Document(entry.seq_no, entry.sent_ms, sender_id, "")
    words = words_of(content.text)
    return Document(entry.seq_no, entry.sent_ms, sender_id, words, bool(content.files), has_link(content.text))


def _documents(entries: Iterable[Entry]) -> list[Document]:
    return [document_of(entry) for entry in entries if KINDS[entry.kind].is_target]


class _Held:
    """The words of entries that were just stored: of all above `after`, up to `up_to`."""

    __slots__ = ("after", "documents", "up_to")

    def __init__(self, after: int) -> None:
        self.after = self.up_to = after
        self.documents: list[Document] = []

    def add(self, entries: Sequence[Entry]) -> int | None:
        """Answers how many characters that are. None: the entries do not follow the others, or one of them rewrites
        another. Then the log must be read."""
        chars = 0
        for entry in entries:
            kind = KINDS[entry.kind]
            if entry.seq_no != self.up_to + 1 or kind.rewrites:
                return None
            self.up_to = entry.seq_no
            if kind.is_target:
                document = document_of(entry)
                self.documents.append(document)
                chars += _DOCUMENT_CHARS + len(document.words)
        return chars

    def part(self, conversation_id: str) -> Part:
        return Part(conversation_id, self.documents, self.after, self.up_to)


class Indexer:
    """Without an index, `note` does nothing and there is nothing to follow."""

    def __init__(self, index: SearchIndex | None, entries: Log, conversations: Conversations) -> None:
        self._index = index
        self._entries = entries
        self._conversations = conversations
        self._noted: dict[str, _Held | None] = {}  # None: the entries are read from the log
        self._under_way: dict[str, _Held | None] = {}  # those that `follow` has taken, until they are indexed
        self._held_chars = 0
        self.loop = Loop("search", lambda: EVERY_S, self.follow)

    def note(self, conversation_id: str) -> None:
        """There are new entries. Never blocks; a note too many is dropped, and a search makes it again."""
        if self._index is not None and (conversation_id in self._noted or len(self._noted) < NOTED_MAX):
            self._noted[conversation_id] = None

    def stored(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """These entries are in the log now, and need not be read from there. Never blocks.

        Their words are taken out here: a few at a time, so that no send waits while all are.
        """
        if self._index is None or not entries:
            return
        held = self._noted.get(conversation_id)
        if held is None:
            if conversation_id in self._noted or len(self._noted) >= NOTED_MAX:
                return  # the log is read
            held = self._noted[conversation_id] = _Held(entries[0].seq_no - 1)
        chars = held.add(entries)
        if chars is None:
            self._noted[conversation_id] = None
            return
        self._held_chars += chars
        if self._held_chars > HELD_CHARS_MAX:
            self._drop_held()
        elif self._held_chars > HELD_CHARS_MAX // 2:
            self.loop.nudge()

    def is_behind(self, conversation_ids: Iterable[str]) -> bool:
        """Say whether this node knows of entries of these conversations that are not indexed yet."""
        return any(id_ in self._noted or id_ in self._under_way for id_ in conversation_ids)

    def _drop_held(self) -> None:
        """Read everything that is noted from the log."""
        self._noted = dict.fromkeys(self._noted)
        self._held_chars = 0

    async def follow(self) -> None:
        """Index the conversations that were noted, many at a time: they share round trips and commits."""
        while self._noted and self._index is not None:
            noted = {id_: self._noted.pop(id_) for id_ in list(islice(self._noted, PUT_TOGETHER))}
            if not self._noted:
                self._held_chars = 0
            self._under_way = noted
            try:
                if not await self._put(noted):
                    return
            finally:
                self._under_way = {}

    async def _put(self, noted: Mapping[str, _Held | None]) -> bool:
        """False: a store was away."""
        try:
            behind = await self._put_held(noted)
        except StoreError:
            behind = list(noted)  # each by itself: one that fails holds up no other
        return not behind or await self._read_on(behind)

    async def _put_held(self, noted: Mapping[str, _Held | None]) -> list[str]:
        """Index words from memory, all in one commit. Answers the conversations whose log must be read."""
        assert self._index is not None
        runs = {id_: held for id_, held in noted.items() if held is not None}
        parts = [held.part(id_) for id_, held in runs.items()]
        refused = await self._index.put(parts) if parts else set()
        # The cursor of a conversation that was deleted is gone. Only one that had none yet must be asked for, and last:
        # the reader of its log then removes the words.
        if new := [id_ for id_, held in runs.items() if not held.after]:
            refused |= set(new) - (await self._conversations.heads(new)).keys()
        return [id_ for id_ in noted if id_ not in runs or id_ in refused]

    async def _read_on(self, conversation_ids: Sequence[str]) -> bool:
        """Index conversations from their logs, TOGETHER at a time. False: a store was away."""
        assert self._index is not None
        for at in range(0, len(conversation_ids), TOGETHER):
            some = conversation_ids[at : at + TOGETHER]
            try:
                cursors = await self._index.cursors(some)
            except StoreError as error:
                self._wait_for(error, *conversation_ids[at:])
                return False
            if not all(await asyncio.gather(*(self._try(id_, cursors.get(id_, 0)) for id_ in some))):
                for id_ in conversation_ids[at + TOGETHER :]:
                    self.note(id_)
                return False
        return True

    async def _try(self, conversation_id: str, at: int) -> bool:
        try:
            await self._index_from(conversation_id, at)
        except StoreError as error:
            self._wait_for(error, conversation_id)
            return False
        return True

    def _wait_for(self, error: StoreError, *conversation_ids: str) -> None:
        """Note the conversations again: a store was away."""
        for conversation_id in conversation_ids:
            self.note(conversation_id)
        self._drop_held()
        log.info("search index waits", extra=cause_of(error, conversation_id=conversation_ids[0]))

    async def catch_up(self, conversation_id: str) -> int:
        """Index a conversation up to the end of its log, and answer how many entries that were. Raises StoreError."""
        if self._index is None:
            return 0
        done = None
        while done is None:
            cursors = await self._index.cursors([conversation_id])
            done = await self._index_from(conversation_id, cursors.get(conversation_id, 0))
        return done

    async def remove(self, conversation_id: str, oldest: Sequence[Entry]) -> None:
        """Remove the words of entries that are about to leave the log, at its beginning. Raises StoreError.

        Where the cursor stands below the last of them, it moves there: nothing before it needs to be indexed any more.
        """
        if self._index is None:
            return
        gone = [Document(entry.seq_no, entry.sent_ms, "", "") for entry in oldest if KINDS[entry.kind].is_target]
        await self._remove(conversation_id, gone, oldest[-1].seq_no)

    async def _remove(self, conversation_id: str, gone: Sequence[Document], up_to: int) -> None:
        assert self._index is not None
        is_refused = True
        while is_refused:  # another node moved the cursor
            at = (await self._index.cursors([conversation_id])).get(conversation_id, 0)
            part = Part(conversation_id, gone, after=at, up_to=max(at, up_to))
            is_refused = bool(await self._index.put([part]))

    async def _index_from(self, conversation_id: str, at: int) -> int | None:
        """How many entries that were. None: another node is at it."""
        assert self._index is not None
        done, is_more = 0, True
        while is_more and (entries := await self._entries.after(conversation_id, at, PAGE_MAX)):
            if not await self._put_read(conversation_id, entries, at):
                return None
            done, at = done + len(entries), entries[-1].seq_no
            is_more = len(entries) == PAGE_MAX  # an entry that came meanwhile is noted again
        if not done and not await self._conversations.heads([conversation_id]):
            await self._index.forget(conversation_id)  # it was deleted
        return done

    async def _put_read(self, conversation_id: str, entries: Sequence[Entry], at: int) -> bool:
        assert self._index is not None
        documents = await self._changes(conversation_id, entries)
        is_put = not await self._index.put([Part(conversation_id, documents, after=at, up_to=entries[-1].seq_no)])
        if not is_put:
            self.note(conversation_id)  # another node is at it, and may not have seen the last entries
        elif at == 0 or any(document.seq_no <= at for document in documents):
            await self._check(conversation_id, documents)
        return is_put

    async def _check(self, conversation_id: str, put: Sequence[Document]) -> None:
        """Remove the words of messages that left the log before they were put. Its cursor does not keep them out: the
        conversation had none yet, or they were rewritten."""
        assert self._index is not None
        heads = await self._conversations.heads([conversation_id])
        if conversation_id not in heads:
            return await self._index.forget(conversation_id)  # it was deleted
        floor_seq = heads[conversation_id].floor_seq
        if gone := [Document(one.seq_no, one.sent_ms, "", "") for one in put if one.seq_no <= floor_seq]:
            await self._remove(conversation_id, gone, floor_seq)

    async def _changes(self, conversation_id: str, entries: Sequence[Entry]) -> list[Document]:
        """The documents of these entries, and of the messages that they rewrite."""
        now = {entry.seq_no: entry for entry in entries}
        for entry in entries:
            if KINDS[entry.kind].rewrites and entry.target_seq is not None and entry.target_seq not in now:
                target = await self._entries.entry(conversation_id, entry.target_seq)
                if target is not None:
                    now[target.seq_no] = target
        return _documents(now.values())
