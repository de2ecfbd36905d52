"""Rules of a conversation, and the ways into it and out of it: `account.rules`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tidings_client.forms import path_of
from tidings_client.rest import Rest


class Invite(msgspec.Struct, frozen=True):
    """A new invite. Its text is shown once."""

    invite: str
    url: str
    invite_id: str


class _Joined(msgspec.Struct, frozen=True):
    conversation_id: str


class _NewInvite(msgspec.Struct, frozen=True, omit_defaults=True):
    expires_s: int | None = None
    uses: int | None = None
    role: Literal["admin", "member"] = "member"


class _Ban(msgspec.Struct, frozen=True, omit_defaults=True):
    until: int | None = None


class _Report(msgspec.Struct, frozen=True):
    reason: str


class Ways:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def change(self, conversation_id: str, **rules: Any) -> None:
        """Change rules: post, slow_s, frozen, visibility, retention_s, data. None ends slow_s, retention_s and data."""
        form = msgspec.defstruct("RulesPatch", [(name, Any) for name in rules])
        path = path_of("conversations", conversation_id)
        await self._rest.send("PATCH", path, object, form(**rules), is_repeatable=True)

    async def join(self, conversation_id: str) -> None:
        """Join an open conversation."""
        await self._rest.send("POST", path_of("conversations", conversation_id, "join"), object, is_repeatable=True)

    async def invite(
        self,
        conversation_id: str,
        *,
        expires_s: int | None = None,
        uses: int | None = None,
        role: Literal["admin", "member"] = "member",
    ) -> Invite:
        path = path_of("conversations", conversation_id, "invites")
        return await self._rest.send("POST", path, Invite, _NewInvite(expires_s, uses, role))

    async def use(self, invite: str) -> str:
        """Join by an invite, and return the conversation. Raises Gone where it is used up or over."""
        return (await self._rest.send("POST", path_of("invites", invite), _Joined)).conversation_id

    async def ban(self, conversation_id: str, user_id: str, *, until: int | None = None) -> None:
        path = path_of("conversations", conversation_id, "bans", user_id)
        await self._rest.send("PUT", path, object, _Ban(until), is_repeatable=True)

    async def unban(self, conversation_id: str, user_id: str) -> None:
        await self._rest.send("DELETE", path_of("conversations", conversation_id, "bans", user_id), object)

    async def report(self, conversation_id: str, seq: int, reason: str = "") -> None:
        """Ask the moderators to look at a message."""
        path = path_of("conversations", conversation_id, "messages", seq, "report")
        await self._rest.send("POST", path, object, _Report(reason))
