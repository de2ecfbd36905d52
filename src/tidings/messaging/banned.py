"""Banned people: a record of the conversation for each of them. moderation/bans.py makes and ends bans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

import msgspec

from tidings.clock import Clock
from tidings.errors import Forbidden, NotFound
from tidings.model import Sent
from tidings.stores.tables.records import Records, of_conversation

BANS = "bans"


class Ban(msgspec.Struct, frozen=True, omit_defaults=True):
    by: str
    since: int
    until: int | None = None  # None: for ever


class Banned:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def among(self, conversation_id: str, user_ids: Iterable[str]) -> set[str]:
        """Of these users, those who are banned now."""
        found = await self._records.get(of_conversation(conversation_id), BANS, list(user_ids))
        bans = {name: msgspec.json.decode(record.value, type=Ban) for name, record in found.items()}
        now_ms = self._clock.now_ms()
        return {name for name, ban in bans.items() if ban.until is None or ban.until > now_ms}

    async def check(self, conversation_id: str, user_ids: Iterable[str]) -> None:
        """Raise Forbidden where one of these users is banned."""
        if banned := await self.among(conversation_id, user_ids):
            raise Forbidden(f"{min(banned)} is banned here")

    async def keep_out(
        self,
        conversation_id: str,
        user_ids: Collection[str],
        join: Callable[[], Awaitable[Sent]],
        leave: Callable[[str], Awaitable[object]],
    ) -> Sent:
        """Join people, unless one of them is banned. People who were banned meanwhile leave again. Raises Forbidden."""
        await self.check(conversation_id, user_ids)
        sent = await join()
        if banned := await self.among(conversation_id, user_ids):
            for user_id in banned:
                with suppress(NotFound):  # the ban itself has removed them
                    await leave(user_id)
            raise Forbidden(f"{min(banned)} is banned here")
        return sent
