"""REST bodies of people: profiles, blocks, preferences and quiet hours.

A period of quiet hours has rules that its struct cannot check: `check_quiet` does.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings.bounds import ID_CHARS_MAX, PROFILES_MAX
from tidings.errors import BadRequest
from tidings.protocol.bodies import NamedBody, RequestBody
from tidings.protocol.types import Name, Url, UserId

WhoMay = Literal["anybody", "shared", "nobody"]
ProfileIds = Annotated[
    str,
    Meta(
        max_length=PROFILES_MAX * (ID_CHARS_MAX + 1),
        description="User ids with commas between them; without any: all members.",
    ),
]
QUIET_MAX = 14  # periods of a user: two for each day
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z")


class ProfilesQuery(msgspec.Struct, frozen=True):
    user_ids: ProfileIds | None = None


class ProfilePut(NamedBody, frozen=True):
    name: Name | None = None
    avatar_url: Url | None = None


class ProfileBody(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None
    avatar_url: str | None


class ProfilesBody(msgspec.Struct, frozen=True):
    """In the order asked. A user who is not a member is left out."""

    profiles: list[ProfileBody]


class TokenRequest(RequestBody, frozen=True):
    user_id: UserId
    welcome: bool = False  # the page asks for it: the bot of --dev greets the user, once


class RevokedBody(msgspec.Struct, frozen=True):
    user_id: str
    tokens_valid_after: int


class BlockBody(msgspec.Struct, frozen=True):
    user_id: str
    since: int


class BlocksBody(msgspec.Struct, frozen=True):
    """By user id."""

    blocks: list[BlockBody]


class QuietBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`days` on which it begins (1 is Monday). One that does not end later than it begins ends the next day."""

    days: list[int]
    from_: str = msgspec.field(name="from")  # 22:00
    to: str


class PreferencesBody(RequestBody, frozen=True):
    """The choices of a user. `shared`: from people with whom the user shares a group or channel."""

    who_may_write: WhoMay = "anybody"
    who_may_add: WhoMay = "anybody"
    badge: Literal["loud", "all", "mentions"] = "loud"
    time_zone: str | UnsetType = UNSET
    quiet: list[QuietBody] | UnsetType = UNSET
    quiet_lets: Literal["mentions", "nothing"] | UnsetType = UNSET


def check_quiet(quiet: list[QuietBody]) -> None:
    """Raises BadRequest."""
    if len(quiet) > QUIET_MAX:
        raise BadRequest(f"`quiet` has at most {QUIET_MAX} periods")
    for one in quiet:
        if not one.days or not set(one.days) <= set(range(1, 8)):
            raise BadRequest("`days` of `quiet` are numbers from 1 (Monday) to 7")
        if not _TIME.match(one.from_) or not _TIME.match(one.to):
            raise BadRequest("`from` and `to` of `quiet` are times like 22:00")


def minute_of(time: str) -> int:
    """22:00 as minutes of the day."""
    hours, minutes = time.split(":")
    return int(hours) * 60 + int(minutes)


def time_of(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
