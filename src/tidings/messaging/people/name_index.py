"""NameIndex: finds users by the beginning of a word of their name, or of their user id.

Each word of a user is a record of the deployment, collection `people`, named "word user_id". So one range of record
names holds every user with such a beginning of a word, on every store. The records only point to users. The profile
that is read after them decides, so an entry that is left over shows nobody.

A profile brings its entries when it is put. A user without a profile has one entry, since the user's first sign-in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tidings.bounds import PEOPLE_NOTED_MAX, PEOPLE_READ_MAX, PEOPLE_SIGN_INS_MAX
from tidings.messaging.people.names import words_of
from tidings.model import User
from tidings.stores.tables.ports import Accounts
from tidings.stores.tables.records import DEPLOYMENT, Put, Records
from tidings.tasks import Recent, TaskSet

COLLECTION = "people"
_LAST = "\U0010ffff"  # follows everything that begins with the text before it
_TOGETHER = 200  # entries in one read
_VALUE = b"{}"


class NameIndex:
    def __init__(self, records: Records, accounts: Accounts) -> None:
        self._records = records
        self._accounts = accounts
        self._noted = Recent[str, None](PEOPLE_NOTED_MAX)
        self._tasks = TaskSet(PEOPLE_SIGN_INS_MAX)

    async def put_user(self, user: User, before: User) -> None:
        """Store a profile with its entries, and remove the entries of the profile before. Raises StoreError."""
        await self._accounts.put_user(user)
        new, old = _names(user), _names(before)
        await self._put([*new], [name for name in old if name not in new])

    async def forget(self, user: User) -> None:
        """Remove every entry of a user."""
        self._noted.pop(user.user_id, None)
        await self._put([], [*_names(user)])

    def signed_in(self, user_id: str) -> None:
        """Write the entries of a user who has signed in. Never blocks; after a failure the next sign-in tries again."""
        if user_id not in self._noted and self._tasks.run(self._complete(user_id), "people"):
            self._noted.put(user_id, None)

    async def user_ids(self, beginning: str) -> AsyncIterator[list[str]]:
        """Find users with a word of this beginning, one read at a time, PEOPLE_READ_MAX entries at most."""
        after, seen = beginning, 0
        while seen < PEOPLE_READ_MAX:
            found = await self._records.page(
                DEPLOYMENT, COLLECTION, after=after, before=beginning + _LAST, limit=_TOGETHER
            )
            if found:
                yield [record.name.rpartition(" ")[2] for record in found]
            if len(found) < _TOGETHER:
                return
            after, seen = found[-1].name, seen + len(found)

    async def close(self) -> None:
        await self._tasks.close()

    async def _complete(self, user_id: str) -> None:
        try:
            names = _names(await self._accounts.user(user_id) or User(user_id=user_id))
            found = await self._records.get(DEPLOYMENT, COLLECTION, names)
            if missing := [name for name in names if name not in found]:
                await self._put(missing, [])
        except Exception:
            self._noted.pop(user_id, None)
            raise

    async def _put(self, new: list[str], old: list[str]) -> None:
        puts = [Put(DEPLOYMENT, COLLECTION, name, _VALUE) for name in new]
        await self._records.put([*puts, *(Put(DEPLOYMENT, COLLECTION, name, None) for name in old)])


def _names(user: User) -> dict[str, None]:
    return {f"{word} {user.user_id}": None for word in words_of(user)}
