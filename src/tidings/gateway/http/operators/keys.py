"""Routes of the API keys, for operators. Any key reads the list, an admin's key makes and revokes keys.

A key is in the answer that makes it, and in no other. `key_id` is the beginning of its hash, and reveals nothing about
the key.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tidings.errors import BadRequest, NotFound
from tidings.gateway.http.operators.api_keys import ApiKeys, KeyRole
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.protocol.bodies import RequestBody
from tidings.protocol.types import UserId, shaped
from tidings.stores.tables.values import ApiKey

_ALL = "/v1/admin/keys"
_ID_CHARS = 16
_NAME = shaped(r"^[!-~]{1,64}(?![\s\S])", "a name, 1-64 printable characters of ASCII without a space")


class KeyBody(msgspec.Struct, frozen=True):
    key_id: str
    name: str
    role: KeyRole
    created_at: int


class KeysBody(msgspec.Struct, frozen=True):
    keys: list[KeyBody]


class NewKey(RequestBody, frozen=True):
    """`name`: the purpose of the key; limits and the audit stream use it. `user_id`: the user of a key of role bot."""

    name: Annotated[str, _NAME]
    role: KeyRole = "readonly"
    user_id: UserId | None = None


class NewKeyBody(msgspec.Struct, frozen=True):
    """`key` is shown once."""

    key: str
    key_id: str
    name: str
    role: KeyRole


class KeyRoutes(Routes):
    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    @route("GET", _ALL, "operator", answer=KeysBody, errors=("forbidden",))
    async def all(self, request: Request) -> Reply:
        """List every API key."""
        return Reply(200, KeysBody([_body(key) for key in await self._keys.all()]))

    @route("POST", _ALL, "server", body=NewKey, answer=NewKeyBody, statuses=(201,), errors=("forbidden",))
    async def create(self, request: Request) -> Reply:
        """Make an API key; it is shown once."""
        asked: NewKey = request.body
        if (asked.role == "bot") != (asked.user_id is not None):
            raise BadRequest("`user_id` names the user of a key of role bot; give both or neither")
        key, made = await self._keys.create(asked.name, asked.role, request.caller.key_name or "", asked.user_id)
        return Reply(201, NewKeyBody(key, made.key_hash[:_ID_CHARS], made.name, made.role))

    @route("DELETE", _ALL + "/{key_id}", "server", statuses=(204,), errors=("forbidden", "not_found"))
    async def revoke(self, request: Request) -> Reply:
        """Revoke an API key; every node refuses it within 5 s."""
        found = [key for key in await self._keys.all() if key.key_hash[:_ID_CHARS] == request.params[0]]
        if not found:
            raise NotFound("no such key")
        await self._keys.revoke(found[0], request.caller.key_name or "")
        return Reply(204)


def _body(key: ApiKey) -> KeyBody:
    return KeyBody(key.key_hash[:_ID_CHARS], key.name, key.role, key.created_ms)
