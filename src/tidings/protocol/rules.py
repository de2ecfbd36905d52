"""The rules of a conversation on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.bounds import RETENTION_S_MAX, SLOW_S_MAX, TTL_S_MIN
from tidings.model import Post, Visibility

SlowS = Annotated[int, Meta(ge=1, le=SLOW_S_MAX, description="Seconds between two messages of a member.")]
RetentionS = Annotated[int, Meta(ge=TTL_S_MIN, le=RETENTION_S_MAX, description="Older messages are removed.")]


class RulesBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules that differ from the defaults."""

    post: Post = "all"
    slow_s: int | None = None
    frozen: bool = False
    visibility: Visibility = "private"
    retention_s: int | None = None
