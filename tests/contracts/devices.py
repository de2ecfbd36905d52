"""What every adapter of the Devices port must do. The fixture `devices` is the adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.contracts import fresh
from tidings.bounds import DEVICES_PER_USER_MAX
from tidings.model_push import Device
from tidings.stores.ports_push import Devices


def device(user_id: str, device_id: str = "phone", **fields: Any) -> Device:
    values: dict[str, Any] = {"provider": "apns", "token": fresh("token"), "registered_ms": 5, "last_seen_ms": 6}
    return Device(user_id=user_id, device_id=device_id, **(values | fields))


class DevicesContract:
    async def test_a_device_is_read_back_field_by_field(self, devices: Devices) -> None:
        user_id = fresh("user")
        put = device(user_id, provider="webpush", p256dh="key", auth="secret", registered_ms=7, last_seen_ms=8)
        await devices.put_device(put)
        assert await devices.devices(user_id) == [put]
        assert await devices.devices(fresh("user")) == []

    async def test_a_users_devices_come_by_name(self, devices: Devices) -> None:
        user_id = fresh("user")
        for name in ("tablet", "phone", "watch"):
            await devices.put_device(device(user_id, name))
        assert [one.device_id for one in await devices.devices(user_id)] == ["phone", "tablet", "watch"]

    async def test_devices_of_many_leaves_out_those_without(self, devices: Devices) -> None:
        first, second, third = fresh("user"), fresh("user"), fresh("user")
        mine = [device(first, "a"), device(first, "b")]
        other = device(third)
        for one in (*mine, other):
            await devices.put_device(one)
        assert await devices.devices_of(iter([third, second, first, first])) == {first: mine, third: [other]}
        assert await devices.devices_of([]) == {}

    async def test_a_device_put_again_has_its_new_token_alone(self, devices: Devices) -> None:
        user_id = fresh("user")
        await devices.put_device(device(user_id))
        newer = device(user_id, provider="fcm")
        await devices.put_device(newer)
        await devices.put_device(newer)
        assert await devices.devices(user_id) == [newer]

    async def test_a_token_belongs_to_whoever_registered_it_last(self, devices: Devices) -> None:
        former, owner, token = fresh("user"), fresh("user"), fresh("token")
        for one in (device(former, token=token), device(former, "tablet"), device(owner, token=token)):
            await devices.put_device(one)
        assert [one.device_id for one in await devices.devices(former)] == ["tablet"]
        renamed = device(owner, "new-name", token=token)
        await devices.put_device(renamed)
        assert await devices.devices(owner) == [renamed]

    async def test_a_device_is_seen_later_and_never_earlier_and_nobody_appears(self, devices: Devices) -> None:
        user_id, stranger = fresh("user"), fresh("user")
        phone, tablet = device(user_id, last_seen_ms=10), device(user_id, "tablet", last_seen_ms=10)
        for one in (phone, tablet):
            await devices.put_device(one)
        await devices.touch_devices({(user_id, "phone"): 20, (user_id, "tablet"): 5, (stranger, "phone"): 30})
        await devices.touch_devices({})
        assert await devices.devices(user_id) == [msgspec.structs.replace(phone, last_seen_ms=20), tablet]
        assert await devices.devices(stranger) == []

    async def test_the_same_token_of_another_provider_is_another_token(self, devices: Devices) -> None:
        user_id, token = fresh("user"), fresh("token")
        await devices.put_device(device(user_id, "a", token=token, provider="apns"))
        await devices.put_device(device(user_id, "b", token=token, provider="fcm"))
        assert len(await devices.devices(user_id)) == 2

    async def test_a_device_is_removed_by_name_by_token_or_by_both(self, devices: Devices) -> None:
        user_id = fresh("user")
        one, two, three = (device(user_id, name) for name in ("a", "b", "c"))
        for put in (one, two, three):
            await devices.put_device(put)
        assert await devices.remove_device(user_id, device_id="a") == 1
        assert await devices.remove_device(user_id, token=two.token) == 1
        assert await devices.remove_device(user_id, device_id="c", token="an older token") == 0
        assert await devices.devices(user_id) == [three]
        assert await devices.remove_device(user_id, device_id="c", token=three.token) == 1
        assert await devices.remove_device(user_id, device_id="c") == 0

    async def test_removing_reaches_nobody_elses_devices(self, devices: Devices) -> None:
        user_id, other_id = fresh("user"), fresh("user")
        theirs = device(other_id)
        for one in (device(user_id, "a"), device(user_id, "b"), theirs):
            await devices.put_device(one)
        assert await devices.remove_device(user_id, token=theirs.token) == 0
        assert await devices.remove_device(user_id) == 2
        assert await devices.devices(other_id) == [theirs]

    async def test_the_device_not_seen_for_longest_makes_room(self, devices: Devices) -> None:
        user_id = fresh("user")
        for number in range(DEVICES_PER_USER_MAX):
            await devices.put_device(device(user_id, f"d{number:02}", last_seen_ms=1000 - number))
        await devices.put_device(device(user_id, "newcomer", last_seen_ms=1))
        names = {one.device_id for one in await devices.devices(user_id)}
        assert len(names) == DEVICES_PER_USER_MAX and "newcomer" in names
        assert f"d{DEVICES_PER_USER_MAX - 1:02}" not in names

    async def test_of_many_who_claim_a_token_at_once_one_has_it(self, devices: Devices) -> None:
        token, users = fresh("token"), [fresh("user") for _ in range(10)]
        await asyncio.gather(*(devices.put_device(device(user_id, token=token)) for user_id in users))
        assert sum(map(len, (await devices.devices_of(users)).values())) == 1
