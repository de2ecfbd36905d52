from __future__ import annotations

import asyncio

from tests.messaging.unread.test_unread import fail_once
from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.names import fold
from tidings.model import User


async def ids(names: NameIndex, beginning: str) -> list[str]:
    return [user_id async for found in names.user_ids(beginning) for user_id in found]


async def entered(names: NameIndex, user_id: str) -> None:
    """Wait until the sign-in of a user is in the index."""
    async with asyncio.timeout(60):
        while user_id not in await ids(names, fold(user_id)):
            await asyncio.sleep(0.01)


async def test_a_profile_is_found_by_the_beginning_of_its_words(a: FaultyNode) -> None:
    names = a.core.names
    await names.put_user(User(user_id="u1", name="Ada Lovelace"), User(user_id="u1"))
    assert await ids(names, "lov") == ["u1"] == await ids(names, "lovelace") == await ids(names, "u")
    assert await ids(names, "lovelacex") == [] == await ids(names, "ov")
    assert set(await ids(names, "")) == {"u1"}


async def test_a_new_name_replaces_the_old_one(a: FaultyNode) -> None:
    names, before = a.core.names, User(user_id="u1", name="Ada Byron")
    await names.put_user(before, User(user_id="u1"))
    await names.put_user(User(user_id="u1", name="Ada Lovelace"), before)
    assert await ids(names, "byron") == [] and await ids(names, "ada") == ["u1"]
    await names.forget(User(user_id="u1", name="Ada Lovelace"))
    assert await ids(names, "") == []


async def test_a_sign_in_completes_the_entries_and_one_that_failed_is_tried_again(a: FaultyNode) -> None:
    names = a.core.names
    await a.tables.accounts.put_user(User(user_id="u2", name="Grace Hopper"))
    fail_once(a.tables.records, "get", down)
    names.signed_in("u2")
    async with asyncio.timeout(60):
        while not await ids(names, "hopper"):
            names.signed_in("u2")
            await asyncio.sleep(0.01)
    names.signed_in("u3")
    await entered(names, "u3")
    await names.close()


async def test_many_people_with_one_name_are_read_in_several_reads(a: FaultyNode) -> None:
    names = a.core.names
    for n in range(205):
        await names.put_user(User(user_id=f"u{n:03}", name="Kim"), User(user_id=f"u{n:03}"))
    assert await ids(names, "kim") == [f"u{n:03}" for n in range(205)]
