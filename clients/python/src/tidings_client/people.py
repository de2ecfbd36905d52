"""Answers about people: profiles, presence, blocks and preferences. The structs repeat those of the server."""

from __future__ import annotations

import msgspec


class Profile(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None
    avatar_url: str | None


class Profiles(msgspec.Struct, frozen=True):
    profiles: list[Profile]


class Block(msgspec.Struct, frozen=True):
    user_id: str
    since: int  # ms


class Blocks(msgspec.Struct, frozen=True):
    blocks: list[Block]


class QuietHours(msgspec.Struct, frozen=True):
    """`days` on which they begin (1 is Monday), and times like 22:00."""

    days: list[int]
    from_: str = msgspec.field(name="from")
    to: str


class Preferences(msgspec.Struct, frozen=True, omit_defaults=True):
    """The people who may write to a user, and add them: anybody, shared (people of a shared group) or nobody."""

    who_may_write: str = "anybody"
    who_may_add: str = "anybody"
    badge: str = "loud"  # loud: unread but for muted conversations; all; mentions
    time_zone: str | None = None  # Europe/Athens; None: UTC
    quiet: list[QuietHours] | None = None  # devices make no sound, and get one summary after it
    quiet_lets: str | None = None  # mentions (the default) or nothing may make a sound all the same


class Person(msgspec.Struct, frozen=True):
    """The presence of one user. `last_seen` is None for a user who is online or was never seen."""

    user_id: str
    online: bool
    last_seen: int | None


class PresencePage(msgspec.Struct, frozen=True):
    presence: list[Person]


class Revoked(msgspec.Struct, frozen=True):
    user_id: str
    tokens_valid_after: int


class PersonFound(msgspec.Struct, frozen=True):
    """One answer of the directory."""

    user_id: str
    name: str | None
    avatar_url: str | None
    online: bool


class People(msgspec.Struct, frozen=True):
    users: list[PersonFound]
