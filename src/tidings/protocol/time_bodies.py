"""REST bodies of scheduled messages."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.protocol.bodies import RequestBody
from tidings.protocol.client_frames import Data, Id, Seq, Timestamp, TtlS


class NewScheduled(RequestBody, frozen=True):
    """A message that the server sends at `send_at`, with the message_id of the path."""

    conversation_id: Id
    send_at: Timestamp
    text: str = ""
    data: Data | None = None
    silent: bool = False
    reply_to: Seq | None = None
    ttl_s: TtlS | None = None
    thread_seq: Seq | None = None
    also_here: bool = False


class ScheduledBody(msgspec.Struct, frozen=True, omit_defaults=True):
    message_id: str
    conversation_id: str
    send_at: int
    text: str | None = None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    ttl_s: int | None = None
    thread_seq: int | None = None
    also_here: bool = False
    failed: str | None = None  # the code of the refusal: it is not tried again


class ScheduledListBody(msgspec.Struct, frozen=True):
    """The soonest first."""

    scheduled: list[ScheduledBody]
