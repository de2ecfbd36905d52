"""Requests in the documented form: the structs of frames, queries and bodies, and the checks before anything is sent.

The client refuses a request that the server would refuse, in the same words, and sends nothing. Ids and numbers may be
user input, so `path_of` builds every path and no part of a path can lead elsewhere. The structs repeat those of the
server; a test compares names and types of their fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings_client.bounds import (
    ACKS_MAX,
    FILES_PER_MESSAGE_MAX,
    FRAME_BYTES_MAX,
    HTTP_BODY_BYTES_MAX,
    MEMBERS_BULK_MAX,
    MEMBERS_NAMED_MAX,
    MENTIONS_MAX,
    NAME_CHARS_MAX,
    PAGE_DEFAULT,
    READ_SEQS_MAX,
    RESUME_CONVERSATIONS_MAX,
    URL_CHARS_MAX,
)
from tidings_client.contents import check_content, check_patch
from tidings_client.errors import BadCursor, BadRequest, Problem, TooLarge

INTEGER_MAX = 2**53 - 1  # every JSON reader keeps integers up to this exactly; the highest seq and the latest time
DATE_MAX = 8_640_000_000_000_000  # the latest time that a JavaScript Date can show

# `(?![\s\S])` is the end of the text in every dialect; `$` would allow a trailing newline in Python.
_END = r"(?![\s\S])"
_ID_PATTERN = rf"^(?!\.{{1,2}}{_END})[A-Za-z0-9_.@-]{{1,128}}{_END}"  # a path could not name `.` or `..`
_USER_ID_PATTERN = _ID_PATTERN.replace("_.@-", "_.@|+:=~-")
_MESSAGE_ID_PATTERN = rf"^[A-Za-z0-9_-]{{1,64}}{_END}"

ConversationKind = Literal["direct", "group", "channel"]
HistoryRule = Literal["joined", "all"]
Role = Literal["owner", "admin", "member"]
Anchor = Literal["first_unread", "first_mention"]
Id = Annotated[str, Meta(pattern=_ID_PATTERN)]
UserId = Annotated[str, Meta(pattern=_USER_ID_PATTERN)]
MessageId = Annotated[str, Meta(pattern=_MESSAGE_ID_PATTERN)]
Integer = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Seq = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Millis = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Timestamp = Annotated[int, Meta(ge=0, le=DATE_MAX)]
Limit = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Cursor = Annotated[str, Meta(max_length=512)]
Mentions = Annotated[list[UserId], Meta(max_length=MENTIONS_MAX)]
Mention = Literal["all", "here"]
Notify = Literal["all", "mentions", "none"]
InboxFilter = Literal["unread", "mentions", "pinned", "archived", "muted"]
Data = Annotated[dict[str, Any], Meta(description="The application's own.")]
FileIds = Annotated[tuple[MessageId, ...], Meta(max_length=FILES_PER_MESSAGE_MAX)]
Seqs = Annotated[list[Seq], Meta(min_length=1, max_length=READ_SEQS_MAX)]
TtlS = Annotated[int, Meta(ge=5, le=366 * 86_400)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Url = Annotated[
    str,
    Meta(
        max_length=URL_CHARS_MAX,
        pattern=r"^(https?://[^\s<>\"']+|/v1/pictures/[0-9a-f]{32}/[0-9a-f]{32})(?![\s\S])",
    ),
]


class Frame(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """A frame of the client. The answer repeats `id`; a frame without one gets no answer."""

    id: Integer | None = None


class Connect(Frame, frozen=True, tag="connect"):
    token: str
    device: Id | None = None
    resume: Annotated[dict[Id, Seq], Meta(max_length=RESUME_CONVERSATIONS_MAX)] = {}
    since: Millis | None = None


class Send(Frame, frozen=True, tag="message.send", omit_defaults=True):
    conversation_id: Id
    message_id: MessageId
    text: str = ""
    ts: Timestamp | None = None
    data: Data | None = None
    silent: bool = False
    reply_to: Seq | None = None
    files: FileIds = ()
    ttl_s: TtlS | None = None
    mentions: Mentions = []
    mention: Mention | None = None
    thread_seq: Seq | None = None
    also_here: bool = False


class Begin(Send, frozen=True, tag="message.begin"):
    pass


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
    seqs: Seqs | None = None


class Unread(Frame, frozen=True, tag="message.unread"):
    conversation_id: Id
    from_seq: Seq


class Inbox(Frame, frozen=True, tag="inbox", omit_defaults=True):
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor | None = None
    filter: InboxFilter | None = None
    kind: ConversationKind | None = None


class History(Frame, frozen=True, tag="history"):
    conversation_id: Id
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = PAGE_DEFAULT


class Watch(Frame, frozen=True, tag="watch"):
    conversation_ids: Annotated[list[Id], Meta(max_length=RESUME_CONVERSATIONS_MAX)]


class SetTyping(Frame, frozen=True, tag="typing"):
    conversation_id: Id
    typing: bool


class Refresh(Frame, frozen=True, tag="auth.refresh"):
    token: str


class Ping(Frame, frozen=True, tag="ping"):
    pass


# --- REST queries and bodies ----------------------------------------------------------------------


class InboxQuery(msgspec.Struct, frozen=True):
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor | None = None
    filter: InboxFilter | None = None
    kind: ConversationKind | None = None


class HistoryQuery(msgspec.Struct, frozen=True):
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = PAGE_DEFAULT


class FlagsBody(msgspec.Struct, frozen=True):
    muted: bool | None = None
    pinned: bool | None = None
    archived: bool | None = None
    muted_until: Timestamp | UnsetType | None = UNSET
    notify: Notify | None = None


class NewConversation(msgspec.Struct, frozen=True):
    kind: ConversationKind
    members: Annotated[list[UserId], Meta(max_length=MEMBERS_NAMED_MAX)] = []
    name: Name | None = None
    avatar_url: Url | None = None
    history: HistoryRule | None = None
    client_id: MessageId | None = None


class ConversationPatch(msgspec.Struct, frozen=True):
    name: Name | UnsetType | None = UNSET


class NewMembers(msgspec.Struct, frozen=True):
    user_ids: Annotated[list[UserId], Meta(min_length=1, max_length=MEMBERS_BULK_MAX)]


class RolePatch(msgspec.Struct, frozen=True):
    role: Role


class NewMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    message_id: MessageId | None = None
    text: str = ""
    ts: Timestamp | None = None
    data: Data | None = None
    silent: bool = False
    reply_to: Seq | None = None
    files: FileIds = ()
    ttl_s: TtlS | None = None
    mentions: Mentions = []
    mention: Mention | None = None
    thread_seq: Seq | None = None
    also_here: bool = False


class MessagePatch(msgspec.Struct, frozen=True):
    text: str | UnsetType = UNSET
    data: Data | UnsetType | None = UNSET
    mentions: Mentions | UnsetType = UNSET
    mention: Mention | UnsetType | None = UNSET
    message_id: MessageId | None = None


class MessageDelete(msgspec.Struct, frozen=True):
    message_id: MessageId | None = None


class ReadMark(msgspec.Struct, frozen=True, omit_defaults=True):
    up_to_seq: Seq | None = None
    seqs: Seqs | None = None
    thread_seq: Seq | None = None
    threads: bool = False


class UnreadMark(msgspec.Struct, frozen=True, omit_defaults=True):
    from_seq: Seq
    thread_seq: Seq | None = None


class ProfilePut(msgspec.Struct, frozen=True):
    name: Name | None = None
    avatar_url: Url | None = None


# --- the request as bytes or text -----------------------------------------------------------------


def encode(frame: Frame) -> bytes:
    """Encode a frame, and refuse a frame that is too long: the server would close the socket."""
    return _short(_encode(frame), FRAME_BYTES_MAX, "frame")


def check(frame: Frame) -> None:
    """Refuse a frame that the server would refuse for good."""
    _check_types(frame)
    if isinstance(frame, Begin):
        check_patch(frame.text, frame.data)
    elif isinstance(frame, Send):
        check_content(frame.text, frame.data, frame.files)
    elif isinstance(frame, Read):
        check_one_mark(frame.up_to_seq, frame.seqs)
    elif isinstance(frame, History):
        check_one_place(frame.before_seq, frame.after_seq, frame.around_seq, frame.anchor)
    encode(frame)


def body_of(asked: msgspec.Struct) -> bytes:
    """Encode a REST body after its checks."""
    _check_types(asked)
    if isinstance(asked, NewMessage):
        check_content(asked.text, asked.data, asked.files)
    elif isinstance(asked, MessagePatch):
        check_patch(asked.text, asked.data, asked.mentions, asked.mention)
    return _short(_encode(asked), HTTP_BODY_BYTES_MAX, "body")


def query_of(asked: msgspec.Struct) -> dict[str, Any]:
    """Make the parameters of a query after its checks. A field that is None is left out."""
    _check_types(asked)
    return {name: value for name, value in msgspec.json.decode(_encode(asked)).items() if value is not None}


def path_of(*parts: str | int) -> str:
    """Build `/v1/` and the parts: words, ids, and seqs as numbers."""
    return "/v1/" + "/".join(
        _checked_seq(part) if isinstance(part, int) else quote(checked_id(part), safe="@:") for part in parts
    )


def _encode(asked: msgspec.Struct) -> bytes:
    try:
        return msgspec.json.encode(asked)
    except UnicodeEncodeError as problem:
        raise _refusal_of(problem) from None


def _short(raw: bytes, bytes_max: int, name: str) -> bytes:
    if len(raw) > bytes_max:
        raise TooLarge(f"a {name} has {bytes_max} bytes at most")
    return raw


def _check_types(asked: msgspec.Struct) -> None:
    """Check the values and not the encoded text: bytes, dates and UUIDs would become strings that nobody meant."""
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
    try:
        msgspec.convert(given, type(asked))
    except msgspec.ValidationError as problem:
        raise _refusal_of(problem) from None


# --- checks ---------------------------------------------------------------------------------------

_CURSOR_FIELDS = ("`$.before_seq`", "`$.after_seq`", "`$.around_seq`", "`$.cursor`")
_REASON_CHARS_MAX = 200  # a reason names the field; it need not repeat a long value
_WORDS = {  # the meaning of each pattern, for the reader of a refusal
    f"`str` matching regex {_ID_PATTERN!r}": "an id, 1-128 of A-Z a-z 0-9 _ . @ - and not . or ..",
    f"`str` matching regex {_USER_ID_PATTERN!r}": "a user id, 1-128 of A-Z a-z 0-9 _ . @ | + : = ~ - and not . or ..",
    f"`str` matching regex {_MESSAGE_ID_PATTERN!r}": "a message_id, 1-64 of A-Z a-z 0-9 _ -",
}


def checked_id(text: str) -> str:
    """Return a user or conversation id, or refuse the text."""
    try:
        if isinstance(text, str):
            return msgspec.convert(text, UserId)
    except msgspec.ValidationError:
        pass
    raise BadRequest(f"not an id: {str(text)[:40]!r}")


def checked_ids(ids: Sequence[str], name: str) -> list[str]:
    """Return a list of ids. A string is refused, because it is a sequence of its letters."""
    if isinstance(ids, str):
        raise BadRequest(f"{name} is a list of ids, not one id")
    return list(ids)


def checked_credential(text: str, name: str) -> str:
    """Return a token or key that a header can carry. The error does not repeat the text."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is a string, not {type(text).__name__}")
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{name} has a character that no header can carry; perhaps a line end")
    return text


def check_one_mark(*ways: object) -> None:
    """Refuse a read mark that does not say exactly one of: up to a seq, these seqs."""
    if ways.count(None) != len(ways) - 1:
        raise BadRequest("exactly one of up_to_seq, up_to_ts, seqs")


def check_one_place(*ways: object) -> None:
    """Refuse a page of history that starts at two places. Without a place it is the newest page."""
    if ways.count(None) < len(ways) - 1:
        raise BadRequest("at most one of before_seq, after_seq, around_seq, anchor")


def _checked_seq(number: int) -> str:
    if not 0 <= number <= INTEGER_MAX:
        raise BadRequest("not a seq")
    return str(int(number))


def _refusal_of(problem: Exception) -> Problem:
    """Say in the words of the protocol what the decoder found."""
    reason = str(problem)
    for pattern, words in _WORDS.items():
        reason = reason.replace(pattern, words)
    kind: type[Problem] = BadCursor if reason.endswith(_CURSOR_FIELDS) else BadRequest
    return kind(reason[:_REASON_CHARS_MAX])
