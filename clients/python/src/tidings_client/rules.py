"""The rules of a conversation, as the server shows them. A rule that is absent has its default."""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True):
    post: str = "all"  # all, admins
    slow_s: int | None = None
    frozen: bool = False
    visibility: str = "private"  # private, listed, open
    retention_s: int | None = None
