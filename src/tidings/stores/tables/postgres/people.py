"""blocks and preferences on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.stores.tables.postgres.server.database import Port
from tidings.stores.tables.values import Block, Preferences

_BLOCK = "INSERT INTO @blocks (user_id, blocked_id, since_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_UNBLOCK = "DELETE FROM @blocks WHERE user_id = $1 AND blocked_id = $2"
_BLOCKS_OF = "SELECT user_id, blocked_id, since_ms FROM @blocks WHERE user_id = $1 ORDER BY blocked_id"
_BLOCKERS = "SELECT blocked_id, user_id FROM @blocks WHERE blocked_id = ANY($1::text[])"
_PREFERENCES = "SELECT user_id, choices FROM @preferences WHERE user_id = ANY($1::text[])"
_PUT_PREFERENCES = """
    INSERT INTO @preferences (user_id, choices) VALUES ($1, $2)
    ON CONFLICT (user_id) DO UPDATE SET choices = excluded.choices
"""


class PostgresPeople(Port):
    async def block(self, block: Block) -> bool:
        return await self._database.write("blocks", _BLOCK, *msgspec.structs.astuple(block)) > 0

    async def unblock(self, user_id: str, blocked_id: str) -> bool:
        return await self._database.write("blocks", _UNBLOCK, user_id, blocked_id) > 0

    async def blocks_of(self, user_id: str) -> list[Block]:
        return [Block(*row) for row in await self._database.rows("blocks", _BLOCKS_OF, user_id)]

    async def blockers_of(self, user_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {user_id: set() for user_id in user_ids}
        for blocked_id, user_id in await self._database.rows("blocks", _BLOCKERS, list(found)):
            found[blocked_id].add(user_id)
        return {blocked_id: frozenset(blockers) for blocked_id, blockers in found.items()}

    async def preferences(self, user_ids: Iterable[str]) -> dict[str, Preferences]:
        found = await self._database.rows("preferences", _PREFERENCES, list(dict.fromkeys(user_ids)))
        return {user_id: msgspec.json.decode(choices, type=Preferences) for user_id, choices in found}

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None:
        choices = msgspec.json.encode(preferences).decode()
        await self._database.write("preferences", _PUT_PREFERENCES, user_id, choices)
