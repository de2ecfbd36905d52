"""What every adapter of the Accounts port must do."""

from __future__ import annotations

import asyncio

from tests.contracts import fresh
from tidings.model import User
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import ApiKey


class AccountsContract:
    async def test_a_profile_is_optional(self, tables: Tables) -> None:
        assert await tables.accounts.user(fresh("user")) is None

    async def test_a_profile_is_read_back_and_replaced(self, tables: Tables) -> None:
        user_id = fresh("user")
        for user in (User(user_id=user_id, name="Ann", avatar_url="u"), User(user_id=user_id, name=None)):
            await tables.accounts.put_user(user)
            assert await tables.accounts.user(user_id) == user

    async def test_profiles_of_several_users_are_read_together(self, tables: Tables) -> None:
        people = [User(user_id=fresh("user"), name=f"N{n}") for n in range(3)]
        for user in people:
            await tables.accounts.put_user(user)
        ids = [user.user_id for user in people]
        found = await tables.accounts.users([*ids, fresh("user"), ids[0]])
        assert found == {user.user_id: user for user in people}
        assert await tables.accounts.users([]) == {}

    async def test_a_revocation_never_goes_back(self, tables: Tables) -> None:
        user_id = fresh("user")
        await tables.accounts.put_user(User(user_id=user_id, tokens_valid_after=50))
        await tables.accounts.put_user(User(user_id=user_id, name="Ann", tokens_valid_after=0))
        assert await tables.accounts.user(user_id) == User(user_id=user_id, name="Ann", tokens_valid_after=50)
        await tables.accounts.put_user(User(user_id=user_id, tokens_valid_after=60))
        assert await tables.accounts.user(user_id) == User(user_id=user_id, tokens_valid_after=60)

    async def test_an_api_key_is_found_by_its_hash_alone(self, tables: Tables) -> None:
        key = ApiKey(key_hash=fresh("hash"), name="backend", role="admin", created_ms=5)
        assert await tables.accounts.api_key(key.key_hash) is None
        await tables.accounts.put_api_key(key)
        assert await tables.accounts.api_key(key.key_hash) == key
        assert await tables.accounts.api_key(fresh("hash")) is None

    async def test_api_keys_are_listed_by_name_however_many_there_are(self, tables: Tables) -> None:
        keys = [ApiKey(key_hash=fresh("hash"), name=f"k{n:03}", role="readonly", created_ms=n) for n in range(120)]
        await asyncio.gather(*map(tables.accounts.put_api_key, reversed(keys)))
        assert [key for key in await tables.accounts.api_keys() if key in keys] == keys

    async def test_two_keys_of_one_name_are_listed_by_their_age(self, tables: Tables) -> None:
        name = fresh("name")
        newer, older = (ApiKey(key_hash=fresh("hash"), name=name, role="admin", created_ms=n) for n in (7, 6))
        for key in (newer, older):
            await tables.accounts.put_api_key(key)
        assert [key for key in await tables.accounts.api_keys() if key.name == name] == [older, newer]

    async def test_an_api_key_is_removed_once_and_alone(self, tables: Tables) -> None:
        kept, gone = (ApiKey(key_hash=fresh("hash"), name="backend", role="admin", created_ms=5) for _ in range(2))
        for key in (kept, gone):
            await tables.accounts.put_api_key(key)
        assert [await tables.accounts.remove_api_key(gone.key_hash) for _ in range(2)] == [True, False]
        assert (
            await tables.accounts.api_key(gone.key_hash) is None
            and await tables.accounts.api_key(kept.key_hash) == kept
        )
        hashes = [key.key_hash for key in await tables.accounts.api_keys()]
        assert kept.key_hash in hashes and gone.key_hash not in hashes

    async def test_the_store_has_an_epoch_that_stays(self, tables: Tables) -> None:
        epoch = await tables.accounts.store_epoch()
        assert epoch and await tables.accounts.store_epoch() == epoch

    async def test_the_store_has_a_secret_that_stays(self, tables: Tables) -> None:
        secret = tables.accounts.secret
        assert len(secret) >= 32 and tables.accounts.secret == secret
        assert secret != await tables.accounts.store_epoch()

    async def test_ping_answers(self, tables: Tables) -> None:
        await tables.ping()
