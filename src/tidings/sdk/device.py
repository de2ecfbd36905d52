"""The parts of a client, joined: who is told what, in the order it was heard.

session.py connects and comes back, sender.py sends, reading.py puts entries in order, marks.py says what was received
and read, streams.py hands events to the program. The session's Owner; client.py stands on it.
"""

from __future__ import annotations

from tidings.bounds import CLIENT_SINCE_SLACK_S
from tidings.clock import Clock
from tidings.gateway.protocol import Connect, Watch
from tidings.sdk import wire
from tidings.sdk.drafts import Draft, Drafts
from tidings.sdk.events import (
    Connected,
    ConversationAdded,
    ConversationRemoved,
    ConversationUpdated,
    Hello,
    Interrupted,
    MessageNew,
    ReadSynced,
    Resumed,
    ServerEvent,
)
from tidings.sdk.marks import Acks, Marks
from tidings.sdk.reading import Reading
from tidings.sdk.refusals import Disconnected
from tidings.sdk.sender import Sender
from tidings.sdk.session import Nothing, Session
from tidings.sdk.streams import Streams
from tidings.sdk.tokens import Tokens
from tidings.sdk.tracks import Tracks
from tidings.sdk.values import ReadState, Sent


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
    ) -> None:
        self._clock = clock
        self._name = name
        self.session = Session(url, tokens, clock, self)
        self.streams = Streams(self.session.balance_soon)
        self.sender = Sender(self.session, drafts, clock, self._sent)
        self.reading = Reading(self.session, Tracks(resume), self._tell_entry, since)
        self.marks = Marks(self.session)
        self._acks = Acks(self.session)
        self._watched: list[str] = []
        self._since_ms = since  # until then this client knows what changed
        self._welcomed_s = 0.0
        self.hello: Hello | None = None
        self.total_unread: int | None = None
        wire.check(self.connect_frame(""))

    @property
    def user_id(self) -> str:
        if self.hello is None:
            raise Disconnected("not connected yet: the first hello says who we are")
        return self.hello.user_id

    async def watch(self, conversation_ids: list[str]) -> None:
        frame = Watch(conversation_ids=conversation_ids)
        wire.check(frame)
        self._watched = conversation_ids
        await self.session.insist(frame, Nothing)

    async def close(self) -> None:
        self._acks.flush()
        await self._acks.stop()
        await self.reading.stop()
        await self.session.stop()

    def counted(self, state: ReadState) -> ReadState:
        self._count(state.total_unread)
        return state

    # --- Owner: what the session tells ---

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
        self.streams.tell(Connected(hello, is_new_store))
        if self._watched:
            self.session.tell(Watch(conversation_ids=self._watched))
        self.sender.pump()

    def heard(self, event: ServerEvent) -> None:
        if isinstance(event, MessageNew):
            self._count(event.total_unread)
            self.reading.take(event)
            return
        self.streams.tell(event)
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

    def interrupted(self, code: int | None, retry_in_s: float, heard_s: float | None) -> None:
        if heard_s is not None:
            self._know_until(heard_s)
        self.sender.interrupted()
        self.streams.tell(Interrupted(code, retry_in_s))

    def ended(self, error: BaseException) -> None:
        self.sender.end(error)
        self.streams.end(StopAsyncIteration() if isinstance(error, Disconnected) else error)

    def is_full(self) -> bool:
        return self.streams.is_full

    # --- the parts' own ---

    def _sent(self, draft: Draft, sent: Sent) -> None:
        self.reading.sent(draft, sent, self.user_id)

    def _tell_entry(self, event: MessageNew) -> None:
        self.streams.tell(event)
        if event.message.sender_id != self.user_id:
            self._acks.note(event.conversation_id, event.message.seq)

    def _know_until(self, heard_s: float) -> None:
        """A connection ended: all that changed while it lived was told, but a short one may not have got to that."""
        assert self.hello is not None
        lived_s = heard_s - self._welcomed_s
        if lived_s > CLIENT_SINCE_SLACK_S:
            self._since_ms = self.hello.server_time + int((lived_s - CLIENT_SINCE_SLACK_S) * 1000)

    def _count(self, total_unread: int | None) -> None:
        if total_unread is not None:
            self.total_unread = total_unread
