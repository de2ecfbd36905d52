"""FindPeople: the directory, in which a user finds others by name or id.

`all` finds everybody who has a profile or has signed in. `shared` finds the people of the asker's own conversations, as
far as the asker may know of them (sight.py). Two people with a block between them see each other as offline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from tidings.bounds import PEOPLE_SHARED_MAX, SHARED_ROWS_MAX
from tidings.errors import Forbidden
from tidings.messaging.access import Access
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.names import asked_words, fold, is_match
from tidings.messaging.people.sight import Sight
from tidings.model import User
from tidings.routing.registry import Registry
from tidings.stores.tables.ports import Accounts, Inboxes

Scope = Literal["off", "shared", "all"]
_TOGETHER = 100  # rows, or profiles, in one read


class Person(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None
    avatar_url: str | None
    online: bool


@dataclass(eq=False, repr=False, kw_only=True)
class FindPeople:
    names: NameIndex
    accounts: Accounts
    inboxes: Inboxes
    access: Access
    sight: Sight
    blocks: Blocks
    registry: Registry
    scope: Scope

    def signed_in(self, user_id: str) -> None:
        """Let others find a user without a profile, where the directory shows everybody."""
        if self.scope == "all":
            self.names.signed_in(user_id)

    async def find(self, user_id: str, query: str, limit: int) -> list[Person]:
        """The first people whose words begin with those asked for, by name. Raises Forbidden and StoreError."""
        if self.scope == "off":
            raise Forbidden("the directory of people is off here")
        asked = asked_words(query)
        found = await (self._among_all if self.scope == "all" else self._among_shared)(user_id, asked, limit)
        await self.blocks.load([user_id])
        apart = self.blocks.blockers(user_id) | await self.blocks.blocked_by(user_id)
        online = await self.registry.is_online([user.user_id for user in found if user.user_id not in apart])
        return [Person(one.user_id, one.name, one.avatar_url, online.get(one.user_id, False)) for one in found]

    async def _among_all(self, user_id: str, asked: list[str], limit: int) -> list[User]:
        found: dict[str, User] = {}
        async for ids in self.names.user_ids(max(asked, key=len, default="")):
            new = [id_ for id_ in dict.fromkeys(ids) if id_ != user_id and id_ not in found]
            found |= {user.user_id: user for user in await self._matching(new, asked)}
            if len(found) >= limit:
                break
        return _first(found.values(), limit)

    async def _among_shared(self, user_id: str, asked: list[str], limit: int) -> list[User]:
        ids = list(await self._shared(user_id))
        parts = [ids[at : at + _TOGETHER] for at in range(0, len(ids), _TOGETHER)]
        return _first([user for part in parts for user in await self._matching(part, asked)], limit)

    async def _matching(self, user_ids: list[str], asked: list[str]) -> list[User]:
        known = await self.accounts.users(user_ids)
        people = (known.get(id_) or User(user_id=id_) for id_ in user_ids)
        return [user for user in people if is_match(asked, user)]

    async def _shared(self, user_id: str) -> dict[str, None]:
        """The people of the asker's conversations, PEOPLE_SHARED_MAX at most."""
        others: dict[str, None] = {}
        after_id, seen = "", 0
        while seen < SHARED_ROWS_MAX and len(others) < PEOPLE_SHARED_MAX:
            page = await self.inboxes.scan(user_id, after_id=after_id, limit=_TOGETHER)
            if not page:
                break
            for member_list in (await self.access.read([row.conversation_id for row in page])).values():
                if user_id in member_list.members:
                    hidden = await self.sight.hidden_from(user_id, member_list) | {user_id}
                    others |= dict.fromkeys(id_ for id_ in member_list.members if id_ not in hidden)
            after_id, seen = page[-1].conversation_id, seen + len(page)
        return dict.fromkeys(list(others)[:PEOPLE_SHARED_MAX])


def _first(people: Iterable[User], limit: int) -> list[User]:
    return sorted(people, key=lambda user: (fold(user.name or user.user_id), user.user_id))[:limit]
