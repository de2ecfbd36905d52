from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.messaging.people.test_name_index import entered
from tests.support.messaging.faulty_stores import FaultyNode
from tidings.config.settings import Settings
from tidings.errors import Forbidden
from tidings.model import User
from tidings.node import graph
from tidings.node.graph import Core


@pytest.fixture
async def everybody(settings: Settings) -> AsyncIterator[Core]:
    """A node on which everybody finds everybody."""
    async with graph.open_core(dataclasses.replace(settings, directory="all")) as core:
        yield core


async def found(core: Core, user_id: str, query: str, limit: int = 20) -> list[str]:
    return [person.user_id for person in await core.people.find(user_id, query, limit)]


async def test_everybody_is_found_by_name_and_nobody_finds_oneself(everybody: Core) -> None:
    for user_id, name in (("u1", "Élodie García"), ("u2", "Elo Zwei"), ("u3", "Bob")):
        await everybody.directory.introduce(User(user_id=user_id, name=name, avatar_url="https://p.test/a"))
    assert await found(everybody, "me", "elo") == ["u2", "u1"], "by name"
    assert await found(everybody, "me", "GARCIA élo") == ["u1"]
    assert await found(everybody, "u1", "elo") == ["u2"]
    assert await found(everybody, "me", "elo", limit=1) == ["u2"]
    assert await found(everybody, "me", "") == ["u3", "u2", "u1"]
    [bob] = await everybody.people.find("me", "bo", 20)
    assert (bob.name, bob.avatar_url, bob.online) == ("Bob", "https://p.test/a", False)


async def test_a_user_without_a_profile_is_found_after_a_sign_in(everybody: Core) -> None:
    assert await found(everybody, "me", "newcomer") == []
    everybody.people.signed_in("Newcomer")
    await entered(everybody.names, "Newcomer")
    assert await found(everybody, "me", "newc") == ["Newcomer"]
    await everybody.names.close()


async def test_an_entry_that_is_left_over_shows_nobody(everybody: Core) -> None:
    await everybody.directory.introduce(User(user_id="u1", name="Old"))
    await everybody.tables.accounts.put_user(User(user_id="u1", name="New"))
    assert await found(everybody, "me", "old") == []


async def test_a_block_hides_that_somebody_is_online(everybody: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_online(user_ids: list[str]) -> dict[str, bool]:
        return dict.fromkeys(user_ids, True)

    monkeypatch.setattr(everybody.registry, "is_online", is_online)
    await everybody.directory.introduce(User(user_id="bob", name="Bob"))
    assert [one.online for one in await everybody.people.find("mallory", "bob", 20)] == [True]
    await everybody.blocks.block("bob", "mallory")
    assert [one.online for one in await everybody.people.find("mallory", "bob", 20)] == [False]


async def test_by_default_only_people_of_shared_conversations_are_found(a: FaultyNode, group: str) -> None:
    await a.core.directory.introduce(User(user_id="stranger", name="Bob Stranger"))
    await a.core.directory.introduce(User(user_id="bob", name="Bob"))
    assert await found(a.core, "alice", "bob") == ["bob"]
    assert await found(a.core, "stranger", "") == []
    await a.core.directory.remove("alice", group, "bob")
    assert await found(a.core, "alice", "bob") == []
    assert await found(a.core, "bob", "") == []


async def test_a_direct_conversation_without_a_message_shows_nobody(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("zoe", kind="direct", members=["yves"])
    assert await found(a.core, "zoe", "") == []
    await a.send("zoe", view.head.conversation_id, "m1")
    assert await found(a.core, "zoe", "y") == ["yves"]
    await a.core.blocks.block("yves", "zoe")
    assert await found(a.core, "zoe", "y") == []


async def test_a_directory_that_is_off_finds_nobody(settings: Settings) -> None:
    async with graph.open_core(dataclasses.replace(settings, directory="off")) as core:
        with pytest.raises(Forbidden):
            await core.people.find("alice", "bob", 20)


async def test_with_dev_everybody_is_found(settings: Settings) -> None:
    async with graph.open_core(dataclasses.replace(settings, dev=True)) as core:
        await core.directory.introduce(User(user_id="bob", name="Bob"))
        assert await found(core, "alice", "b") == ["bob"]
