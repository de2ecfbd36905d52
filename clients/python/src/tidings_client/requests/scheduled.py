"""Scheduled messages of one user: `account.scheduled`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings_client.clock import Clock
from tidings_client.files import checked_paths, upload
from tidings_client.forms import (
    Data,
    FileIds,
    Id,
    Mention,
    Mentions,
    Seq,
    Timestamp,
    TtlS,
    checked_ids,
    path_of,
)
from tidings_client.rest import Rest


class NewScheduled(msgspec.Struct, frozen=True, omit_defaults=True):
    conversation_id: Id
    send_at: Timestamp
    text: str = ""
    data: Data | None = None
    silent: bool = False
    reply_to: Seq | None = None
    files: FileIds = ()
    ttl_s: TtlS | None = None
    mentions: Mentions = []
    mention: Mention | None = None
    thread_seq: Seq | None = None
    also_here: bool = False


class ScheduledMessage(msgspec.Struct, frozen=True):
    """A message that the server sends at `send_at`. `failed`: the code of the refusal; it is not tried again."""

    message_id: str
    conversation_id: str
    send_at: int
    text: str | None = None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    files: tuple[str, ...] = ()
    ttl_s: int | None = None
    mentions: tuple[str, ...] = ()
    mention: Mention | None = None
    thread_seq: int | None = None
    also_here: bool = False
    failed: str | None = None


class ScheduledList(msgspec.Struct, frozen=True):
    scheduled: list[ScheduledMessage]


class Scheduled:
    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock

    async def put(
        self,
        conversation_id: str,
        text: str = "",
        *,
        send_at: int,
        data: dict[str, Any] | None = None,
        reply_to: int | None = None,
        is_silent: bool = False,
        files: Sequence[str | Path] = (),
        ttl_s: int | None = None,
        mentions: Sequence[str] = (),
        mention: Mention | None = None,
        thread_seq: int | None = None,
        also_here: bool = False,
        message_id: str | None = None,
    ) -> ScheduledMessage:
        """Let the server send a message at `send_at`, in milliseconds. The same message_id again replaces it.

        `files` are paths. They are uploaded now, and the server keeps them for the message."""
        message_id = self._clock.random_id() if message_id is None else message_id
        named = checked_ids(mentions, "mentions")
        file_ids = tuple(
            [await upload(self._rest, self._clock, conversation_id, path) for path in checked_paths(files)]
        )
        of = (conversation_id, send_at, text, data, is_silent, reply_to)
        body = NewScheduled(*of, file_ids, ttl_s, named, mention, thread_seq, also_here)
        return await self._rest.send(
            "PUT", path_of("scheduled", message_id), ScheduledMessage, body, is_repeatable=True
        )

    async def all(self) -> list[ScheduledMessage]:
        """Read the messages that wait, the soonest first. One with `failed` was refused and is not tried again."""
        return (await self._rest.get(path_of("scheduled"), ScheduledList)).scheduled

    async def remove(self, message_id: str) -> None:
        """Take a message back. Raises NotFound where it was sent already."""
        await self._rest.send("DELETE", path_of("scheduled", message_id), object)
