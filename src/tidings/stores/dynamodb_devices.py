"""Devices and pending deliveries on DynamoDB: two of the ports of ports_push.py, on the store of tables_dynamodb.py.

Guards: a push token is in one row only, so that a phone that changes hands never hears of its former owner's messages.
Beside the device rows the same table has one row per token, under a key that no user id can have, which names the
owner; both change in one transaction. Opened by wiring.py as `DynamoDevices(tables.store)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from tidings import bounds
from tidings.errors import Throttled
from tidings.model_push import Device, Waiting
from tidings.stores import dynamodb_pending
from tidings.stores.dynamodb_calls import Op, Store, delete, put, remove, update
from tidings.stores.dynamodb_items import attributes, from_item, plain, to_item, unique, values
from tidings.stores.dynamodb_wire import Canceled, ConditionFailed, Item

_TRIES_MAX = 20  # of a token that many claim at once
_OWNED = "#owner_id = :owner_id AND #owner_device = :owner_device"
_ABSENT = "attribute_not_exists(#user_id)"


class DynamoDevices:
    """The ports Devices and Pending. Their promises are written in ports_push.py."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._walk = dynamodb_pending.Walk(store)

    async def put_device(self, device: Device) -> None:
        await _put_device(self._store, device)

    async def devices(self, user_id: str) -> list[Device]:
        return await _devices(self._store, user_id)

    async def devices_of(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        named = unique(user_ids)
        found = await self._store.each(named, lambda user_id: _devices(self._store, user_id))
        return {user_id: devices for user_id, devices in zip(named, found, strict=True) if devices}

    async def touch_devices(self, seen: Mapping[tuple[str, str], int]) -> None:
        await _touch_devices(self._store, seen)

    async def remove_device(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        return await _remove_devices(self._store, user_id, device_id, token)

    async def put_waiting(self, rows: Sequence[Waiting]) -> None:
        await dynamodb_pending.put_waiting(self._store, rows)

    async def waiting(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        return await dynamodb_pending.waiting(self._store, conversation_id, user_ids)

    async def waiting_of(self, user_id: str) -> list[Waiting]:
        return await dynamodb_pending.waiting_of(self._store, user_id)

    async def clear_waiting(self, marks: Sequence[tuple[str, str, int]]) -> None:
        await dynamodb_pending.clear_waiting(self._store, marks)

    async def expire_waiting(self, now_ms: int) -> int:
        """Some rows at a time, from call to call through the whole table. What is over goes by DynamoDB's hand too."""
        return await self._walk.expire(now_ms)


def _key(user_id: str, device_id: str) -> Item:
    return attributes(user_id=user_id, device_id=device_id)


def _token_key(device: Device) -> Item:
    digest = hashlib.sha256(device.token.encode()).hexdigest()
    return _key(f"#{device.provider}#{digest}", "#")


def _owner(device: Device) -> Item:
    return values(owner_id=device.user_id, owner_device=device.device_id)


async def _devices(store: Store, user_id: str) -> list[Device]:
    pages = store.query("devices", "#user_id = :user_id", values(user_id=user_id))
    return [from_item(Device, item) for item in await store.all(pages)]


async def _device(store: Store, user_id: str, device_id: str) -> Device | None:
    item = await store.get("devices", _key(user_id, device_id))
    return from_item(Device, item) if item is not None else None


# --- put ------------------------------------------------------------------------------------------


async def _put_device(store: Store, device: Device) -> None:
    for _ in range(_TRIES_MAX):
        before = await _device(store, device.user_id, device.device_id)
        owned = await store.get("devices", _token_key(device))
        former = await _former(store, device, owned)
        try:
            await store.transact(_put_ops(device, before, owned, former))
        except Canceled:
            continue  # one of these rows moved meanwhile
        await _crowd_out(store, device)
        return
    raise Throttled("too many claim the same token")


async def _former(store: Store, device: Device, owned: Item | None) -> Device | None:
    """Another device that has the token now."""
    if owned is None:
        return None
    owner = plain(owned["owner_id"]), plain(owned["owner_device"])
    if owner == (device.user_id, device.device_id):
        return None
    found = await _device(store, *owner)
    return found if found is not None and _token_key(found) == _token_key(device) else None


def _put_ops(device: Device, before: Device | None, owned: Item | None, former: Device | None) -> list[Op]:
    """Each on the condition that it is as it was seen."""
    key, token_key = _key(device.user_id, device.device_id), _token_key(device)
    seen = (_ABSENT, None) if before is None else _with_token(before)
    owner = (_ABSENT, None) if owned is None else (_OWNED, {f":{name}": owned[name] for name in _OWNER})
    token_item = token_key | attributes(owner_id=device.user_id, owner_device=device.device_id)
    ops = [put("devices", key, to_item(device), *seen), put("devices", token_key, token_item, *owner)]
    if before is not None and _token_key(before) != token_key:
        ops.append(_drop_token(before))
    if former is not None:
        ops.append(delete("devices", _key(former.user_id, former.device_id), *_with_token(former)))
    return ops


_OWNER = ("owner_id", "owner_device")


def _with_token(device: Device) -> tuple[str, Item]:
    return "#token = :token AND #provider = :provider", values(token=device.token, provider=device.provider)


def _drop_token(device: Device) -> Op:
    return delete("devices", _token_key(device), f"{_ABSENT} OR ({_OWNED})", _owner(device))


async def _crowd_out(store: Store, device: Device) -> None:
    others = [each for each in await _devices(store, device.user_id) if each.device_id != device.device_id]
    others.sort(key=lambda each: (-each.last_seen_ms, each.device_id))
    for each in others[bounds.DEVICES_PER_USER_MAX - 1 :]:
        await _remove(store, each)


# --- touch ----------------------------------------------------------------------------------------


async def _touch_devices(store: Store, seen: Mapping[tuple[str, str], int]) -> None:
    """Most devices are not registered: they are looked at first, many at a time."""
    items = await store.batch_get("devices", [_key(*key) for key in seen])
    found = [from_item(Device, item) for item in items]
    behind = [one for one in found if one.last_seen_ms < seen[one.user_id, one.device_id]]
    await store.each(behind, lambda one: _touch(store, one, seen[one.user_id, one.device_id]))


async def _touch(store: Store, device: Device, seen_ms: int) -> None:
    later = "attribute_exists(#user_id) AND #last_seen_ms < :last_seen_ms"
    key, change = _key(device.user_id, device.device_id), "SET #last_seen_ms = :last_seen_ms"
    try:
        await store.write(update("devices", key, change, values(last_seen_ms=seen_ms), later))
    except ConditionFailed:
        pass  # it is gone, or was seen later still


# --- remove ---------------------------------------------------------------------------------------


async def _remove_devices(store: Store, user_id: str, device_id: str | None, token: str | None) -> int:
    found = [
        device
        for device in await _devices(store, user_id)
        if device_id in (None, device.device_id) and token in (None, device.token)
    ]
    return sum(await store.each(found, lambda device: _remove(store, device)))


async def _remove(store: Store, device: Device) -> bool:
    """False: it has another token meanwhile, or is gone."""
    row = delete("devices", _key(device.user_id, device.device_id), *_with_token(device))
    try:
        await store.transact([row, _drop_token(device)])
    except Canceled as canceled:
        # If the row is as it was, its token is another's by now, who has not taken the row away yet.
        return not canceled.reasons[0].is_failed and await remove(store, row)
    return True
