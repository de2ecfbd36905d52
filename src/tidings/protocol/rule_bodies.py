"""REST bodies of rules, joining and moderation."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings.bounds import RETENTION_S_MAX
from tidings.model import ConversationKind
from tidings.protocol.bodies import MessageBody, RequestBody
from tidings.protocol.types import Cursor, Limit, Millis

Seconds = Annotated[int, Meta(ge=1, le=RETENTION_S_MAX)]
Uses = Annotated[int, Meta(ge=1, le=1_000_000)]
ReportReason = Annotated[str, Meta(max_length=1_000)]


class BanBody(RequestBody, frozen=True):
    until: Millis | None = None


class DirectoryQuery(msgspec.Struct, frozen=True):
    query: Annotated[str, Meta(max_length=100)] = ""
    cursor: Cursor | None = None
    limit: Limit = 20


class ListedBody(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    avatar_url: str | None


class DirectoryBody(msgspec.Struct, frozen=True):
    conversations: list[ListedBody]
    next_cursor: str | None


class NewInvite(RequestBody, frozen=True):
    expires_s: Seconds | None = None
    uses: Uses | None = None
    role: Literal["admin", "member"] = "member"


class InviteMadeBody(msgspec.Struct, frozen=True):
    """The text of the invite is shown once."""

    invite: str
    url: str
    invite_id: str


class InviteBody(msgspec.Struct, frozen=True):
    invite_id: str
    by: str
    created_at: int
    role: Literal["admin", "member"]
    expires_at: int | UnsetType = UNSET
    uses_left: int | UnsetType = UNSET


class InvitesBody(msgspec.Struct, frozen=True):
    invites: list[InviteBody]


class JoinedBody(msgspec.Struct, frozen=True):
    conversation_id: str


class NewReport(RequestBody, frozen=True):
    reason: ReportReason = ""


class ReportMadeBody(msgspec.Struct, frozen=True):
    report_id: str


class ReportBody(msgspec.Struct, frozen=True):
    report_id: str
    conversation_id: str
    seq: int
    by: str
    reason: str
    at: int
    message: MessageBody | None  # as it is now; null: it is gone


class ReportsQuery(msgspec.Struct, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 20


class ReportsBody(msgspec.Struct, frozen=True):
    reports: list[ReportBody]
    next_cursor: str | None


class ReportVerdict(RequestBody, frozen=True):
    action: Literal["dismiss", "delete", "ban"]
