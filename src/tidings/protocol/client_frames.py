"""The frames that a client sends over the WebSocket: one struct each, decoded and validated without I/O.

The structs are the one definition: the decoder checks them, and /asyncapi.json is made from them. An unknown field of
`message.send` is refused by name, so that nothing that a person meant to send is lost in silence. In other frames
unknown fields are ignored. Of a repeated key the last one counts. A frame that is not of the documented form raises a
`Problem`. Ids are safe inside keys once a frame is decoded.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidings.bounds import (
    ACKS_MAX,
    DATA_BYTES_MAX,
    DATA_DEPTH_MAX,
    REACTION_KEY_BYTES_MAX,
    RESUME_CONVERSATIONS_MAX,
    TEXT_BYTES_MAX,
)
from tidings.errors import BadCursor, BadRequest, Problem, TooLarge
from tidings.model import ConversationKind
from tidings.protocol.types import (
    DATA_INTEGER_MAX,
    WORDS,
    Anchor,
    Cursor,
    Data,
    FileIds,
    Id,
    InboxFilter,
    Integer,
    Limit,
    Mention,
    Mentions,
    MessageId,
    Millis,
    ReactionKey,
    Seq,
    Seqs,
    Timestamp,
    TtlS,
    is_name,
)


class Frame(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """A request carries an `id`, which the answer echoes. A request without an `id` gets no answer."""

    id: Integer | None = None


class Connect(Frame, frozen=True, tag="connect"):
    token: str
    device: Id | None = None
    resume: Annotated[dict[Id, Seq], Meta(max_length=RESUME_CONVERSATIONS_MAX)] = {}
    since: Millis | None = None


class Send(Frame, frozen=True, tag="message.send", forbid_unknown_fields=True):
    """A message. A field that need not be there may be null, which is the same as absent."""

    conversation_id: Id
    message_id: MessageId
    text: str | None = ""
    ts: Timestamp | None = None
    data: Data | None = None
    silent: bool | None = False
    reply_to: Seq | None = None
    files: FileIds | None = ()
    ttl_s: TtlS | None = None
    mentions: Mentions | None = []
    mention: Mention | None = None
    thread_seq: Seq | None = None
    also_here: bool | None = False


class Begin(Send, frozen=True, tag="message.begin"):
    """A message that is written piece by piece. It may begin without a text."""


class Append(Frame, frozen=True, tag="message.append"):
    conversation_id: Id
    message_id: MessageId
    offset: Seq
    text: str


class End(Frame, frozen=True, tag="message.end"):
    conversation_id: Id
    message_id: MessageId
    text: str | None = None


class Abandon(Frame, frozen=True, tag="message.abandon"):
    conversation_id: Id
    message_id: MessageId


class Delivered(Frame, frozen=True, tag="message.delivered"):
    acks: Annotated[dict[Id, Seq], Meta(max_length=ACKS_MAX)]


class Read(Frame, frozen=True, tag="message.read"):
    conversation_id: Id
    up_to_seq: Seq | None = None
    up_to_ts: Millis | None = None
    seqs: Seqs | None = None
    thread_seq: Seq | None = None


class Unread(Frame, frozen=True, tag="message.unread"):
    conversation_id: Id
    from_seq: Seq
    thread_seq: Seq | None = None


class Inbox(Frame, frozen=True, tag="inbox"):
    limit: Limit = 20
    cursor: Cursor | None = None
    filter: InboxFilter | None = None
    kind: ConversationKind | None = None


class History(Frame, frozen=True, tag="history"):
    conversation_id: Id
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = 20
    thread_seq: Seq | None = None


class Reaction(Frame, frozen=True, tag="reaction"):
    conversation_id: Id
    seq: Seq
    key: ReactionKey
    on: bool


class Watch(Frame, frozen=True, tag="watch"):
    conversation_ids: Annotated[list[Id], Meta(max_length=RESUME_CONVERSATIONS_MAX)]


class Typing(Frame, frozen=True, tag="typing"):
    conversation_id: Id
    typing: bool


class Refresh(Frame, frozen=True, tag="auth.refresh"):
    token: str


class Ping(Frame, frozen=True, tag="ping"):
    pass


ClientFrame = (
    Connect
    | Send
    | Begin
    | Append
    | End
    | Abandon
    | Delivered
    | Read
    | Unread
    | Inbox
    | History
    | Reaction
    | Watch
    | Typing
    | Refresh
    | Ping
)


class _IdAlone(msgspec.Struct, gc=False):
    id: Integer | None = None


_frames: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)
_ids = msgspec.json.Decoder(_IdAlone)
_CURSOR_FIELDS = ("`$.before_seq`", "`$.after_seq`", "`$.around_seq`", "`$.cursor`")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_REASON_CHARS_MAX = 200  # a reason names the field and need not repeat a long value


def decode_frame(text: str) -> ClientFrame:
    """The frame. Raises the Problem that says what is wrong with it."""
    try:
        frame = _frames.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise refusal_of(problem) from None
    if type(frame) is Send:
        check_content(frame.text, frame.data, frame.files)
        if frame.also_here:
            check_thread(frame.thread_seq, also_here=True)
    elif type(frame) is Reaction:
        check_reaction_key(frame.key)
    elif type(frame) is Begin:
        check_text(frame.text or "")
        check_data(frame.data or {})
        check_thread(frame.thread_seq, also_here=frame.also_here)
    elif type(frame) is End and frame.text is not None:
        check_text(frame.text)
    elif type(frame) is Read:
        check_one_mark(frame.up_to_seq, frame.up_to_ts, frame.seqs)
    elif type(frame) is History:
        check_one_place(frame.before_seq, frame.after_seq, frame.around_seq, frame.anchor)
        check_thread_place(frame.thread_seq, frame.around_seq, frame.anchor)
    return frame


def id_of(text: str) -> int | None:
    """The `id` of a frame that could not be decoded, as far as it can be read."""
    for readable in (text, _SURROGATE.sub("?", text)):  # half of a surrogate pair makes the whole frame unreadable
        try:
            return _ids.decode(readable).id
        except (msgspec.DecodeError, RecursionError):
            continue
    return None


def refusal_of(problem: Exception) -> Problem:
    """The decoder's error in the words of the protocol."""
    if isinstance(problem, RecursionError):
        return BadRequest("the JSON is nested too deeply")
    reason = str(problem)
    for pattern, words in WORDS.items():
        reason = reason.replace(f"`str` matching regex {pattern!r}", words)
    kind: type[Problem] = BadCursor if reason.endswith(_CURSOR_FIELDS) else BadRequest
    return kind(reason[:_REASON_CHARS_MAX])


def check_content(text: str | None, data: dict[str, Any] | None, files: tuple[str, ...] | None = ()) -> None:
    """Refuse a message that says nothing, or too much."""
    check_text(text or "")
    if data is not None:
        check_data(data)
    if not data and not files and (not text or text.isspace()):
        raise BadRequest("`text` is empty; a message needs a text, `data` or `files`")
    if files and len(set(files)) < len(files):
        raise BadRequest("`files` names a file twice")


def check_text(text: str) -> None:
    """A text is measured in UTF-8 bytes. A character has four at most, so short texts need no encoding."""
    if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode()) > TEXT_BYTES_MAX:
        raise TooLarge(f"`text` has {TEXT_BYTES_MAX} bytes at most")


def check_data(data: dict[str, Any]) -> None:
    """Data is measured as JSON with sorted keys, so that its size depends on nothing but its value."""
    if len(msgspec.json.encode(data, order="sorted")) > DATA_BYTES_MAX:
        raise TooLarge(f"`data` has {DATA_BYTES_MAX} bytes at most")
    level: list[Any] = [data]
    for _ in range(DATA_DEPTH_MAX):
        level = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
        if any(type(one) is int and abs(one) > DATA_INTEGER_MAX for one in level):
            raise BadRequest("`data` has a whole number of more than 64 bits; send it as a text")
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return
    raise BadRequest(f"`data` is nested deeper than {DATA_DEPTH_MAX} levels")


def check_reaction_key(key: str) -> None:
    if not 0 < len(key.encode()) <= REACTION_KEY_BYTES_MAX:
        raise BadRequest(f"`key` has 1 to {REACTION_KEY_BYTES_MAX} bytes")
    if not is_name(key) or any(character.isspace() for character in key):
        raise BadRequest("`key` must have no blanks and no control characters")


def check_thread(thread_seq: int | None, *, also_here: bool | None) -> None:
    if also_here and thread_seq is None:
        raise BadRequest("`also_here` is for a reply; give `thread_seq` too")


def check_one_mark(*ways: object) -> None:
    """A read mark has exactly one of: up to a seq, up to a time, these seqs."""
    if ways.count(None) != len(ways) - 1:
        raise BadRequest("give exactly one of `up_to_seq`, `up_to_ts`, `seqs`")


def check_one_place(*ways: object) -> None:
    """A page of history starts at one place; without one it is the newest page."""
    if ways.count(None) < len(ways) - 1:
        raise BadRequest("give at most one of `before_seq`, `after_seq`, `around_seq`, `anchor`")


def check_thread_place(thread_seq: int | None, *others: object) -> None:
    """A page of a thread begins at `before_seq` or `after_seq`."""
    if thread_seq is not None and others.count(None) < len(others):
        raise BadRequest("with `thread_seq` give `before_seq`, `after_seq` or neither")
