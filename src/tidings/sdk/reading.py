"""Every entry once and in order, whatever the network did: tracks.py says what is missing, here it is fetched.

What can be missing: an entry that came before its predecessors (one's own `ok` overtakes them as a rule), the rest of a
long resume, and conversations that nobody named in a resume because nobody knew them. The last are begun at the first
entry since this client's first hello. client.py hands over the events; `tell` gets them in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tidings.bounds import (
    CLIENT_GAP_AGAIN_S,
    CLIENT_GAP_S,
    CLIENT_READS_MAX,
    PAGE_MAX,
    RESUME_CONVERSATIONS_MAX,
)
from tidings.errors import Problem
from tidings.gateway.protocol import History, Inbox
from tidings.sdk.drafts import Draft
from tidings.sdk.events import MessageNew, Resumed
from tidings.sdk.session import Session
from tidings.sdk.tracks import Track, Tracks
from tidings.sdk.values import HistoryPage, InboxPage, InboxRow, Message, Sent

log = logging.getLogger("tidings.sdk")

Tell = Callable[[MessageNew], None]


class Reading:
    def __init__(self, session: Session, tracks: Tracks, tell: Tell, since_ms: int | None) -> None:
        self.tracks = tracks
        self._session = session
        self._tell = tell
        self._start_ms = since_ms  # entries after it are to be told; the first hello's time unless the program said it
        self._is_unbroken = since_ms is None  # connected once, and ever since: nothing can have been missed
        self._behind: set[str] = set()
        self._announced_count = 0
        self._is_to_walk = False
        self._since_ms = 0
        self._turns = asyncio.Semaphore(CLIENT_READS_MAX)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def welcomed(self, server_ms: int, since_ms: int | None, is_new_store: bool) -> None:
        """`since_ms` is what the connect asked with: what changed after it is announced."""
        if is_new_store:
            self.tracks.clear()
            self._behind.clear()
            self._start_ms = server_ms
        elif self._start_ms is None:
            self._start_ms = server_ms
        else:
            self._is_unbroken = False
        self._announced_count = 0
        self._since_ms = since_ms or 0
        for conversation_id in self.tracks.unlocated():
            self._mend(conversation_id)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- what is heard ---

    def take(self, event: MessageNew) -> None:
        """An entry, live or replayed."""
        self._apply(event, is_next=self._is_unbroken)

    def sent(self, draft: Draft, sent: Sent, user_id: str) -> None:
        """One's own send takes its place. Others of the same moment may have lower numbers and come after it."""
        self._apply(MessageNew(
            conversation_id=draft.conversation_id,
            message=own_message(draft, sent, user_id),
            unread_count=None,
            unread_capped=False,
            total_unread=None,
        ), is_next=False)  # fmt: skip

    def resumed(self, event: Resumed) -> None:
        conversation_id = event.conversation_id
        track = self.tracks.get(conversation_id) or self.tracks.start(conversation_id, event.to_seq)
        if event.reset or track.last is None or track.last < event.from_seq - 1:
            self._tell_all(conversation_id, track.begin(event.from_seq - 1))
        if event.reset or not event.complete:
            self._behind.add(conversation_id)
        self._look(conversation_id, track)

    def updated(self, row: InboxRow) -> None:
        """A conversation stands so. After a reconnect that is how those are announced that no resume named."""
        self._announced_count += 1
        if self._announced_count == RESUME_CONVERSATIONS_MAX:
            self._is_to_walk = True
            self._run("", self._walk_inbox())
        self.compare(row)

    def removed(self, conversation_id: str) -> None:
        self.tracks.forget(conversation_id)
        self._behind.discard(conversation_id)

    # --- what follows from it ---

    def _apply(self, event: MessageNew, *, is_next: bool) -> None:
        conversation_id, seq = event.conversation_id, event.message.seq
        track = self.tracks.get(conversation_id)
        if track is None:
            track = self.tracks.start(conversation_id, seq - 1 if is_next or seq == 1 else None)
        self._tell_all(conversation_id, track.take(event))
        self._look(conversation_id, track)

    def compare(self, row: InboxRow) -> None:
        """Whether there is more of it than was told."""
        track = self.tracks.get(row.conversation_id)
        if track is None:
            if self._is_unbroken:
                return
            track = self.tracks.start(row.conversation_id, None)
        elif track.last is not None and track.last < row.last_seq:
            self._behind.add(row.conversation_id)
        self._look(row.conversation_id, track)

    def _tell_all(self, conversation_id: str, events: list[MessageNew]) -> None:
        if events:
            self.tracks.touch(conversation_id)
        for event in events:
            self._tell(event)

    def _look(self, conversation_id: str, track: Track) -> None:
        if self._is_unfinished(conversation_id, track):
            self._mend(conversation_id)

    def _is_unfinished(self, conversation_id: str, track: Track) -> bool:
        return track.last is None or track.is_broken or conversation_id in self._behind

    # --- mending: one task per conversation ---

    def _mend(self, conversation_id: str) -> None:
        self._run(conversation_id, self._mend_until_whole(conversation_id))

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if name in self._tasks:
            work.close()
            return
        self._tasks[name] = asyncio.create_task(self._until_end(name, work), name=f"tidings-read-{name}")

    async def _until_end(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionError:
            pass  # the session ended for good; the streams say why
        except Problem as problem:
            log.warning("what changed while away could not be read: %r", problem)
        finally:
            self._tasks.pop(name, None)

    async def _mend_until_whole(self, conversation_id: str) -> None:
        await asyncio.sleep(CLIENT_GAP_S)
        while (track := self.tracks.get(conversation_id)) and self._is_unfinished(conversation_id, track):
            try:
                async with self._turns:
                    is_further = await self._mend_once(conversation_id, track)
            except Problem as problem:
                if not problem.is_temporary and self.tracks.get(conversation_id) is track:  # not ours any more
                    self.removed(conversation_id)
                is_further = not problem.is_temporary
            if not is_further:
                await asyncio.sleep(CLIENT_GAP_AGAIN_S)

    async def _mend_once(self, conversation_id: str, track: Track) -> bool:
        """One page closer, or left meanwhile; False when an undecided number is in the way."""
        if track.last is None:
            last = await self._locate(conversation_id)
            if self.tracks.get(conversation_id) is track:
                self._tell_all(conversation_id, track.begin(last))
                self._behind.add(conversation_id)
            return True
        last = track.last
        page = await self._page(conversation_id, after_seq=last)
        if self.tracks.get(conversation_id) is not track:  # it was left meanwhile
            return True
        if page.messages and page.messages[-1].seq > track.last + 1:  # what lies between is not ours to see
            self._tell_all(conversation_id, track.begin(page.messages[-1].seq - 1))
        for message in reversed(page.messages):
            self._tell_all(conversation_id, track.take(replayed(conversation_id, message)))
        if track.last >= page.head or not (page.messages or page.head > last):
            self._behind.discard(conversation_id)
        return track.last > last

    async def _locate(self, conversation_id: str) -> int:
        """The last entry that was there before this client was: everything after it is to be told."""
        before_seq: int | None = None
        while True:
            page = await self._page(conversation_id, before_seq=before_seq)
            for message in page.messages:
                if message.sent_at <= (self._start_ms or 0):
                    return message.seq
            if page.next_before_seq is None:
                return page.messages[-1].seq - 1 if page.messages else page.head
            before_seq = page.next_before_seq

    async def _page(self, conversation_id: str, **place: int | None) -> HistoryPage:
        frame = History(conversation_id=conversation_id, limit=PAGE_MAX, **place)  # type: ignore[arg-type]
        return await self._session.insist(frame, HistoryPage)

    async def _walk_inbox(self) -> None:
        """More has changed than is announced: the inbox names the rest, newest first. Again, if it happens again."""
        while self._is_to_walk:
            self._is_to_walk = False
            await self._walk_down(self._since_ms)

    async def _walk_down(self, since_ms: int) -> None:
        cursor: str | None = None
        while True:
            page = await self._inbox(cursor)
            for row in page.conversations:
                self.compare(row)
            oldest_ms = min((row.last_message_ts for row in page.conversations), default=0)
            if page.next_cursor is None or oldest_ms < since_ms:
                return
            cursor = page.next_cursor

    async def _inbox(self, cursor: str | None) -> InboxPage:
        """However long the server says not now: nobody else would read what the walk leaves out."""
        while True:
            try:
                return await self._session.insist(Inbox(limit=PAGE_MAX, cursor=cursor), InboxPage)
            except Problem as problem:
                if not problem.is_temporary:
                    raise
            await asyncio.sleep(CLIENT_GAP_AGAIN_S)


def own_message(draft: Draft, sent: Sent, user_id: str) -> Message:
    """What the other members are told of it."""
    return Message(
        seq=sent.seq,
        kind="message",
        message_id=draft.message_id,
        sender_id=user_id,
        text=draft.text,
        ts=draft.ts if draft.ts is not None else sent.sent_at,
        sent_at=sent.sent_at,
        deleted=False,
        edited_at=None,
        target_seq=None,
        member=None,
    )


def replayed(conversation_id: str, message: Message) -> MessageNew:
    """An entry of a page as an event; counts are not known there."""
    return MessageNew(
        conversation_id=conversation_id, message=message, unread_count=None, unread_capped=False, total_unread=None
    )
