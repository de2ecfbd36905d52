"""Verify recomputes from the tables: it finds nothing where nothing is wrong, and whatever was made wrong."""

from __future__ import annotations

import json

import pytest

from tests.support.messaging.big_inboxes import put_many
from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.warm_index_checks import check_warm, marks_of, say
from tidings.messaging.unread.verify import Report, Wrong
from tidings.model import Totals
from tidings.node.graph import Core


async def change_mark(node: FaultyNode, user_id: str, conversation_id: str, at: int, value: int) -> None:
    """Writes a number into a mark: 0 version, 1 cursor, 2 seen, 3 count, 4 first, 5 floor."""
    key = node.core.keys.mark(user_id)
    parts = json.loads(await node.command("HGET", key, conversation_id))
    parts[at] = value
    await node.command("HSET", key, conversation_id, json.dumps(parts, separators=(",", ":")))


@pytest.fixture
async def warm(a: FaultyNode, group: str) -> str:
    """Two messages unread by bob and carol; everybody is warm."""
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    for user_id in ("alice", "bob", "carol"):
        await a.unread(user_id)
    return group


async def test_nothing_is_found_where_nothing_is_wrong(a: FaultyNode, warm: str) -> None:
    assert await a.core.verify.run(None, repair=False) == Report(3, 3, 0, 0, [])


@pytest.mark.parametrize(
    ("at", "value", "found"),
    [
        (3, 1, [("unread", 2, 1)]),
        (3, 7, [("unread", 2, 7)]),
        (1, 1, [("read_seq", 0, 1)]),
        (4, 2, [("first_unread", 1, 2)]),
        (5, 1, [("unread", 2, 10_000), ("unread_capped", 0, 1)]),
    ],
)
async def test_a_wrong_mark_is_found_and_repaired(
    a: FaultyNode, warm: str, at: int, value: int, found: list[tuple[str, int, int]]
) -> None:
    await change_mark(a, "bob", warm, at, value)
    expected = [Wrong("bob", warm, *one) for one in found]
    assert (await a.core.verify.run(None, repair=False)).wrong == expected
    report = await a.core.verify.run(None, repair=True)
    assert (report.wrong, report.repaired) == (expected, 1)
    assert await a.wrong() == []
    assert await a.core.unread.totals("bob") == Totals(2, 1)
    assert await check_warm(a.core, "bob")


@pytest.mark.parametrize(
    ("field", "value", "what", "expected"),
    [(":unread", "5", "total_unread", 2), (":more", "0 5 0 0 0 0 0", "total_mentions", 0)],
)
async def test_wrong_totals_are_found(
    a: FaultyNode, warm: str, field: str, value: str, what: str, expected: int
) -> None:
    await a.command("HSET", a.core.keys.mark("bob"), field, value)
    assert (await a.core.verify.run(None, repair=False)).wrong == [Wrong("bob", "", what, expected, 5)]


async def test_a_conversation_out_of_its_place_is_found(a: FaultyNode, warm: str) -> None:
    await a.command("ZADD", a.core.keys.inbox("bob"), 5, warm)
    (wrong,) = (await a.core.verify.run("bob", repair=False)).wrong
    assert (wrong.what, wrong.conversation_id, wrong.found) == ("inbox", warm, 5)


async def test_a_conversation_too_many_and_one_too_few_are_found(a: FaultyNode, warm: str) -> None:
    """As if a leave and a join had been missed: everything in the keyspace agrees with itself."""
    key, inbox = a.core.keys.mark("bob"), a.core.keys.inbox("bob")
    packed = await a.command("HGET", key, warm)
    await say(a.core, b"HSET", key, "c-other", packed)
    await a.command("HDEL", key, warm)
    await a.command("ZADD", inbox, 5, "c-other")
    await a.command("ZREM", inbox, warm)
    found = {(one.what, one.conversation_id, one.found) for one in (await a.core.verify.run("bob", repair=False)).wrong}
    assert {one for one in found if one[0] == "inbox"} == {("inbox", warm, 0), ("inbox", "c-other", 5)}
    await a.core.verify.run("bob", repair=True)
    assert await a.wrong() == []


async def test_a_cold_user_is_no_fault(a: FaultyNode, warm: str) -> None:
    await a.command("DEL", a.core.keys.mark("bob"))
    report = await a.core.verify.run(None, repair=True)
    assert (report.users, report.cold, report.repaired, report.wrong) == (3, 1, 0, [])


async def test_a_cold_conversation_is_no_fault(a: FaultyNode, warm: str) -> None:
    await a.command("DEL", a.core.keys.unread("bob", warm))
    await a.send("alice", warm, "m3")
    assert warm not in await marks_of(a.core, "bob")
    assert (await a.core.verify.run(None, repair=False)).wrong == []


async def test_one_user_can_be_verified_alone(a: FaultyNode, warm: str) -> None:
    await change_mark(a, "bob", warm, 3, 1)
    assert (await a.core.verify.run("carol", repair=False)).wrong == []
    assert (await a.core.verify.run("bob", repair=False)).users == 1


async def test_a_user_with_thousands_of_conversations_is_verified(core: Core) -> None:
    await put_many(core.tables, "ann", 9_000, per_ms=100, unread_every=500)
    await core.unread.totals("ann")
    report = await core.verify.run("ann", repair=False)
    assert (report.conversations, report.wrong) == (9_000, [])
