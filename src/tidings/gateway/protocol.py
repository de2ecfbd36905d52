"""What a client may say over the WebSocket: one struct per frame, decoded and validated without I/O.

The structs are the one definition: the decoder checks them, /asyncapi.json is made from them. Unknown fields are
ignored, so nobody can say who the sender is or which number an entry gets. Of a repeated key the last one counts.
Whatever is not of the documented form raises a `Problem`; ids are safe inside keys once a frame is decoded.
dispatch.py calls it for each frame; bodies.py uses the same fields for REST.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.bounds import ACKS_MAX, READ_SEQS_MAX, RESUME_CONVERSATIONS_MAX, TEXT_BYTES_MAX
from tidings.errors import BadCursor, BadRequest, Problem, TooLarge

INTEGER_MAX = 2**53 - 1  # what every JSON reader keeps exactly; also the highest seq and the latest time

# `(?![\s\S])` is the end of the text in every dialect; `$` would let a trailing newline through in Python.
_END = r"(?![\s\S])"
ID_PATTERN = rf"^(?!\.{{1,2}}{_END})[A-Za-z0-9_.@-]{{1,128}}{_END}"  # `.` and `..` could not be named in a path
MESSAGE_ID_PATTERN = rf"^[A-Za-z0-9_-]{{1,64}}{_END}"
Id = Annotated[str, Meta(pattern=ID_PATTERN, description="A user or conversation id.")]
MessageId = Annotated[
    str, Meta(pattern=MESSAGE_ID_PATTERN, description="Made by the client; the key of a safe resend.")
]
Integer = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Seq = Annotated[int, Meta(ge=0, le=INTEGER_MAX, description="A position in a conversation's log.")]
Millis = Annotated[int, Meta(ge=0, le=INTEGER_MAX, description="Milliseconds since 1970, UTC.")]
Limit = Annotated[int, Meta(ge=1, le=INTEGER_MAX, description="Entries wanted; above 100 it is 100.")]
Cursor = Annotated[str, Meta(max_length=512, description="`next_cursor` of the page before.")]
Seqs = Annotated[list[Seq], Meta(min_length=1, max_length=READ_SEQS_MAX)]
Anchor = Literal["first_unread"]


class Frame(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """A request carries an `id`, which the answer echoes; without one no answer is wanted."""

    id: Integer | None = None


class Connect(Frame, frozen=True, tag="connect"):
    token: str
    device: Id | None = None
    resume: Annotated[dict[Id, Seq], Meta(max_length=RESUME_CONVERSATIONS_MAX)] = {}
    since: Millis | None = None


class Send(Frame, frozen=True, tag="message.send"):
    conversation_id: Id
    message_id: MessageId
    text: str
    ts: Millis | None = None


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


class Unread(Frame, frozen=True, tag="message.unread"):
    conversation_id: Id
    from_seq: Seq


class Inbox(Frame, frozen=True, tag="inbox"):
    limit: Limit = 20
    cursor: Cursor | None = None


class History(Frame, frozen=True, tag="history"):
    conversation_id: Id
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = 20


class Watch(Frame, frozen=True, tag="watch"):
    conversation_ids: Annotated[list[Id], Meta(max_length=RESUME_CONVERSATIONS_MAX)]


class Typing(Frame, frozen=True, tag="typing"):
    conversation_id: Id
    typing: bool


class Refresh(Frame, frozen=True, tag="auth.refresh"):
    token: str


class Ping(Frame, frozen=True, tag="ping"):
    pass


ClientFrame = Connect | Send | Abandon | Delivered | Read | Unread | Inbox | History | Watch | Typing | Refresh | Ping


class _IdAlone(msgspec.Struct, gc=False):
    id: Integer | None = None


_frames: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)
_ids = msgspec.json.Decoder(_IdAlone)

_CURSOR_FIELDS = ("`$.before_seq`", "`$.after_seq`", "`$.around_seq`", "`$.cursor`")
_REASON_CHARS_MAX = 200  # a reason names the field; it need not repeat a long value
_WORDS = {  # what a pattern means, for who reads a refusal
    f"`str` matching regex {ID_PATTERN!r}": "an id, 1-128 of A-Z a-z 0-9 _ . @ - and not . or ..",
    f"`str` matching regex {MESSAGE_ID_PATTERN!r}": "a message_id, 1-64 of A-Z a-z 0-9 _ -",
}


def decode_frame(text: str) -> ClientFrame:
    """The frame, or the Problem that says what is wrong with it."""
    try:
        frame = _frames.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise refusal_of(problem) from None
    if type(frame) is Send:
        check_text(frame.text)
    elif type(frame) is Read:
        check_one_mark(frame.up_to_seq, frame.up_to_ts, frame.seqs)
    elif type(frame) is History:
        check_one_place(frame.before_seq, frame.after_seq, frame.around_seq, frame.anchor)
    return frame


def id_of(text: str) -> int | None:
    """The `id` of a frame that could not be decoded, as far as it can be read."""
    try:
        return _ids.decode(text).id
    except (msgspec.DecodeError, RecursionError):
        return None


def refusal_of(problem: Exception) -> Problem:
    """What the decoder found, in the protocol's words."""
    if isinstance(problem, RecursionError):
        return BadRequest("nested too deeply")
    reason = str(problem)
    for pattern, words in _WORDS.items():
        reason = reason.replace(pattern, words)
    kind: type[Problem] = BadRequest
    if reason.endswith(_CURSOR_FIELDS):
        kind = BadCursor
    elif " of length <= " in reason:
        kind = TooLarge
    return kind(reason[:_REASON_CHARS_MAX])


def check_text(text: str) -> None:
    """A text is measured in UTF-8 bytes; a character has four at most, so short ones need no encoding."""
    if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode()) > TEXT_BYTES_MAX:
        raise TooLarge(f"a text has {TEXT_BYTES_MAX} bytes at most")


def check_one_mark(*ways: object) -> None:
    """message.read says exactly one of: up to a seq, up to a time, these seqs."""
    if ways.count(None) != len(ways) - 1:
        raise BadRequest("exactly one of up_to_seq, up_to_ts, seqs")


def check_one_place(*ways: object) -> None:
    """A page of history starts at one place; without any it is the newest."""
    if ways.count(None) < len(ways) - 1:
        raise BadRequest("at most one of before_seq, after_seq, around_seq, anchor")
