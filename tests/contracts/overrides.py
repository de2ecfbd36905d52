"""What every adapter of the Overrides port must do."""

from __future__ import annotations

import asyncio

from tests.contracts import fresh
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Override


def override(name: str, **fields: object) -> Override:
    values: dict[str, object] = {"scope": "user", "class_name": "send", "count": 5, "window_s": 10, "changed_ms": 7}
    return Override(name=name, **(values | fields))  # type: ignore[arg-type]


async def named(tables: Tables, *names: str) -> list[Override]:
    return [one for one in await tables.overrides.all() if one.name in names]


class OverridesContract:
    async def test_an_override_is_read_back_field_by_field(self, tables: Tables) -> None:
        name = fresh("user")
        put = override(name, scope="role", class_name="http", count=900, window_s=3600, changed_ms=12)
        await tables.overrides.put(put)
        assert await named(tables, name) == [put]

    async def test_no_limit_and_nothing_passes_are_two_things(self, tables: Tables) -> None:
        off, shut = override(fresh("off"), count=None), override(fresh("shut"), count=0)
        for one in (off, shut):
            await tables.overrides.put(one)
        assert await named(tables, off.name) == [off]
        assert await named(tables, shut.name) == [shut]

    async def test_one_put_again_is_replaced_as_a_whole(self, tables: Tables) -> None:
        name = fresh("user")
        await tables.overrides.put(override(name))
        newer = override(name, count=None, window_s=60, changed_ms=8)
        await tables.overrides.put(newer)
        assert await named(tables, name) == [newer]

    async def test_scope_name_and_class_tell_them_apart_and_order_them(self, tables: Tables) -> None:
        first, second = sorted((fresh("a"), fresh("a")))
        puts = [
            override(second, scope="user", class_name="read"),
            override(first, scope="user"),
            override(first, scope="key", class_name="http"),
            override(first, scope="role"),
            override(first, scope="user", class_name="read"),
        ]
        for one in puts:
            await tables.overrides.put(one)
        wanted = sorted(puts, key=lambda one: (one.scope, one.name, one.class_name))
        assert await named(tables, first, second) == wanted

    async def test_removing_takes_one_away_and_says_whether_there_was_one(self, tables: Tables) -> None:
        name = fresh("user")
        kept = override(name, class_name="read")
        for one in (override(name), kept):
            await tables.overrides.put(one)
        assert await tables.overrides.remove("user", name, "send")
        assert not await tables.overrides.remove("user", name, "send")
        assert not await tables.overrides.remove("role", name, "read")
        assert await named(tables, name) == [kept]

    async def test_every_change_has_another_version_and_a_look_has_not(self, tables: Tables) -> None:
        name = fresh("user")
        versions = [await tables.overrides.version()]
        await tables.overrides.put(override(name))
        versions.append(await tables.overrides.version())
        await tables.overrides.put(override(name))
        versions.append(await tables.overrides.version())
        await tables.overrides.remove("user", name, "send")
        versions.append(await tables.overrides.version())
        assert len(set(versions)) == 4
        await tables.overrides.remove("user", name, "send")
        await tables.overrides.all()
        assert await tables.overrides.version() == versions[-1]

    async def test_changes_at_the_same_time_are_all_there(self, tables: Tables) -> None:
        names = [fresh("user") for _ in range(10)]
        await asyncio.gather(*(tables.overrides.put(override(name)) for name in names))
        assert len(await named(tables, *names)) == 10
