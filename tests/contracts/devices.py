"""What every adapter of the Devices port must do. The fixture `devices` is the adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.contracts import fresh
from tidings.bounds import DEVICES_PER_USER_MAX
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Device


def device(user_id: str, device_id: str = "phone", **fields: Any) -> Device:
    values: dict[str, Any] = {"provider": "apns", "token": fresh("token"), "registered_ms": 5, "last_seen_ms": 6}
    return Device(user_id=user_id, device_id=device_id, **(values | fields))


class DevicesContract:
    async def test_a_device_is_read_back_field_by_field(self, tables: Tables) -> None:
        user_id = fresh("user")
        put = device(user_id, provider="webpush", p256dh="key", auth="secret", registered_ms=7, last_seen_ms=8)
        await tables.devices.put(put)
        assert await tables.devices.of_user(user_id) == [put]
        assert await tables.devices.of_user(fresh("user")) == []

    async def test_a_users_devices_come_by_name(self, tables: Tables) -> None:
        user_id = fresh("user")
        for name in ("tablet", "phone", "watch"):
            await tables.devices.put(device(user_id, name))
        assert [one.device_id for one in await tables.devices.of_user(user_id)] == ["phone", "tablet", "watch"]

    async def test_devices_of_many_leaves_out_those_without(self, tables: Tables) -> None:
        first, second, third = fresh("user"), fresh("user"), fresh("user")
        mine = [device(first, "a"), device(first, "b")]
        other = device(third)
        for one in (*mine, other):
            await tables.devices.put(one)
        assert await tables.devices.of_users(iter([third, second, first, first])) == {first: mine, third: [other]}
        assert await tables.devices.of_users([]) == {}

    async def test_a_device_put_again_has_its_new_token_alone(self, tables: Tables) -> None:
        user_id = fresh("user")
        await tables.devices.put(device(user_id))
        newer = device(user_id, provider="fcm")
        await tables.devices.put(newer)
        await tables.devices.put(newer)
        assert await tables.devices.of_user(user_id) == [newer]

    async def test_a_token_belongs_to_whoever_registered_it_last(self, tables: Tables) -> None:
        former, owner, token = fresh("user"), fresh("user"), fresh("token")
        for one in (device(former, token=token), device(former, "tablet")):
            assert await tables.devices.put(one) is None
        assert await tables.devices.put(device(owner, token=token)) == (former, "phone")
        assert [one.device_id for one in await tables.devices.of_user(former)] == ["tablet"]
        renamed = device(owner, "new-name", token=token)
        assert await tables.devices.put(renamed) == (owner, "phone")
        assert await tables.devices.put(renamed) is None
        assert await tables.devices.of_user(owner) == [renamed]

    async def test_a_device_is_seen_later_and_never_earlier_and_nobody_appears(self, tables: Tables) -> None:
        user_id, stranger = fresh("user"), fresh("user")
        phone, tablet = device(user_id, last_seen_ms=10), device(user_id, "tablet", last_seen_ms=10)
        for one in (phone, tablet):
            await tables.devices.put(one)
        await tables.devices.touch({(user_id, "phone"): 20, (user_id, "tablet"): 5, (stranger, "phone"): 30})
        await tables.devices.touch({})
        assert await tables.devices.of_user(user_id) == [msgspec.structs.replace(phone, last_seen_ms=20), tablet]
        assert await tables.devices.of_user(stranger) == []

    async def test_the_same_token_of_another_provider_is_another_token(self, tables: Tables) -> None:
        user_id, token = fresh("user"), fresh("token")
        await tables.devices.put(device(user_id, "a", token=token, provider="apns"))
        await tables.devices.put(device(user_id, "b", token=token, provider="fcm"))
        assert len(await tables.devices.of_user(user_id)) == 2

    async def test_a_device_is_removed_by_name_by_token_or_by_both(self, tables: Tables) -> None:
        user_id = fresh("user")
        one, two, three = (device(user_id, name) for name in ("a", "b", "c"))
        for put in (one, two, three):
            await tables.devices.put(put)
        assert await tables.devices.remove(user_id, device_id="a") == 1
        assert await tables.devices.remove(user_id, token=two.token) == 1
        assert await tables.devices.remove(user_id, device_id="c", token="an older token") == 0
        assert await tables.devices.of_user(user_id) == [three]
        assert await tables.devices.remove(user_id, device_id="c", token=three.token) == 1
        assert await tables.devices.remove(user_id, device_id="c") == 0

    async def test_removing_reaches_nobody_elses_devices(self, tables: Tables) -> None:
        user_id, other_id = fresh("user"), fresh("user")
        theirs = device(other_id)
        for one in (device(user_id, "a"), device(user_id, "b"), theirs):
            await tables.devices.put(one)
        assert await tables.devices.remove(user_id, token=theirs.token) == 0
        assert await tables.devices.remove(user_id) == 2
        assert await tables.devices.of_user(other_id) == [theirs]

    async def test_the_device_not_seen_for_longest_makes_room(self, tables: Tables) -> None:
        user_id = fresh("user")
        for number in range(DEVICES_PER_USER_MAX):
            await tables.devices.put(device(user_id, f"d{number:02}", last_seen_ms=1000 - number))
        await tables.devices.put(device(user_id, "newcomer", last_seen_ms=1))
        names = {one.device_id for one in await tables.devices.of_user(user_id)}
        assert len(names) == DEVICES_PER_USER_MAX and "newcomer" in names
        assert f"d{DEVICES_PER_USER_MAX - 1:02}" not in names

    async def test_of_many_who_claim_a_token_at_once_one_has_it(self, tables: Tables) -> None:
        token, users = fresh("token"), [fresh("user") for _ in range(10)]
        await asyncio.gather(*(tables.devices.put(device(user_id, token=token)) for user_id in users))
        assert sum(map(len, (await tables.devices.of_users(users)).values())) == 1
