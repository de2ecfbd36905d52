"""REST bodies of threads."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.protocol.bodies import MessageBody
from tidings.protocol.client_frames import Cursor, Limit

ThreadFilter = Literal["unread", "all"]


class ThreadsQuery(msgspec.Struct, frozen=True):
    filter: ThreadFilter = "all"
    limit: Limit = 20
    cursor: Cursor | None = None


class ThreadBody(msgspec.Struct, frozen=True):
    """A thread that the caller follows. A root that the caller may not see is null."""

    conversation_id: str
    thread_seq: int
    root: MessageBody | None
    replies: int
    last_seq: int
    last_sent_at: int
    unread_count: int
    first_unread_seq: int | None


class ThreadsBody(msgspec.Struct, frozen=True):
    """The latest reply first. The pages of `filter=unread` have exactly `unread_threads` rows."""

    threads: list[ThreadBody]
    next_cursor: str | None
    unread_threads: int
