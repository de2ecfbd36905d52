"""What every adapter of the Overrides port must do."""

from __future__ import annotations

import asyncio

from tests.contracts import fresh
from tidings.model import Override
from tidings.stores.ports_limits import Overrides


def override(name: str, **fields: object) -> Override:
    values: dict[str, object] = {"scope": "user", "class_name": "send", "count": 5, "window_s": 10, "changed_ms": 7}
    return Override(name=name, **(values | fields))  # type: ignore[arg-type]


async def named(overrides: Overrides, *names: str) -> list[Override]:
    return [one for one in await overrides.overrides() if one.name in names]


class OverridesContract:
    async def test_an_override_is_read_back_field_by_field(self, overrides: Overrides) -> None:
        name = fresh("user")
        put = override(name, scope="role", class_name="http", count=900, window_s=3600, changed_ms=12)
        await overrides.put_override(put)
        assert await named(overrides, name) == [put]

    async def test_no_limit_and_nothing_passes_are_two_things(self, overrides: Overrides) -> None:
        off, shut = override(fresh("off"), count=None), override(fresh("shut"), count=0)
        for one in (off, shut):
            await overrides.put_override(one)
        assert await named(overrides, off.name) == [off]
        assert await named(overrides, shut.name) == [shut]

    async def test_one_put_again_is_replaced_as_a_whole(self, overrides: Overrides) -> None:
        name = fresh("user")
        await overrides.put_override(override(name))
        newer = override(name, count=None, window_s=60, changed_ms=8)
        await overrides.put_override(newer)
        assert await named(overrides, name) == [newer]

    async def test_scope_name_and_class_tell_them_apart_and_order_them(self, overrides: Overrides) -> None:
        first, second = sorted((fresh("a"), fresh("a")))
        puts = [
            override(second, scope="user", class_name="read"),
            override(first, scope="user"),
            override(first, scope="key", class_name="http"),
            override(first, scope="role"),
            override(first, scope="user", class_name="read"),
        ]
        for one in puts:
            await overrides.put_override(one)
        wanted = sorted(puts, key=lambda one: (one.scope, one.name, one.class_name))
        assert await named(overrides, first, second) == wanted

    async def test_removing_takes_one_away_and_says_whether_there_was_one(self, overrides: Overrides) -> None:
        name = fresh("user")
        kept = override(name, class_name="read")
        for one in (override(name), kept):
            await overrides.put_override(one)
        assert await overrides.remove_override("user", name, "send")
        assert not await overrides.remove_override("user", name, "send")
        assert not await overrides.remove_override("role", name, "read")
        assert await named(overrides, name) == [kept]

    async def test_every_change_has_another_version_and_a_look_has_not(self, overrides: Overrides) -> None:
        name = fresh("user")
        versions = [await overrides.overrides_version()]
        await overrides.put_override(override(name))
        versions.append(await overrides.overrides_version())
        await overrides.put_override(override(name))
        versions.append(await overrides.overrides_version())
        await overrides.remove_override("user", name, "send")
        versions.append(await overrides.overrides_version())
        assert len(set(versions)) == 4
        await overrides.remove_override("user", name, "send")
        await overrides.overrides()
        assert await overrides.overrides_version() == versions[-1]

    async def test_changes_at_the_same_time_are_all_there(self, overrides: Overrides) -> None:
        names = [fresh("user") for _ in range(10)]
        await asyncio.gather(*(overrides.put_override(override(name)) for name in names))
        assert len(await named(overrides, *names)) == 10
