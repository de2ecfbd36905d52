"""One device: the parts of a client joined, with events passed on in the order in which the socket received them.

session.py connects and reconnects, sender.py sends, reading.py puts entries in order, marks.py sends receipts and read
marks, streams.py hands events to the program. `Device` is the Owner of the session.
"""

from __future__ import annotations

from tidings_client.bounds import SINCE_SLACK_S
from tidings_client.clock import Clock
from tidings_client.connection.session import Session
from tidings_client.connection.tokens import Tokens
from tidings_client.errors import Disconnected
from tidings_client.forms import Connect, Watch, check
from tidings_client.reading.marks import Acks, Marks
from tidings_client.reading.reading import Reading, Tracks
from tidings_client.reading.streams import Streams
from tidings_client.sending.drafts import Draft, Drafts
from tidings_client.sending.sender import Sender, Upload
from tidings_client.values import (
    Connected,
    ConversationAdded,
    ConversationRemoved,
    ConversationUpdated,
    Hello,
    Interrupted,
    MessageNew,
    Nothing,
    ReadState,
    ReadSynced,
    Resumed,
    Sent,
    ServerEvent,
)


class Device:
    def __init__(
        self,
        url: str,
        tokens: Tokens,
        clock: Clock,
        name: str | None,
        drafts: Drafts,
        resume: dict[str, int],
        since: int | None,
        upload: Upload,
    ) -> None:
        self._clock = clock
        self._name = name
        self.session = Session(url, tokens, clock, self)
        self.streams = Streams(self.session.balance_soon)
        self.sender = Sender(self.session, drafts, clock, self._sent, upload)
        self.reading = Reading(self.session, Tracks(resume), self._publish_entry, since)
        self.marks = Marks(self.session)
        self._acks = Acks(self.session, clock)
        self._watched: list[str] = []
        self._since_ms = since  # this client knows everything that changed before it
        self._welcomed_s = 0.0
        self.hello: Hello | None = None
        self.total_unread: int | None = None
        check(self.connect_frame(""))

    @property
    def user_id(self) -> str:
        if self.hello is None:
            raise Disconnected("not connected yet: the first hello names the user")
        return self.hello.user_id

    async def watch(self, conversation_ids: list[str]) -> None:
        frame = Watch(conversation_ids=conversation_ids)
        check(frame)
        self._watched = conversation_ids
        await self.session.request(frame, Nothing)

    async def close(self) -> None:
        self._acks.flush()
        await self._acks.stop()
        await self.reading.stop()
        await self.session.stop()

    def counted(self, state: ReadState) -> ReadState:
        self._count(state.total_unread)
        return state

    # --- the Owner of the session ---

    def connect_frame(self, token: str) -> Connect:
        resume = self.reading.tracks.resume()
        return Connect(token=token, device=self._name, resume=resume, since=self._since_ms)

    def welcomed(self, hello: Hello) -> None:
        is_new_store = self.hello is not None and self.hello.store_epoch != hello.store_epoch
        self.hello = hello
        self.total_unread = hello.total_unread
        self._welcomed_s = self._clock.monotonic_s()
        self.reading.welcomed(hello.server_time, self._since_ms, is_new_store)
        if self._since_ms is None or is_new_store:
            self._since_ms = hello.server_time
        self.streams.put(Connected(hello, is_new_store))
        if self._watched:
            self.session.send(Watch(conversation_ids=self._watched))
        self.sender.pump()

    def received(self, event: ServerEvent) -> None:
        if isinstance(event, MessageNew):
            self._count(event.total_unread)
            self.reading.take(event)
            return
        self.streams.put(event)
        if isinstance(event, Resumed):
            self.reading.resumed(event)
        elif isinstance(event, ConversationUpdated):
            self.reading.updated(event)
        elif isinstance(event, ConversationAdded):
            self.reading.compare(event)
        elif isinstance(event, ConversationRemoved):
            self.reading.removed(event.conversation_id)
        elif isinstance(event, ReadSynced):
            self._count(event.total_unread)

    def interrupted(self, code: int | None, retry_in_s: float, alive_s: float | None) -> None:
        if alive_s is not None:
            self._know_until(alive_s)
        self.sender.interrupted()
        self.streams.put(Interrupted(code, retry_in_s))

    def ended(self, error: BaseException) -> None:
        self.sender.end(error)
        self.streams.end(StopAsyncIteration() if isinstance(error, Disconnected) else error)

    def is_full(self) -> bool:
        return self.streams.is_full

    # --- between the parts ---

    def _sent(self, draft: Draft, sent: Sent) -> None:
        self.reading.sent(draft, sent, self.user_id)

    def _publish_entry(self, event: MessageNew) -> None:
        self.streams.put(event)
        if event.message.sender_id != self.user_id:
            self._acks.record(event.conversation_id, event.message.seq)

    def _know_until(self, alive_s: float) -> None:
        """Move `since` after a connection: the server sent every change while it lived. A short one may not have."""
        assert self.hello is not None
        lived_s = alive_s - self._welcomed_s
        if lived_s > SINCE_SLACK_S:
            self._since_ms = self.hello.server_time + int((lived_s - SINCE_SLACK_S) * 1000)

    def _count(self, total_unread: int | None) -> None:
        if total_unread is not None:
            self.total_unread = total_unread
