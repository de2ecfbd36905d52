"""users and api_keys on PostgreSQL, and the store's identity."""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import User
from tidings.stores.tables.postgres.server.database import Database, names
from tidings.stores.tables.postgres.server.schema import Identity
from tidings.stores.tables.values import ApiKey
from tidings.stores.tables.whole import API_KEYS, USERS

_USER, _user = USERS.columns, USERS.value_of
_API_KEY, _key = API_KEYS.columns, API_KEYS.value_of

_USER_OF = f"SELECT {names(_USER)} FROM @users WHERE user_id = $1"
_USERS_OF = f"SELECT {names(_USER)} FROM @users WHERE user_id = ANY($1::text[])"
_PUT_USER = f"""
    INSERT INTO @users AS u ({names(_USER)}) VALUES ($1, $2, $3, $4) ON CONFLICT (user_id) DO UPDATE SET
      name = excluded.name,
      avatar_url = excluded.avatar_url,
      tokens_valid_after = greatest(u.tokens_valid_after, excluded.tokens_valid_after)
"""
_API_KEY_OF = f"SELECT {names(_API_KEY)} FROM @api_keys WHERE key_hash = $1"
_PUT_API_KEY = f"""
    INSERT INTO @api_keys ({names(_API_KEY)}) VALUES ($1, $2, $3, $4) ON CONFLICT (key_hash) DO UPDATE SET
      name = excluded.name, role = excluded.role, created_ms = excluded.created_ms
"""
_API_KEYS = f'SELECT {names(_API_KEY)} FROM @api_keys ORDER BY name COLLATE "C", created_ms, key_hash'
_REMOVE_API_KEY = "DELETE FROM @api_keys WHERE key_hash = $1"


class PostgresAccounts:
    def __init__(self, identity: Identity, database: Database) -> None:
        self._identity = identity
        self._database = database

    async def user(self, user_id: str) -> User | None:
        found = await self._database.rows("users", _USER_OF, user_id)
        return _user(found[0]) if found else None

    async def users(self, user_ids: Iterable[str]) -> dict[str, User]:
        found = await self._database.rows("users", _USERS_OF, list(user_ids))
        return {row[0]: _user(row) for row in found}

    async def put_user(self, user: User) -> None:
        await self._database.write("users", _PUT_USER, *(getattr(user, field) for field in _USER))

    async def api_key(self, key_hash: str) -> ApiKey | None:
        found = await self._database.rows("api_keys", _API_KEY_OF, key_hash)
        return _key(found[0]) if found else None

    async def put_api_key(self, key: ApiKey) -> None:
        await self._database.write("api_keys", _PUT_API_KEY, *(getattr(key, field) for field in _API_KEY))

    async def api_keys(self) -> list[ApiKey]:
        found = await self._database.rows("api_keys", _API_KEYS)
        return [_key(row) for row in found]

    async def remove_api_key(self, key_hash: str) -> bool:
        return await self._database.write("api_keys", _REMOVE_API_KEY, key_hash) > 0

    async def store_epoch(self) -> str:
        return self._identity.store_epoch

    @property
    def secret(self) -> str:
        return self._identity.secret
