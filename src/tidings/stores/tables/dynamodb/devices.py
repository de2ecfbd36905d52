"""Devices on DynamoDB.

Guards: a push token is in one row only, so that a phone that changes hands never hears of its former owner's messages.
Beside the device rows the same table has one row per token, under a key that no user id can have, which names the
owner; both change in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from tidings import bounds
from tidings.errors import Throttled
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed, Item
from tidings.stores.tables.dynamodb.client.items import attributes, from_item, plain, to_item, unique, values
from tidings.stores.tables.dynamodb.client.operations import Op, Port, Store, delete, put, remove, update
from tidings.stores.tables.values import Device

_TRIES_MAX = 20  # of a token that many claim at once
_OWNED = "#owner_id = :owner_id AND #owner_device = :owner_device"
_ABSENT = "attribute_not_exists(#user_id)"


def _key(user_id: str, device_id: str) -> Item:
    return attributes(user_id=user_id, device_id=device_id)


def _token_key(device: Device) -> Item:
    digest = hashlib.sha256(device.token.encode()).hexdigest()
    return _key(f"#{device.provider}#{digest}", "#")


def token_item(device: Device) -> Item:
    """The row of the device's token. It names the owner."""
    return _token_key(device) | attributes(owner_id=device.user_id, owner_device=device.device_id)


def _owner(device: Device) -> Item:
    return values(owner_id=device.user_id, owner_device=device.device_id)


async def _devices(store: Store, user_id: str) -> list[Device]:
    pages = store.query("devices", "#user_id = :user_id", values(user_id=user_id))
    return [from_item(Device, item) for item in await store.all(pages)]


async def _device(store: Store, user_id: str, device_id: str) -> Device | None:
    item = await store.get("devices", _key(user_id, device_id))
    return from_item(Device, item) if item is not None else None


# --- put ------------------------------------------------------------------------------------------


class DynamoDevices(Port):
    async def of_user(self, user_id: str) -> list[Device]:
        return await _devices(self._store, user_id)

    async def of_users(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        named = unique(user_ids)
        found = await self._store.each(named, self.of_user)
        return {user_id: devices for user_id, devices in zip(named, found, strict=True) if devices}

    async def remove(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        return await _remove_devices(self._store, user_id, device_id, token)

    async def put(self, device: Device) -> tuple[str, str] | None:
        for _ in range(_TRIES_MAX):
            before = await _device(self._store, device.user_id, device.device_id)
            owned = await self._store.get("devices", _token_key(device))
            former = await _former(self._store, device, owned)
            try:
                await self._store.transact(_put_ops(device, before, owned, former))
            except Canceled:
                continue  # one of these rows moved meanwhile
            await _crowd_out(self._store, device)
            return (former.user_id, former.device_id) if former is not None else None
        raise Throttled("too many claim the same token")

    async def touch(self, seen: Mapping[tuple[str, str], int]) -> None:
        """Record when devices were seen. Most are not registered, so the rows are read first, many at a time."""
        items = await self._store.batch_get("devices", [_key(*key) for key in seen])
        found = [from_item(Device, item) for item in items]
        behind = [one for one in found if one.last_seen_ms < seen[one.user_id, one.device_id]]
        await self._store.each(behind, lambda one: _touch(self._store, one, seen[one.user_id, one.device_id]))


async def _former(store: Store, device: Device, owned: Item | None) -> Device | None:
    """Find another device that has the token now."""
    if owned is None:
        return None
    owner = plain(owned["owner_id"]), plain(owned["owner_device"])
    if owner == (device.user_id, device.device_id):
        return None
    found = await _device(store, *owner)
    return found if found is not None and _token_key(found) == _token_key(device) else None


def _put_ops(device: Device, before: Device | None, owned: Item | None, former: Device | None) -> list[Op]:
    """The changes of a put, each on the condition that its row is as it was read."""
    key, token_key = _key(device.user_id, device.device_id), _token_key(device)
    seen = (_ABSENT, None) if before is None else _with_token(before)
    owner = (_ABSENT, None) if owned is None else (_OWNED, {f":{name}": owned[name] for name in _OWNER})
    ops = [put("devices", key, to_item(device), *seen), put("devices", token_key, token_item(device), *owner)]
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
    """Remove a device. False: it has another token meanwhile, or is gone."""
    row = delete("devices", _key(device.user_id, device.device_id), *_with_token(device))
    try:
        await store.transact([row, _drop_token(device)])
    except Canceled as canceled:
        # If the row is as it was, another device has its token by now and has not removed the row yet.
        return not canceled.reasons[0].is_failed and await remove(store, row)
    return True
