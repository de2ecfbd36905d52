"""Bodies of the routes of members: many at a time, and in pages."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.bounds import MEMBERS_BULK_MAX, PAGE_MAX
from tidings.protocol.bodies import MemberBody, RequestBody
from tidings.protocol.client_frames import Limit, UserId


class NewMembers(RequestBody, frozen=True):
    user_ids: Annotated[list[UserId], Meta(min_length=1, max_length=MEMBERS_BULK_MAX)]


class MembersQuery(msgspec.Struct, frozen=True):
    limit: Limit = PAGE_MAX
    cursor: str | None = None  # the last user_id of the page before


class MembersBody(msgspec.Struct, frozen=True):
    members: list[MemberBody]
    next_cursor: str | None
