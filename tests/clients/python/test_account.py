from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidings.testing import TestServer
from tidings_client import LastMessage, Preferences
from tidings_client.bounds import REST_S
from tidings_client.connection.http import Answer, Http
from tidings_client.errors import Forbidden, NotFound


async def test_conversations_are_created_changed_and_left(server: TestServer) -> None:
    alice, bob = (server.server().account(name) for name in ("alice", "bob"))
    group = await alice.create("group", ["bob"], name="trip", history="all")
    assert {member.user_id: member.role for member in group.members} == {"alice": "owner", "bob": "member"}
    name = group.conversation_id
    assert (await alice.rename(name, "journey")).name == "journey"
    assert len((await alice.add(name, ["carol"])).members) == 3
    await alice.set_role(name, "bob", "admin")
    await bob.remove(name, "carol")
    with pytest.raises(Forbidden):
        await bob.delete_conversation(name)
    await bob.remove(name, "bob")
    with pytest.raises(NotFound):
        await bob.conversation(name)
    await alice.delete_conversation(name)
    with pytest.raises(NotFound):
        await alice.conversation(name)


async def test_a_call_that_adds_many_members_may_be_silent_for_longer(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    request = Http.request

    async def heard(self: Http, method: str, url: str, *, quiet_s: float = REST_S, **given: Any) -> Answer:
        waited.append(quiet_s)
        return await request(self, method, url, quiet_s=quiet_s, **given)

    monkeypatch.setattr(Http, "request", heard)
    alice = server.server().account("alice")
    group = await alice.create("group", ["bob"], name="trip")
    added = await alice.add(group.conversation_id, [f"u{n}" for n in range(500)])
    assert len(added.members) == 502 and waited == [REST_S, REST_S + 5]


async def test_people_are_blocked_invited_and_asked(server: TestServer) -> None:
    alice, bob = (server.server().account(name) for name in ("alice", "bob"))
    name = await alice.direct("bob")
    await bob.block("alice")
    assert [one.user_id for one in await bob.blocks()] == ["alice"]
    with pytest.raises(Forbidden):
        await alice.send(name, "hello")
    await bob.unblock("alice")
    assert await bob.blocks() == [] and (await alice.send(name, "hello")).seq == 1
    chosen = Preferences(who_may_write="nobody", who_may_add="shared")
    assert await bob.set_preferences(chosen) == chosen == await bob.preferences()
    assert (await bob.accept(name)).conversation_id == name, "there is nothing to accept, and no error"


async def test_a_direct_pair_has_one_conversation(server: TestServer) -> None:
    backend = server.server()
    assert await backend.account("alice").direct("bob") == await backend.account("bob").direct("alice")


async def test_messages_are_sent_edited_deleted_and_read(server: TestServer) -> None:
    alice, bob = (server.server().account(name) for name in ("alice", "bob"))
    name = await alice.direct("bob")
    first = await alice.send(name, "helo", message_id="m1", ts=5)
    assert (await alice.send(name, "helo", message_id="m1")).duplicate
    await alice.edit(name, first.seq, "hello")
    second = await alice.send(name, "oops")
    await alice.delete(name, second.seq)
    entries = [entry async for entry in bob.history(name)]
    assert [(entry.kind, entry.text) for entry in entries[::-1]] == [
        ("message", "hello"), ("edit", "hello"), ("message", None), ("delete", None),
    ]  # fmt: skip
    assert entries[-1].ts == 5
    assert (await bob.unread()).total_unread == 1
    why = await bob.explain_unread(name)
    assert (why.entries, why.other, why.deleted, why.unread, why.unread_count) == (4, 2, 1, 1, 1)
    assert (await bob.inbox()).conversations[0].last_message == LastMessage(3, "alice", "message", deleted=True)
    assert (await bob.page(name, is_first_unread=True)).first_unread_seq == 1
    assert (await bob.mark_read(name)).unread_count == 0
    assert (await alice.receipts(name, 1)).read == ["bob"]
    page = await alice.receipts(name, 1, limit=1)
    assert (page.read, page.next_cursor) == ([], "alice"), "the sender has no receipt"
    assert (await alice.receipts(name, 1, cursor=page.next_cursor)).read == ["bob"]
    assert (await bob.mark_unread(name, 1)).unread_count == 1
    assert (await bob.mark_read(name, seqs=[1])).unread_count == 0


async def test_history_goes_back_over_many_pages(server: TestServer) -> None:
    alice = server.server().account("alice")
    name = await alice.direct("bob")
    await asyncio.gather(*(alice.send(name, f"{n}") for n in range(130)))
    assert [entry.seq async for entry in alice.history(name)] == list(range(130, 0, -1))
    assert [entry.seq async for entry in alice.history(name, before_seq=3)] == [2, 1]


async def test_the_inbox_is_walked_to_its_end_and_flagged(server: TestServer) -> None:
    alice = server.server().account("alice")
    names = [(await alice.create("group", [], name=f"{n}")).conversation_id for n in range(3)]
    assert {row.conversation_id async for row in alice.conversations()} == set(names)
    assert (await alice.flag(names[0], muted=True, pinned=True)).muted
    page = await alice.inbox(limit=2)
    assert len(page.conversations) == 2 and page.next_cursor is not None
    assert len((await alice.inbox(cursor=page.next_cursor)).conversations) == 1


async def test_people_have_profiles_presence_and_budgets(server: TestServer) -> None:
    alice = await server.client("alice")
    await server.client("bob")
    assert (await alice.set_profile("alice", name="Alice")).name == "Alice"
    assert (await alice.profile("alice")).name == "Alice"
    name = await alice.direct("bob")
    assert [one.user_id for one in await alice.profiles(name)] == ["alice"], "nothing of bob before a message"
    await alice.send(name, "hello")
    assert [(person.user_id, person.online) for person in await alice.presence(name)] == [("bob", True)]
    assert [(one.user_id, one.name) for one in await alice.profiles(name)] == [("alice", "Alice"), ("bob", None)]
    assert [one.user_id for one in await alice.profiles(name, ["bob", "eve"])] == ["bob"]
    assert [one.user_id for one in await alice.find_people("bo", limit=5)] == ["bob"]
    people = await alice.members(name, limit=1)
    assert ([one.user_id for one in people.members], people.next_cursor) == (["alice"], "alice")
    assert [one.user_id for one in (await alice.members(name, cursor="alice")).members] == ["bob"]
    async with asyncio.timeout(60):
        while not (page := await alice.search("hello", conversation_id=name)).hits:
            await asyncio.sleep(0.05)
    assert page.hits[0].conversation_id == name and page.hits[0].snippet[0][1]
    assert (await alice.rate_limits()).rate_limits["send"].limit > 0
