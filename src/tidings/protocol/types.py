"""Types of fields that frames and bodies share, each with its bounds, and the check of a name that people see."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from msgspec import Meta

from tidings.bounds import (
    FILES_PER_MESSAGE_MAX,
    MEMBERS_NAMED_MAX,
    MENTIONS_MAX,
    NAME_CHARS_MAX,
    READ_SEQS_MAX,
    RETENTION_S_MAX,
    SLOW_S_MAX,
    TTL_S_MAX,
    TTL_S_MIN,
    URL_CHARS_MAX,
)
from tidings.ids import ID_PATTERN, MESSAGE_ID_PATTERN, USER_ID_PATTERN

INTEGER_MAX = 2**53 - 1  # every JSON reader keeps it exactly; also the highest seq and the latest time
DATA_INTEGER_MAX = 2**63 - 1  # in `data`: nodes tell each other whole numbers of 64 bits
DATE_MAX = 8_640_000_000_000_000  # the latest time that a JavaScript Date can show; a client would fail at a later one

WORDS: dict[str, str] = {}  # a pattern -> what it asks for


def shaped(pattern: str, words: str, **more: Any) -> Meta:
    """A text of this pattern. A refusal says it in these words."""
    WORDS[pattern] = words
    return Meta(pattern=pattern, **more)


# --- ids, numbers and times -----------------------------------------------------------------------

_ID = shaped(
    ID_PATTERN,
    "an id, 1-128 of A-Z a-z 0-9 _ . @ - and not . or ..",
    description="The id of a conversation or device.",
)
_USER_ID = shaped(
    USER_ID_PATTERN,
    "a user id, 1-128 of A-Z a-z 0-9 _ . @ | + : = ~ - and not . or ..",
    description="A user id.",
)
_MESSAGE_ID = shaped(
    MESSAGE_ID_PATTERN,
    "a message_id, 1-64 of A-Z a-z 0-9 _ -",
    description="Made by the client; the key of a safe resend.",
)
Id = Annotated[str, _ID]
UserId = Annotated[str, _USER_ID]
MessageId = Annotated[str, _MESSAGE_ID]
Integer = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Seq = Annotated[int, Meta(ge=0, le=INTEGER_MAX, description="A position in a conversation's log.")]
Millis = Annotated[int, Meta(ge=0, le=INTEGER_MAX, description="Milliseconds since 1970, UTC.")]
Timestamp = Annotated[int, Meta(ge=0, le=DATE_MAX, description="The sender's own time, in milliseconds since 1970.")]
Limit = Annotated[int, Meta(ge=1, le=INTEGER_MAX, description="Entries wanted; above 100 it is 100.")]
Cursor = Annotated[str, Meta(max_length=512, description="`next_cursor` of the page before.")]

# --- messages -------------------------------------------------------------------------------------

Fields = Annotated[str, Meta(max_length=1_000, description="Names of fields with commas between them; none: all.")]
Seqs = Annotated[list[Seq], Meta(min_length=1, max_length=READ_SEQS_MAX)]
Data = Annotated[dict[str, Any], Meta(description="The application's own, 8 KiB as JSON with sorted keys.")]
FileIds = Annotated[
    tuple[MessageId, ...], Meta(max_length=FILES_PER_MESSAGE_MAX, description="Complete uploads of this conversation.")
]
TtlS = Annotated[int, Meta(ge=TTL_S_MIN, le=TTL_S_MAX, description="Seconds until the server deletes the message.")]
Anchor = Literal["first_unread", "first_mention"]
Mentions = Annotated[list[UserId], Meta(max_length=MENTIONS_MAX, description="Users whom the message mentions.")]
InboxFilter = Literal["unread", "mentions", "pinned", "archived", "muted"]
Mention = Literal["all", "here"]  # all members, or those who are online now
ReactionKey = Annotated[str, Meta(min_length=1, description="1-32 bytes of UTF-8 without blanks: an emoji, or a name.")]

# --- people and conversations ---------------------------------------------------------------------

SlowS = Annotated[int, Meta(ge=0, le=SLOW_S_MAX, description="Seconds between two messages of a member. 0: none.")]
RetentionS = Annotated[int, Meta(ge=TTL_S_MIN, le=RETENTION_S_MAX, description="Older messages are removed.")]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        description="One line with a visible character, without control characters and direction characters.",
    ),
]
UserIds = Annotated[list[UserId], Meta(max_length=MEMBERS_NAMED_MAX)]
Url = Annotated[
    str,
    shaped(
        r"^(https?://[^\s<>\"']+|/v1/pictures/[0-9a-f]{32}/[0-9a-f]{32})(?![\s\S])",
        "a URL that begins with http:// or https://, or the path of an uploaded picture",
        max_length=URL_CHARS_MAX,
        description="A picture elsewhere, or one that was uploaded here.",
    ),
]

_JOINERS = frozenset("\u200c\u200d") | frozenset(map(chr, range(0xE0020, 0xE0080)))
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_BLANK = frozenset(("Zs", "Mn", "Me"))


def is_name(text: str) -> bool:
    """Say whether the text can be shown as a name: it has a visible character, and nothing that disguises another name.

    Control characters and format characters (direction, zero width) are refused. The two joiners and the tags stay:
    emoji and several scripts need them.
    """
    kinds = {unicodedata.category(character) for character in text if character not in _JOINERS}
    return not kinds & _UNSEEN and bool(kinds - _BLANK)
