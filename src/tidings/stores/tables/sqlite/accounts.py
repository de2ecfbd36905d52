"""users and api_keys on SQLite, and the store's identity."""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import User
from tidings.stores.tables.sqlite.file.engine import Port, Threads
from tidings.stores.tables.sqlite.file.schema import Identity
from tidings.stores.tables.sqlite.file.sql import json_of, names, values_of
from tidings.stores.tables.values import ApiKey
from tidings.stores.tables.whole import API_KEYS, USERS

_USER, _user = USERS.columns, USERS.value_of
_API_KEY, _key = API_KEYS.columns, API_KEYS.value_of

_USER_OF = f"SELECT {names(_USER)} FROM users WHERE user_id = ?"
_USERS_OF = f"""
    SELECT {names(_USER, "u")} FROM json_each(?) AS named CROSS JOIN users AS u ON u.user_id = named.value
"""
_PUT_USER = f"""
    INSERT INTO users ({names(_USER)}) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
      name = excluded.name,
      avatar_url = excluded.avatar_url,
      tokens_valid_after = max(tokens_valid_after, excluded.tokens_valid_after)
"""
_API_KEY_OF = f"SELECT {names(_API_KEY)} FROM api_keys WHERE key_hash = ?"
_PUT_API_KEY = f"INSERT OR REPLACE INTO api_keys ({names(_API_KEY)}) VALUES (?, ?, ?, ?)"
_API_KEYS = f"SELECT {names(_API_KEY)} FROM api_keys ORDER BY name, created_ms, key_hash"
_REMOVE_API_KEY = "DELETE FROM api_keys WHERE key_hash = ?"


class SqliteAccounts(Port):
    def __init__(self, identity: Identity, reads: Threads, writes: Threads) -> None:
        super().__init__(reads, writes)
        self._identity = identity

    async def user(self, user_id: str) -> User | None:
        found = await self._read(lambda tx: tx.rows("users", _USER_OF, (user_id,)))
        return _user(found[0]) if found else None

    async def users(self, user_ids: Iterable[str]) -> dict[str, User]:
        asked = (json_of(user_ids),)
        found = await self._read(lambda tx: tx.rows("users", _USERS_OF, asked))
        return {row[0]: _user(row) for row in found}

    async def put_user(self, user: User) -> None:
        await self._write(lambda tx: tx.write("users", _PUT_USER, values_of(user)))

    async def api_key(self, key_hash: str) -> ApiKey | None:
        found = await self._read(lambda tx: tx.rows("api_keys", _API_KEY_OF, (key_hash,)))
        return _key(found[0]) if found else None

    async def put_api_key(self, key: ApiKey) -> None:
        await self._write(lambda tx: tx.write("api_keys", _PUT_API_KEY, values_of(key)))

    async def api_keys(self) -> list[ApiKey]:
        found = await self._read(lambda tx: tx.rows("api_keys", _API_KEYS, ()))
        return [_key(row) for row in found]

    async def remove_api_key(self, key_hash: str) -> bool:
        return await self._write(lambda tx: tx.write("api_keys", _REMOVE_API_KEY, (key_hash,))) > 0

    async def store_epoch(self) -> str:
        return self._identity.store_epoch

    @property
    def secret(self) -> str:
        return self._identity.secret
