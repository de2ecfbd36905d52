"""Found: the answers of the directory."""

from __future__ import annotations

import msgspec


class PersonFound(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None
    avatar_url: str | None
    online: bool


class People(msgspec.Struct, frozen=True):
    users: list[PersonFound]
