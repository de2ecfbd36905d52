"""Lists of users and conversations: found by a part of id or name, in pages, and never with a text."""

from __future__ import annotations

import pytest

from tidings.errors import BadCursor
from tidings.model import User
from tidings.node.graph import Core
from tidings.operators import listing
from tidings.operators.listing import Listing


def listing_of(core: Core) -> Listing:
    return Listing(core.tables, core.registry)


async def group(core: Core, owner: str, members: list[str], name: str) -> str:
    view, _ = await core.directory.create(owner, kind="group", members=members, name=name)
    return view.head.conversation_id


async def test_users_are_found_by_a_part_of_their_id_or_name(core: Core) -> None:
    await group(core, "alice", ["bob", "u7"], "trip")
    await core.tables.accounts.put_user(User(user_id="u7", name="Élodie Martin"))
    lists = listing_of(core)
    assert [one.user_id for one in (await lists.users("", None)).users] == ["alice", "bob", "u7"]
    for query in ("mart", "ELODIE", "u7"):
        assert [(one.user_id, one.name) for one in (await lists.users(query, None)).users] == [("u7", "Élodie Martin")]
    assert (await lists.users("nobody", None)).users == []


async def test_a_user_without_a_conversation_is_found_by_the_whole_id(core: Core) -> None:
    await core.tables.accounts.put_user(User(user_id="lonely", name="Lonely"))
    assert [one.user_id for one in (await listing_of(core).users("lonely", None)).users] == ["lonely"]
    assert (await listing_of(core).users("lone", None)).users == []


async def test_conversations_are_found_by_a_part_of_their_name_or_id(core: Core) -> None:
    trip = await group(core, "alice", ["bob"], "Trip to Zürich")
    work = await group(core, "alice", ["bob"], "Work")
    lists = listing_of(core)
    assert {one.conversation_id for one in (await lists.conversations("", None)).conversations} == {trip, work}
    for query in ("zurich", trip[3:12]):
        assert [one.conversation_id for one in (await lists.conversations(query, None)).conversations] == [trip]


async def test_pages_follow_each_other_without_gaps_and_repeats(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "ADMIN_SCAN_ROWS", 2)
    monkeypatch.setattr(listing, "ADMIN_SCAN_PAGES", 1)
    made = {await group(core, "alice", [f"m{number}"], f"group {number}") for number in range(5)}
    lists, seen, cursor = listing_of(core), list[str](), None
    while True:
        page = await lists.conversations("group", cursor)
        seen += [one.conversation_id for one in page.conversations]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(made)
    people, cursor = list[str](), None
    while True:
        found = await lists.users("m", cursor)
        people += [one.user_id for one in found.users]
        if (cursor := found.next_cursor) is None:
            break
    assert people == [f"m{number}" for number in range(5)]


@pytest.mark.parametrize("cursor", ["nonsense", "AAAA", "é", "=", "bm90IG91cnM="])
async def test_a_cursor_that_was_made_up_is_refused(core: Core, cursor: str) -> None:
    for ask in (listing_of(core).users, listing_of(core).conversations):
        with pytest.raises(BadCursor):
            await ask("", cursor)
