"""One user's device, connected: what it sends is stored once and in order, what it is told comes once and in order.

What a program calls. device.py joins the parts that do it; everything that needs no connection is REST, by account.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, get_args, overload

from tidings.bounds import CLIENT_CLOSE_S, CLIENT_FIRST_S, PAGE_DEFAULT
from tidings.clock import Clock
from tidings.gateway.protocol import INTEGER_MAX, History, Inbox, Typing, check_one_mark
from tidings.sdk.account import Account
from tidings.sdk.device import Device
from tidings.sdk.drafts import Draft, Drafts, MemoryDrafts
from tidings.sdk.events import Event, Hello, MessageNew
from tidings.sdk.forms import checked_id
from tidings.sdk.rest import Pool, Rest
from tidings.sdk.streams import Stream
from tidings.sdk.tokens import Tokens, TokenSource
from tidings.sdk.values import HistoryPage, InboxPage, Message, ReadState, Sent

E = TypeVar("E")


class Client(Account):
    """`token` is a string or a callback that gives a fresh one. `device` names this device: without it each connection
    is one of its own. `drafts` keeps unanswered sends; `resume` (conversation -> last seq that the program has) and
    `since` (its time in ms) continue an earlier run."""

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

        super().__init__(Rest(Pool(url), headers, clock, tokens.renew if tokens.is_renewable else None), clock)
        self._device = Device(url, tokens, clock, device, drafts or MemoryDrafts(), dict(resume or {}), since)
        self._session = self._device.session

    # --- its life ---

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Returns at the first hello; from then on the client comes back by itself. Raises Stopped when the server
        does not want it, ConnectionError when no server was found in time."""
        self._session.start()
        try:
            async with asyncio.timeout(CLIENT_FIRST_S):
                await self._session.up()
        except TimeoutError:
            trouble = self._session.trouble
            await self.close()
            raise ConnectionError(f"not connected within {CLIENT_FIRST_S:g} s: {trouble}") from trouble
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Waits a moment for unanswered sends. What is in `drafts` then is sent by the next client that has them."""
        if self._session.is_up:
            try:
                async with asyncio.timeout(CLIENT_CLOSE_S):
                    await self._device.sender.flushed()
            except TimeoutError:
                pass  # the server does not answer; a file keeps what was not sent
        await self._device.close()
        await self._rest.close()

    @property
    def is_connected(self) -> bool:
        return self._session.is_up

    @property
    def hello(self) -> Hello | None:
        """What the server said last when it welcomed us."""
        return self._device.hello

    @property
    def user_id(self) -> str:
        """Who the token says we are: known from the first hello on."""
        return self._device.user_id

    @property
    def total_unread(self) -> int | None:
        """The badge, as last heard."""
        return self._device.total_unread

    @property
    def unanswered_count(self) -> int:
        """Sends that the server has not answered yet."""
        return len(self._device.sender)

    def seqs(self) -> dict[str, int]:
        """The last seq told of each conversation: what to pass as `resume` next time."""
        return self._device.reading.tracks.seqs()

    # --- what it is told ---

    @overload
    def events(self) -> Stream[Event]: ...
    @overload
    def events(self, *kinds: type[E]) -> Stream[E]: ...
    def events(self, *kinds: type[Any]) -> Stream[Any]:
        """Everything from now on, or only these kinds. Call it in time: what came before is not told."""
        for kind in kinds:
            if not (isinstance(kind, type) and any(issubclass(event, kind) for event in get_args(Event))):
                raise TypeError(f"not a kind of event: {kind!r} (a class of tidings.sdk.events)")
        return self._device.streams.open(lambda event: event if not kinds or isinstance(event, kinds) else None)

    def messages(self, conversation_id: str, *, own: bool = False) -> Stream[Message]:
        """New messages of one conversation, each once, in order; one's own only where asked for."""
        checked_id(conversation_id)

        def pick(event: Event) -> Message | None:
            if not isinstance(event, MessageNew) or event.conversation_id != conversation_id:
                return None
            message = event.message
            is_wanted = message.kind == "message" and (own or message.sender_id != self.user_id)
            return message if is_wanted else None

        return self._device.streams.open(pick)

    # --- what it says ---

    async def send(
        self, conversation_id: str, text: str, *, message_id: str | None = None, ts: int | None = None
    ) -> Sent:
        """Returns when it is stored, numbered and counted, however often the connection goes meanwhile. Raises the
        Problem that refuses it for good. Giving up waiting does not take it back; `abandon` does."""
        message_id = self._clock.random_id() if message_id is None else message_id
        draft = Draft(conversation_id, message_id, text, self._clock.now_ms() if ts is None else ts)
        return await asyncio.shield(self._device.sender.submit(draft))

    def abandon(self, conversation_id: str, message_id: str) -> bool:
        """Do not send it again. False when there is no such send. Raises ConnectionError after the client's end:
        what `drafts` keeps then is the next client's to send, or to abandon."""
        return self._device.sender.abandon(conversation_id, message_id)

    def typing(self, conversation_id: str, is_typing: bool = True) -> None:
        """True for 7 s; said again while it lasts. Nobody waits for it, so it is dropped while not connected."""
        self._session.tell(Typing(conversation_id=conversation_id, typing=is_typing))

    async def watch(self, *conversation_ids: str) -> None:
        """These are on screen: their typing and presence are told, also after a reconnect. Replaces earlier ones."""
        await self._device.watch(list(conversation_ids))

    async def mark_read(
        self, conversation_id: str, up_to_seq: int | None = None, *, seqs: Sequence[int] | None = None
    ) -> ReadState:
        """Up to a seq (unless told: all that this client was told of), or only these."""
        if seqs is not None:
            check_one_mark(up_to_seq, None, seqs)
            return self._device.counted(await self._device.marks.read_seqs(conversation_id, list(seqs)))
        if up_to_seq is None:
            up_to_seq = self.seqs().get(conversation_id, INTEGER_MAX)
        return self._device.counted(await self._device.marks.read(conversation_id, up_to_seq))

    async def mark_unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return self._device.counted(await self._device.marks.unread(conversation_id, from_seq))

    # --- what it asks ---

    async def inbox(self, *, limit: int = PAGE_DEFAULT, cursor: str | None = None) -> InboxPage:
        return await self._session.insist(Inbox(limit=limit, cursor=cursor), InboxPage)

    async def page(
        self,
        conversation_id: str,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        around_seq: int | None = None,
        is_first_unread: bool = False,
        limit: int = PAGE_DEFAULT,
    ) -> HistoryPage:
        frame = History(
            conversation_id=conversation_id,
            before_seq=before_seq,
            after_seq=after_seq,
            around_seq=around_seq,
            anchor="first_unread" if is_first_unread else None,
            limit=limit,
        )
        return await self._session.insist(frame, HistoryPage)
