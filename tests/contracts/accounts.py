"""What every adapter of the Accounts port must do."""

from __future__ import annotations

from tests.contracts import fresh
from tidings.model import ApiKey, User
from tidings.stores.ports import Tables


class AccountsContract:
    async def test_a_profile_is_optional(self, tables: Tables) -> None:
        assert await tables.user(fresh("user")) is None

    async def test_a_profile_is_read_back_and_replaced(self, tables: Tables) -> None:
        user_id = fresh("user")
        for user in (User(user_id=user_id, name="Ann", avatar_url="u"), User(user_id=user_id, name=None)):
            await tables.put_user(user)
            assert await tables.user(user_id) == user

    async def test_a_revocation_never_goes_back(self, tables: Tables) -> None:
        user_id = fresh("user")
        await tables.put_user(User(user_id=user_id, tokens_valid_after=50))
        await tables.put_user(User(user_id=user_id, name="Ann", tokens_valid_after=0))
        assert await tables.user(user_id) == User(user_id=user_id, name="Ann", tokens_valid_after=50)
        await tables.put_user(User(user_id=user_id, tokens_valid_after=60))
        assert await tables.user(user_id) == User(user_id=user_id, tokens_valid_after=60)

    async def test_an_api_key_is_found_by_its_hash_alone(self, tables: Tables) -> None:
        key = ApiKey(key_hash=fresh("hash"), name="backend", role="admin", created_ms=5)
        assert await tables.api_key(key.key_hash) is None
        await tables.put_api_key(key)
        assert await tables.api_key(key.key_hash) == key
        assert await tables.api_key(fresh("hash")) is None

    async def test_the_store_has_an_epoch_that_stays(self, tables: Tables) -> None:
        epoch = await tables.store_epoch()
        assert epoch and await tables.store_epoch() == epoch

    async def test_ping_answers(self, tables: Tables) -> None:
        await tables.ping()
