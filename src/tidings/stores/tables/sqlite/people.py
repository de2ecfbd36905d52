"""blocks and preferences on SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import json_of, values_of
from tidings.stores.tables.values import Block, Preferences

_BLOCK = "INSERT OR IGNORE INTO blocks (user_id, blocked_id, since_ms) VALUES (?, ?, ?)"
_UNBLOCK = "DELETE FROM blocks WHERE user_id = ? AND blocked_id = ?"
_BLOCKS_OF = "SELECT user_id, blocked_id, since_ms FROM blocks WHERE user_id = ? ORDER BY blocked_id"
_BLOCKERS = """
    SELECT b.blocked_id, b.user_id FROM json_each(?) AS named CROSS JOIN blocks AS b ON b.blocked_id = named.value
"""
_PREFERENCES = """
    SELECT p.user_id, p.choices FROM json_each(?) AS named CROSS JOIN preferences AS p ON p.user_id = named.value
"""
_PUT_PREFERENCES = "INSERT OR REPLACE INTO preferences (user_id, choices) VALUES (?, ?)"


class SqlitePeople(Port):
    async def block(self, block: Block) -> bool:
        return await self._write(lambda tx: tx.write("blocks", _BLOCK, values_of(block))) > 0

    async def unblock(self, user_id: str, blocked_id: str) -> bool:
        return await self._write(lambda tx: tx.write("blocks", _UNBLOCK, (user_id, blocked_id))) > 0

    async def blocks_of(self, user_id: str) -> list[Block]:
        return [Block(*row) for row in await self._read(lambda tx: tx.rows("blocks", _BLOCKS_OF, (user_id,)))]

    async def blockers_of(self, user_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        return await self._read(partial(_blockers_of, tuple(user_ids)))

    async def preferences(self, user_ids: Iterable[str]) -> dict[str, Preferences]:
        named = json_of(user_ids)
        found = await self._read(lambda tx: tx.rows("preferences", _PREFERENCES, (named,)))
        return {user_id: msgspec.json.decode(choices, type=Preferences) for user_id, choices in found}

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None:
        choices = msgspec.json.encode(preferences).decode()
        await self._write(lambda tx: tx.write("preferences", _PUT_PREFERENCES, (user_id, choices)))


def _blockers_of(user_ids: tuple[str, ...], tx: Transaction) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {user_id: set() for user_id in user_ids}
    for blocked_id, user_id in tx.rows("blocks", _BLOCKERS, (json_of(user_ids),)):
        found[blocked_id].add(user_id)
    return {blocked_id: frozenset(blockers) for blocked_id, blockers in found.items()}
