"""users, api_keys and the store's identity on DynamoDB. The identity is made by the node that comes first."""

from __future__ import annotations

from collections.abc import Iterable

from tidings.clock import Clock
from tidings.errors import Throttled
from tidings.model import User
from tidings.stores.tables.dynamodb.client.client import ConditionFailed
from tidings.stores.tables.dynamodb.client.items import attributes, from_item, plain, to_item, unique
from tidings.stores.tables.dynamodb.client.operations import Store, assign, delete, put, remove, update
from tidings.stores.tables.values import ApiKey

_TRIES_MAX = 20  # of a row that others change all the time
_KEYS_PAGE = 100  # api_keys in one read


class DynamoAccounts:
    def __init__(self, store: Store, store_epoch: str, secret: str) -> None:
        self._store = store
        self._store_epoch = store_epoch
        self._secret = secret

    async def store_epoch(self) -> str:
        return self._store_epoch

    @property
    def secret(self) -> str:
        return self._secret

    async def user(self, user_id: str) -> User | None:
        item = await self._store.get("users", attributes(user_id=user_id))
        return from_item(User, item) if item is not None else None

    async def users(self, user_ids: Iterable[str]) -> dict[str, User]:
        keys = [attributes(user_id=user_id) for user_id in unique(user_ids)]
        found = [from_item(User, item) for item in await self._store.batch_get("users", keys)]
        return {user.user_id: user for user in found}

    async def put_user(self, user: User) -> None:
        key, since = attributes(user_id=user.user_id), user.tokens_valid_after
        fields: dict[str, object] = {"name": user.name, "avatar_url": user.avatar_url}
        change, held = assign({**fields, "tokens_valid_after": since})
        later = "attribute_not_exists(#user_id) OR #tokens_valid_after <= :tokens_valid_after"
        try:
            await self._store.write(update("users", key, change, held, later))
        except ConditionFailed:
            # A revocation that is later stays; it never goes back, so no condition is needed any more.
            change, held = assign(fields)
            await self._store.write(update("users", key, change, held))

    async def api_key(self, key_hash: str) -> ApiKey | None:
        item = await self._store.get("api_keys", attributes(key_hash=key_hash))
        return from_item(ApiKey, item) if item is not None else None

    async def put_api_key(self, key: ApiKey) -> None:
        await self._store.write(put("api_keys", attributes(key_hash=key.key_hash), to_item(key)))

    async def api_keys(self) -> list[ApiKey]:
        found = [from_item(ApiKey, item) for item in await self._store.all(self._store.scan("api_keys", _KEYS_PAGE))]
        return sorted(found, key=lambda key: (key.name, key.created_ms, key.key_hash))

    async def remove_api_key(self, key_hash: str) -> bool:
        return await remove(
            self._store, delete("api_keys", attributes(key_hash=key_hash), "attribute_exists(#key_hash)")
        )


async def store_epoch(store: Store, clock: Clock) -> str:
    return await _made_once(store, "store_epoch", clock.random_id())


async def secret(store: Store, clock: Clock) -> str:
    return await _made_once(store, "secret", clock.random_id(32))


async def _made_once(store: Store, name: str, value: str) -> str:
    """Read the value of a row of `meta`. If there is no row yet, write this value first."""
    key = attributes(key=name)
    made = put("meta", key, key | attributes(value=value), "attribute_not_exists(#key)")
    for _ in range(_TRIES_MAX):
        item = await store.get("meta", key)
        if item is not None:
            return str(plain(item["value"]))
        try:
            await store.write(made)
        except ConditionFailed:
            continue  # another node was first, or a try of ours that got no answer
    raise Throttled(f"the row {name} of meta comes and goes")


async def renew_epoch(store: Store, clock: Clock) -> str:
    """Give tables that were restored from a copy another epoch: numbers from after the copy count no more."""
    epoch = clock.random_id()
    key = attributes(key="store_epoch")
    await store.write(put("meta", key, key | attributes(value=epoch)))
    return epoch
