"""Routes of people: finding them, and what they may do to each other (blocks and preferences)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from tidings.bounds import NAME_CHARS_MAX, PEOPLE_FOUND_MAX
from tidings.errors import BadRequest
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.consent import Consent
from tidings.messaging.people.find import FindPeople
from tidings.messaging.push.quiet import zone_of
from tidings.messaging.unread.unread import Unread
from tidings.protocol.people_bodies import (
    BlockBody,
    BlocksBody,
    PreferencesBody,
    ProfileBody,
    QuietBody,
    check_quiet,
    minute_of,
    time_of,
)
from tidings.protocol.types import INTEGER_MAX
from tidings.stores.tables.values import Preferences, Quiet

_BLOCK = "/v1/blocks/{user_id}"
PeopleLimit = Annotated[int, Meta(ge=1, le=INTEGER_MAX, description="People wanted; above 50 it is 50.")]


class PeopleQuery(msgspec.Struct, frozen=True):
    """Without a query: the first people there are."""

    query: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    limit: PeopleLimit = 20


class PersonFound(ProfileBody, frozen=True):
    online: bool


class PeopleBody(msgspec.Struct, frozen=True):
    """By name."""

    users: list[PersonFound]


class PeopleRoutes(Routes):
    def __init__(self, blocks: Blocks, consent: Consent, people: FindPeople, unread: Unread, limiter: Limiter) -> None:
        self._unread = unread
        self._people = people
        self._limiter = limiter
        self._blocks = blocks
        self._consent = consent

    @route("GET", "/v1/users", query=PeopleQuery, answer=PeopleBody, errors=("forbidden",))
    async def find(self, request: Request) -> Reply:
        """Find people by the beginning of a name or user id."""
        query: PeopleQuery = request.query
        await self._limiter.admit("search", request.user_id)
        found = await self._people.find(request.user_id, query.query, min(query.limit, PEOPLE_FOUND_MAX))
        return Reply(200, PeopleBody([PersonFound(one.user_id, one.name, one.avatar_url, one.online) for one in found]))

    @route("GET", "/v1/blocks", answer=BlocksBody)
    async def blocks(self, request: Request) -> Reply:
        """List the people whom the caller has blocked."""
        found = await self._blocks.all(request.user_id)
        return Reply(200, BlocksBody([BlockBody(one.blocked_id, one.since_ms) for one in found]))

    @route("PUT", _BLOCK, statuses=(204,), errors=("too_large",))
    async def block(self, request: Request) -> Reply:
        """Block a person: no direct messages, and nothing of theirs is counted or notified."""
        await self._blocks.block(request.user_id, request.user())
        return Reply(204)

    @route("DELETE", _BLOCK, statuses=(204,))
    async def unblock(self, request: Request) -> Reply:
        """End a block."""
        await self._blocks.unblock(request.user_id, request.user())
        return Reply(204)

    @route("GET", "/v1/preferences", answer=PreferencesBody)
    async def preferences(self, request: Request) -> Reply:
        """Show the caller's preferences."""
        found = await self._consent.preferences(request.user_id)
        return Reply(200, preferences_of(found))

    @route("PUT", "/v1/preferences", body=PreferencesBody, answer=PreferencesBody)
    async def put_preferences(self, request: Request) -> Reply:
        """Set the caller's preferences; what is left out gets its default."""
        asked: PreferencesBody = request.body
        before = await self._consent.preferences(request.user_id)
        chosen = _chosen(asked)
        await self._consent.put_preferences(request.user_id, chosen)
        if before.badge != chosen.badge:
            await self._unread.recount(request.user_id)
        return Reply(200, preferences_of(chosen))


def preferences_of(chosen: Preferences) -> PreferencesBody:
    quiet = [QuietBody(list(one.days), time_of(one.since), time_of(one.until)) for one in chosen.quiet]
    return PreferencesBody(
        chosen.who_may_write,
        chosen.who_may_add,
        chosen.badge,
        chosen.time_zone if chosen.time_zone != "UTC" else UNSET,
        quiet or UNSET,
        chosen.quiet_lets if quiet or chosen.quiet_lets != "mentions" else UNSET,
    )


def _chosen(asked: PreferencesBody) -> Preferences:
    """Raises BadRequest."""
    quiet, zone = asked.quiet or [], asked.time_zone or "UTC"
    check_quiet(quiet)
    if len(zone) > NAME_CHARS_MAX or zone_of(zone) is None:
        raise BadRequest("`time_zone` is no zone of the time zone database, like Europe/Athens")
    return Preferences(
        asked.who_may_write,
        asked.who_may_add,
        asked.badge,
        zone,
        tuple(Quiet(tuple(one.days), minute_of(one.from_), minute_of(one.to)) for one in quiet),
        asked.quiet_lets or "mentions",
    )
