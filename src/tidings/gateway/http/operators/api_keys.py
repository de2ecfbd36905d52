"""API keys of servers: make and revoke them, from the command line and from the admin page.

A name should belong to one key, because limits and the audit stream use the name. An exception to the limits is removed
with the last key of its name, so that a later key never inherits it. Only the hash of a key is stored. Nodes remember a
key for API_KEY_S: after that time every node refuses a revoked key, and has closed the connections of its bot.
"""

from __future__ import annotations

from typing import Literal

from tidings.clock import Clock
from tidings.gateway.auth import hash_api_key
from tidings.gateway.tokens import new_bot_key
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.limits.policy import KEY_CLASS
from tidings.operators.audit.events import NOBODY, Audit
from tidings.stores.tables.ports import Accounts
from tidings.stores.tables.values import ApiKey

KeyRole = Literal["admin", "readonly", "moderator", "bot"]


class ApiKeys:
    def __init__(self, accounts: Accounts, overrides: Overrides, audit: Audit, clock: Clock) -> None:
        self._accounts = accounts
        self._overrides = overrides
        self._audit = audit
        self._clock = clock

    async def all(self) -> list[ApiKey]:
        return await self._accounts.api_keys()

    async def named(self, name: str) -> list[ApiKey]:
        return [key for key in await self._accounts.api_keys() if key.name == name]

    async def create(self, name: str, role: KeyRole, by: str, user_id: str | None = None) -> tuple[str, ApiKey]:
        """The key itself, which cannot be shown again, and what is stored of it. `user_id`: of a bot, and only then."""
        assert (role == "bot") == (user_id is not None)
        key = f"tk_{self._clock.random_id(32)}" if user_id is None else new_bot_key(user_id, self._clock)
        made = ApiKey(key_hash=hash_api_key(key), name=name, role=role, created_ms=self._clock.now_ms())
        await self._accounts.put_api_key(made)
        self._audit.acted("key.created", by, user_id=user_id or NOBODY, detail=f"{made.role} {name}")
        return key, made

    async def revoke(self, key: ApiKey, by: str) -> bool:
        """Revoke a key. True: it was the last of its name, and an exception to the limits went with it."""
        await self._accounts.remove_api_key(key.key_hash)
        self._audit.acted("key.revoked", by, detail=f"{key.role} {key.name}")
        return not await self.named(key.name) and await self._clear_limit(key.name, by)

    async def _clear_limit(self, name: str, by: str) -> bool:
        overrides = await self._overrides.all()
        if not any((one.scope, one.name, one.class_name) == ("key", name, KEY_CLASS) for one in overrides):
            return False
        await self._overrides.remove("key", name, KEY_CLASS)
        self._audit.acted("limits.clear", by, detail=f"key {name} {KEY_CLASS}")
        return True
