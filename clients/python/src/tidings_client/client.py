"""The client of one device: its sends are stored once and in order, and it receives every entry once and in order.

`Client` is the public face. device.py joins the parts behind it. Requests that need no connection are REST, in
account.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, get_args, overload

import msgspec

from tidings_client.account import Account
from tidings_client.beside.requests import Reaction, checked_key
from tidings_client.beside.structs import Reacted
from tidings_client.bounds import CLOSE_S, ENTRIES_ALL_S, FIRST_HELLO_S
from tidings_client.clock import Clock
from tidings_client.connection.http import Http
from tidings_client.connection.tokens import Tokens, TokenSource
from tidings_client.device import Device
from tidings_client.files import OnProgress, checked_paths, upload
from tidings_client.forms import (
    INTEGER_MAX,
    Begin,
    History,
    HistoryQuery,
    Inbox,
    InboxQuery,
    Mention,
    SetTyping,
    check_one_mark,
    checked_id,
    checked_ids,
)
from tidings_client.reading.streams import Stream
from tidings_client.requests.entries import Entries
from tidings_client.rest import Rest
from tidings_client.sending.drafts import Draft, Drafts, MemoryDrafts
from tidings_client.sending.streaming import Streaming
from tidings_client.values import Event, Hello, HistoryPage, InboxPage, Message, MessageNew, ReadState, Sent

E = TypeVar("E")


class Client(Account):
    """One device of a user, connected.

    `token` is a string or a callback that returns a fresh one. `device` names this device; without it each connection
    counts as a device of its own. `drafts` keeps unanswered sends. `resume` (conversation -> last seq that the program
    has) and `since` (the time of that in ms) continue an earlier run.
    """

    def __init__(
        self,
        url: str,
        token: TokenSource,
        *,
        device: str | None = None,
        drafts: Drafts | None = None,
        resume: Mapping[str, int] | None = None,
        since: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or Clock()
        tokens = Tokens(token, clock)

        async def headers() -> Mapping[str, str]:
            return {"Authorization": f"Bearer {await tokens.current()}"}

        super().__init__(Rest(Http(url), headers, clock, tokens.renew if tokens.is_renewable else None), clock)
        self._device = Device(
            url, tokens, clock, device, drafts or MemoryDrafts(), dict(resume or {}), since, self._upload
        )
        self._progress: dict[tuple[str, str], OnProgress] = {}
        self._session = self._device.session

    # --- life ---

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Return at the first hello; from then on the client reconnects by itself.

        Raises Stopped when the server refuses the client for good, ConnectionError when no server answered in time.
        """
        self._session.start()
        try:
            async with asyncio.timeout(FIRST_HELLO_S):
                await self._session.up()
        except TimeoutError:
            trouble = self._session.trouble
            await self.close()
            raise ConnectionError(f"not connected within {FIRST_HELLO_S:g} s: {trouble}") from trouble
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait a moment for unanswered sends, then leave. The next client with the same `drafts` sends the rest."""
        if self._session.is_up:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._device.sender.flushed()
            except TimeoutError:
                pass  # the server does not answer; a file keeps the unsent drafts
        await self._device.close()
        await self._rest.close()

    @property
    def is_connected(self) -> bool:
        return self._session.is_up

    @property
    def hello(self) -> Hello | None:
        """The last hello of the server."""
        return self._device.hello

    @property
    def user_id(self) -> str:
        """The user of the token: known from the first hello on."""
        return self._device.user_id

    @property
    def total_unread(self) -> int | None:
        """The badge, as the server reported it last."""
        return self._device.total_unread

    @property
    def unanswered_count(self) -> int:
        """Sends that the server has not answered yet."""
        return len(self._device.sender)

    def seqs(self) -> dict[str, int]:
        """Return the last published seq of each conversation: pass it as `resume` next time."""
        return self._device.reading.tracks.seqs()

    # --- events ---

    @overload
    def events(self) -> Stream[Event]: ...
    @overload
    def events(self, *kinds: type[E]) -> Stream[E]: ...
    def events(self, *kinds: type[Any]) -> Stream[Any]:
        """Open a stream of all events, or of these kinds. It begins now: earlier events are not in it."""
        for kind in kinds:
            if not (isinstance(kind, type) and any(issubclass(event, kind) for event in get_args(Event))):
                raise TypeError(f"not a kind of event: {kind!r} (an event of tidings_client, such as MessageNew)")
        return self._device.streams.open(lambda event: event if not kinds or isinstance(event, kinds) else None)

    def entries(self, *, after: str | None = None) -> Entries:
        """Iterate over every entry of every conversation, for ever. `entries.cursor` is the place to go on from.

        Without a cursor it begins now; `start` is before the first entry of all.
        """
        news = self.events(MessageNew)

        async def wait(seconds: float) -> Collection[str]:
            found: set[str] = set()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(seconds, ENTRIES_ALL_S)):
                    found.add((await anext(news)).conversation_id)
            while len(news):
                found.add((await anext(news)).conversation_id)
            return found

        return Entries(self, self._me, after, wait, self._clock)

    def _me(self) -> str:
        return self.user_id

    def messages(self, conversation_id: str, *, own: bool = False) -> Stream[Message]:
        """Open a stream of new messages of one conversation, each once, in order. `own` includes those of this user."""
        checked_id(conversation_id)

        def pick(event: Event) -> Message | None:
            if not isinstance(event, MessageNew) or event.conversation_id != conversation_id:
                return None
            message = event.message
            is_wanted = message.kind == "message" and (own or message.sender_id != self.user_id)
            return message if is_wanted else None

        return self._device.streams.open(pick)

    # --- sends and marks ---

    async def send(
        self,
        conversation_id: str,
        text: str = "",
        *,
        data: dict[str, Any] | None = None,
        reply_to: int | None = None,
        is_silent: bool = False,
        files: Sequence[str | Path] = (),
        on_progress: OnProgress | None = None,
        ttl_s: int | None = None,
        mentions: Sequence[str] = (),
        mention: Mention | None = None,
        thread_seq: int | None = None,
        also_here: bool = False,
        message_id: str | None = None,
        ts: int | None = None,
    ) -> Sent:
        """Return when the message is stored, numbered and counted, however often the connection is lost meanwhile.

        `files` are paths. They are uploaded first, in the turn of the message; `on_progress` is called with the bytes
        of a file that were sent and all its bytes. Raises the Problem that refuses the message for good. A caller that
        stops waiting does not take the message back; `abandon` does, and ends its upload.
        """
        message_id = self._clock.random_id() if message_id is None else message_id
        ts = self._clock.now_ms() if ts is None else ts
        draft = Draft(
            conversation_id,
            message_id,
            text,
            ts,
            data,
            is_silent,
            reply_to,
            ttl_s=ttl_s,
            paths=_absolute(files),
            mentions=tuple(checked_ids(mentions, "mentions")),
            mention=mention,
            thread_seq=thread_seq,
            also_here=also_here,
        )
        if on_progress is not None:
            self._progress[conversation_id, message_id] = on_progress
        try:
            return await asyncio.shield(self._device.sender.submit(draft))
        finally:
            self._progress.pop((conversation_id, message_id), None)

    async def _upload(self, draft: Draft, path: str) -> str:
        progress = self._progress.get((draft.conversation_id, draft.message_id))
        return await upload(self._rest, self._clock, draft.conversation_id, path, progress)

    def streaming(
        self,
        conversation_id: str,
        text: str = "",
        *,
        data: dict[str, Any] | None = None,
        reply_to: int | None = None,
        is_silent: bool = False,
        message_id: str | None = None,
    ) -> Streaming:
        """Write a message piece by piece: `async with client.streaming(id) as out: await out.write(token)`.

        A message_id such as `re-42` makes an answer to entry 42 come once, however many programs answer.
        """
        message_id = self._clock.random_id() if message_id is None else message_id
        begin = Begin(
            conversation_id=conversation_id,
            message_id=message_id,
            text=text,
            ts=self._clock.now_ms(),
            data=data,
            silent=is_silent,
            reply_to=reply_to,
        )
        draft = Draft(conversation_id, message_id, text, begin.ts, data, is_silent, reply_to)
        return Streaming(
            self._session,
            begin,
            lambda: self.hello.connection_id if self.hello is not None else None,
            lambda sent: self._device.reading.sent(draft, sent, self.user_id),
        )

    def abandon(self, conversation_id: str, message_id: str) -> bool:
        """Stop sending a message; False when there is no such send.

        Raises ConnectionError after the end of the client: the next client with the same `drafts` sends it or
        abandons it.
        """
        return self._device.sender.abandon(conversation_id, message_id)

    async def react(self, conversation_id: str, seq: int, key: str) -> Reacted:
        """React to a message. The same reaction twice is once. The entry follows as an event."""
        return await self._react(conversation_id, seq, key, is_on=True)

    async def unreact(self, conversation_id: str, seq: int, key: str) -> Reacted:
        return await self._react(conversation_id, seq, key, is_on=False)

    async def _react(self, conversation_id: str, seq: int, key: str, *, is_on: bool) -> Reacted:
        frame = Reaction(conversation_id=conversation_id, seq=seq, key=checked_key(key), on=is_on)
        return await self._session.request(frame, Reacted)

    def typing(self, conversation_id: str, is_typing: bool = True) -> None:
        """Show others that the user types. True holds for 7 s; repeat it meanwhile. Dropped while not connected."""
        self._session.send(SetTyping(conversation_id=conversation_id, typing=is_typing))

    async def watch(self, *conversation_ids: str) -> None:
        """Receive typing and presence of these conversations, also after a reconnect. Replaces earlier ones."""
        await self._device.watch(list(conversation_ids))

    async def mark_read(
        self, conversation_id: str, up_to_seq: int | None = None, *, seqs: Sequence[int] | None = None
    ) -> ReadState:
        """Mark as read up to a seq, or only these seqs. Without either, mark every entry that this client received."""
        if seqs is not None:
            check_one_mark(up_to_seq, seqs)
            return self._device.counted(await self._device.marks.read_seqs(conversation_id, list(seqs)))
        if up_to_seq is None:
            up_to_seq = self.seqs().get(conversation_id, INTEGER_MAX)
        return self._device.counted(await self._device.marks.read(conversation_id, up_to_seq))

    async def mark_unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return self._device.counted(await self._device.marks.unread(conversation_id, from_seq))

    # --- pages over the connection instead of REST ---

    async def _inbox(self, asked: InboxQuery) -> InboxPage:
        return await self._session.request(Inbox(**msgspec.structs.asdict(asked)), InboxPage)

    async def _page(self, conversation_id: str, asked: HistoryQuery) -> HistoryPage:
        frame = History(conversation_id=conversation_id, **msgspec.structs.asdict(asked))
        return await self._session.request(frame, HistoryPage)


def _absolute(paths: Sequence[str | Path]) -> tuple[str, ...]:
    """A later run of the program, in another folder, may have to find the files."""
    return tuple(os.path.abspath(path) for path in checked_paths(paths))
