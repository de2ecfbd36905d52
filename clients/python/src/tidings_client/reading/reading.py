"""Every entry once and in order, whatever the network did: tracks find the gaps, and `Reading` fetches the rest.

A `Track` holds the last contiguous seq of a conversation, without I/O. Its `take` returns the entries that are next, in
order; an early entry waits in the track for its predecessors. A track with an unknown beginning (`last` is None)
returns nothing until it is set.

Three things can be missing: predecessors of an entry (the answer to an own send usually overtakes them), the rest of a
long resume, and conversations that no resume named because this client did not know them. The last begin at the first
entry after the first hello of this client. `publish` gets the entries in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tidings_client.bounds import GAP_AGAIN_S, GAP_S, PAGE_MAX, READS_MAX, RESUME_CONVERSATIONS_MAX
from tidings_client.connection.session import Session
from tidings_client.errors import Problem
from tidings_client.forms import History, Inbox
from tidings_client.sending.drafts import Draft
from tidings_client.values import HistoryPage, InboxPage, InboxRow, Message, MessageNew, Resumed, Sent

log = logging.getLogger("tidings.client")

Publish = Callable[[MessageNew], None]


class Track:
    __slots__ = ("early", "last")

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.early: dict[int, MessageNew] = {}

    @property
    def has_gap(self) -> bool:
        """Whether an early entry waits for its predecessors."""
        return bool(self.early)

    def take(self, event: MessageNew) -> list[MessageNew]:
        """Add an entry, and return the entries that are next now."""
        seq = event.message.seq
        if self.last is not None and seq <= self.last:
            return []
        self.early.setdefault(seq, event)
        return self._advance()

    def begin(self, last: int) -> list[MessageNew]:
        """Make the entry after `last` the next one."""
        self.last = last
        self.early = {seq: event for seq, event in self.early.items() if seq > last}
        return self._advance()

    def _advance(self) -> list[MessageNew]:
        found: list[MessageNew] = []
        while self.last is not None and (event := self.early.pop(self.last + 1, None)) is not None:
            self.last += 1
            found.append(event)
        return found


class Tracks:
    """Tracks by conversation. The conversation with the latest entry stands at the end."""

    def __init__(self, resume: dict[str, int]) -> None:
        self._tracks = {conversation_id: Track(seq) for conversation_id, seq in resume.items()}

    def get(self, conversation_id: str) -> Track | None:
        return self._tracks.get(conversation_id)

    def start(self, conversation_id: str, last: int | None) -> Track:
        track = self._tracks[conversation_id] = Track(last)
        return track

    def touch(self, conversation_id: str) -> None:
        self._tracks[conversation_id] = self._tracks.pop(conversation_id)

    def forget(self, conversation_id: str) -> None:
        self._tracks.pop(conversation_id, None)

    def clear(self) -> None:
        self._tracks.clear()

    def seqs(self) -> dict[str, int]:
        """The last contiguous seq of every conversation that has one."""
        return {name: track.last for name, track in self._tracks.items() if track.last is not None}

    def resume(self) -> dict[str, int]:
        """The conversations that a connect names: the liveliest. `since` makes the server announce the rest."""
        return dict(list(self.seqs().items())[-RESUME_CONVERSATIONS_MAX:])

    def unlocated(self) -> list[str]:
        return [name for name, track in self._tracks.items() if track.last is None]


class Reading:
    def __init__(self, session: Session, tracks: Tracks, publish: Publish, since_ms: int | None) -> None:
        self.tracks = tracks
        self._session = session
        self._publish = publish
        self._start_ms = since_ms  # entries after it are published; without `since` it is the time of the first hello
        self._is_unbroken = since_ms is None  # connected once, and ever since: no entry can have been missed
        self._behind: set[str] = set()
        self._announced_count = 0
        self._is_to_walk = False
        self._since_ms = 0
        self._turns = asyncio.Semaphore(READS_MAX)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def welcomed(self, server_ms: int, since_ms: int | None, is_new_store: bool) -> None:
        """Begin after a hello. The server announces what changed after `since_ms`, which the connect named."""
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
            self._fill(conversation_id)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- received events ---

    def take(self, event: MessageNew) -> None:
        """Take an entry, live or replayed."""
        self._apply(event, is_next=self._is_unbroken)

    def sent(self, draft: Draft, sent: Sent, user_id: str) -> None:
        """Put an own send in its place. Entries of others with lower numbers may arrive after it."""
        self._apply(MessageNew(
            conversation_id=draft.conversation_id, message=own_message(draft, sent, user_id)
        ), is_next=False)  # fmt: skip

    def resumed(self, event: Resumed) -> None:
        conversation_id = event.conversation_id
        track = self.tracks.get(conversation_id) or self.tracks.start(conversation_id, event.to_seq)
        if event.reset or track.last is None or track.last < event.from_seq - 1:
            self._publish_all(conversation_id, track.begin(event.from_seq - 1))
        if event.reset or not event.complete:
            self._behind.add(conversation_id)
        self._check(conversation_id, track)

    def updated(self, row: InboxRow) -> None:
        """Take the state of a conversation. After a reconnect it announces a conversation that no resume named."""
        self._announced_count += 1
        if self._announced_count == RESUME_CONVERSATIONS_MAX:
            self._is_to_walk = True
            self._run("", self._walk_inbox())
        self.compare(row)

    def removed(self, conversation_id: str) -> None:
        self.tracks.forget(conversation_id)
        self._behind.discard(conversation_id)

    def compare(self, row: InboxRow) -> None:
        """Check whether the conversation has more entries than were published."""
        track = self.tracks.get(row.conversation_id)
        if track is None:
            if self._is_unbroken:
                return
            track = self.tracks.start(row.conversation_id, None)
        elif track.last is not None and track.last < row.last_seq:
            self._behind.add(row.conversation_id)
        self._check(row.conversation_id, track)

    def _apply(self, event: MessageNew, *, is_next: bool) -> None:
        conversation_id, seq = event.conversation_id, event.message.seq
        track = self.tracks.get(conversation_id)
        if track is None:
            track = self.tracks.start(conversation_id, seq - 1 if is_next or seq == 1 else None)
        self._publish_all(conversation_id, track.take(event))
        self._check(conversation_id, track)

    def _publish_all(self, conversation_id: str, events: list[MessageNew]) -> None:
        if events:
            self.tracks.touch(conversation_id)
        for event in events:
            self._publish(event)

    def _check(self, conversation_id: str, track: Track) -> None:
        if self._is_unfinished(conversation_id, track):
            self._fill(conversation_id)

    def _is_unfinished(self, conversation_id: str, track: Track) -> bool:
        return track.last is None or track.has_gap or conversation_id in self._behind

    # --- filling gaps: one task per conversation ---

    def _fill(self, conversation_id: str) -> None:
        self._run(conversation_id, self._fill_until_whole(conversation_id))

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if name in self._tasks:
            work.close()
            return
        self._tasks[name] = asyncio.create_task(self._until_end(name, work), name=f"tidings-read-{name}")

    async def _until_end(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionError:
            pass  # the session ended for good; the streams raise the reason
        except Problem as problem:
            log.warning("reading missed entries failed conversation=%s cause=%r", name or "all", problem)
        finally:
            self._tasks.pop(name, None)

    async def _fill_until_whole(self, conversation_id: str) -> None:
        await asyncio.sleep(GAP_S)
        while (track := self.tracks.get(conversation_id)) and self._is_unfinished(conversation_id, track):
            try:
                async with self._turns:
                    is_further = await self._fill_once(conversation_id, track)
            except Problem as problem:
                if not problem.is_temporary and self.tracks.get(conversation_id) is track:  # not ours any more
                    self.removed(conversation_id)
                is_further = not problem.is_temporary
            if not is_further:
                await asyncio.sleep(GAP_AGAIN_S)

    async def _fill_once(self, conversation_id: str, track: Track) -> bool:
        """Read one page. False when an undecided number prevents any progress."""
        if track.last is None:
            last = await self._locate(conversation_id)
            if self.tracks.get(conversation_id) is track:
                self._publish_all(conversation_id, track.begin(last))
                self._behind.add(conversation_id)
            return True
        last = track.last
        page = await self._page(conversation_id, after_seq=last)
        if self.tracks.get(conversation_id) is not track:  # the user left the conversation meanwhile
            return True
        if page.messages and page.messages[-1].seq > track.last + 1:  # this user may not see the entries between
            self._publish_all(conversation_id, track.begin(page.messages[-1].seq - 1))
        for message in reversed(page.messages):  # the counts of a replayed entry are not known
            event = MessageNew(conversation_id=conversation_id, message=message)
            self._publish_all(conversation_id, track.take(event))
        if track.last >= page.head or not (page.messages or page.head > last):
            self._behind.discard(conversation_id)
        return track.last > last

    async def _locate(self, conversation_id: str) -> int:
        """Find the last entry that is older than this client: every entry after it must be published."""
        before_seq: int | None = None
        while True:
            page = await self._page(conversation_id, before_seq=before_seq)
            for message in page.messages:
                if message.sent_at <= (self._start_ms or 0):
                    return message.seq
            if page.next_before_seq is None:
                return page.messages[-1].seq - 1 if page.messages else page.head
            before_seq = page.next_before_seq

    async def _page(
        self, conversation_id: str, *, before_seq: int | None = None, after_seq: int | None = None
    ) -> HistoryPage:
        frame = History(conversation_id=conversation_id, before_seq=before_seq, after_seq=after_seq, limit=PAGE_MAX)
        return await self._session.request(frame, HistoryPage)

    # --- walking the inbox ---

    async def _walk_inbox(self) -> None:
        """Read the inbox, newest first: more has changed than the server announces. Repeat if that happens again."""
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
        """Read one page, however long the refusal lasts: no other task reads what the walk leaves out."""
        while True:
            try:
                return await self._session.request(Inbox(limit=PAGE_MAX, cursor=cursor), InboxPage)
            except Problem as problem:
                if not problem.is_temporary:
                    raise
            await asyncio.sleep(GAP_AGAIN_S)


def own_message(draft: Draft, sent: Sent, user_id: str) -> Message:
    """Make the entry of an own send, as other members receive it."""
    return Message(
        seq=sent.seq,
        kind="message",
        message_id=draft.message_id,
        sender_id=user_id,
        text=draft.text if sent.text is None else sent.text,
        ts=draft.ts if draft.ts is not None else sent.sent_at,
        sent_at=sent.sent_at,
        deleted=False,
        edited_at=None,
        target_seq=None,
        member=None,
    )
