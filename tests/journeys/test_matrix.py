"""The same journeys on {SQLite, DynamoDB Local} x {one Valkey, a cluster of three shards}: three nodes behind haproxy.

In one more cell each node is two workers.

`test_a_journey` is the short one and runs in each cell every time; the others are the whole suite. Nothing in here
knows which cell it is in: only addresses differ.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from tests.support.devices.app_device import Traveller, text_of
from tests.support.devices.many_senders import Crowd, check_log, read_log
from tests.support.devices.plain_client import Client, Frame
from tests.support.nodes.fleet import CELLS, Fleet, running_fleet
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.waiting import eventually

Join = Callable[..., Awaitable[Client]]
PACE_S = 0.01  # between two messages of a device while nodes restart


@pytest.fixture(scope="module", params=CELLS)
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(request.param, request, tmp_path_factory.mktemp("m")) as fleet:
        yield fleet


@pytest.fixture
async def join(fleet: Fleet) -> AsyncIterator[Join]:
    """`await join("alice", device="phone")`, through haproxy; closed at the end."""
    async with AsyncExitStack() as stack:

        async def join(user_id: str, **fields: object) -> Client:
            client = await fleet.join(user_id, **fields)
            stack.push_async_callback(client.close)
            return client

        yield join


async def row_of(client: Client, c: str) -> Frame:
    inbox = await client.request("inbox")
    assert (inbox["type"], inbox["stale"]) == ("ok", False), inbox
    return next(row for row in inbox["conversations"] if row["conversation_id"] == c)


async def say_all(client: Client, c: str, name: str, count: int) -> list[int]:
    """One after another; their numbers."""
    return [(await client.say_until_stored(c, f"{name}-{n}", f"{name} {n}"))["seq"] for n in range(1, count + 1)]


async def receipt(client: Client, user_id: str, **marks: int) -> Frame:
    """The tick that says at least this much of a member."""
    return await client.event(
        lambda frame: (
            frame["type"] == "receipt"
            and frame["user_id"] == user_id
            and all(frame[name] >= seq for name, seq in marks.items())
        )
    )


def texts(page: Frame) -> list[str | None]:
    return [entry["text"] for entry in page["messages"]]


# --- the short one --------------------------------------------------------------------------------


async def test_a_journey(fleet: Fleet, join: Join) -> None:
    alice, bob, carol = fleet.people("alice", "bob", "carol")
    c = fleet.group([alice, bob, carol])
    writer, phone, laptop = await join(alice), await join(bob, device="phone"), await join(bob, device="laptop")
    assert min(fleet.haproxy.sockets().values()) >= 1, "every node serves somebody"

    assert await say_all(writer, c, "m", 8) == list(range(1, 9))
    for device in (phone, laptop):
        await device.message("m 8")
        assert [entry["seq"] for entry in device.messages(c)] == list(range(1, 9))
    again = await writer.say(c, "m-3", "m 3")
    assert (again["seq"], again["duplicate"]) == (3, True)

    phone.send({"type": "message.delivered", "acks": {c: 8}})
    await receipt(writer, bob, delivered_seq=8)
    read = await phone.request("message.read", conversation_id=c, up_to_seq=6)
    assert (read["read_seq"], read["unread_count"]) == (6, 2)
    assert (await receipt(writer, bob, read_seq=6))["read_seq"] == 6
    synced = await laptop.event(lambda frame: frame["type"] == "read.synced" and frame["read_seq"] == 6)
    assert synced["unread_count"] == 2

    assert fleet.rest("PATCH", f"/v1/conversations/{c}/messages/2", {"text": "better"}, user_id=alice)["seq"] == 9
    assert fleet.rest("DELETE", f"/v1/conversations/{c}/messages/8", user_id=alice)["seq"] == 10
    late = await join(carol, resume={c: 4})
    resumed = await late.event(lambda frame: frame["type"] == "resumed")
    assert (resumed["from_seq"], resumed["to_seq"], resumed["complete"]) == (5, 10, True)
    assert [entry["seq"] for entry in late.messages(c)] == list(range(5, 11))
    row = await row_of(late, c)
    assert (row["unread_count"], row["last_seq"], row["last_message_preview"]) == (7, 8, None)

    page = await laptop.request("history", conversation_id=c, limit=100)
    assert [entry["seq"] for entry in page["messages"]] == list(range(10, 0, -1))
    assert texts(page)[2:] == [None, *(f"m {n}" for n in (7, 6, 5, 4, 3)), "better", "m 1"]


# --- the whole suite ------------------------------------------------------------------------------


@pytest.mark.long
async def test_many_devices_see_one_order_whichever_node_they_are_on(fleet: Fleet) -> None:
    crowd = Crowd(users=4, devices=3)
    names = dict(zip(crowd.user_ids, fleet.people(*crowd.user_ids), strict=True))
    c = fleet.group(list(names.values()))
    await crowd.connect(lambda name: fleet.port, lambda user_id: fleet.token(names[user_id]))
    assert min(fleet.haproxy.sockets().values()) >= 4, "leastconn spreads twelve sockets evenly"
    await crowd.send(c, 600)
    reader = crowd.connected[crowd.names[0]]
    entries = await read_log(reader, c)
    real_names = {real: name for name, real in names.items()}
    check_log(
        [{**entry, "sender_id": real_names.get(entry["sender_id"])} for entry in entries], crowd
    )  # a void has none
    assert sum(entry["kind"] == "message" for entry in entries) == 600
    for device in crowd.connected.values():
        await eventually(
            lambda device=device: (  # type: ignore[misc]
                set(device.heard) | device.answered == set(range(1, len(entries) + 1))
            )
        )
        assert device.heard == sorted(set(device.heard)), "a device was given something twice or out of order"
    await crowd.leave()


@pytest.mark.long
async def test_an_inbox_is_in_the_order_of_the_last_messages_and_pages_without_a_gap(fleet: Fleet, join: Join) -> None:
    (alice,) = fleet.people("alice")
    others = fleet.people(*(f"friend{n}-" for n in range(25)))
    client = await join(alice)
    ids = [fleet.direct(alice, other) for other in others]
    for c in ids:
        assert (await client.say(c, "m1", f"to {c}"))["seq"] == 1
    await client.say(ids[3], "m2", "once more")
    expected = [ids[3], *(c for c in reversed(ids) if c != ids[3])]
    first = fleet.rest("GET", "/v1/inbox?limit=20", user_id=alice)
    second = fleet.rest("GET", f"/v1/inbox?limit=20&cursor={first['next_cursor']}", user_id=alice)
    rows = first["conversations"] + second["conversations"]
    assert [row["conversation_id"] for row in rows] == expected
    assert (len(first["conversations"]), second["next_cursor"]) == (20, None)
    assert rows[0]["last_message_preview"] == "once more"
    theirs = await row_of(await join(others[3]), ids[3])
    assert (theirs["unread_count"], theirs["last_seq"]) == (2, 2)


@pytest.mark.long
async def test_unread_is_the_same_on_every_device_and_node(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    writer = await join(alice)
    await say_all(writer, c, "m", 12)
    devices = [await join(bob, device=f"d{n}") for n in range(3)]

    async def counts() -> set[tuple[int, int, int | None]]:
        rows = [await row_of(device, c) for device in devices]
        return {(row["unread_count"], row["read_seq"], row["first_unread_seq"]) for row in rows}

    assert await counts() == {(12, 0, 1)}
    await devices[0].request("message.read", conversation_id=c, up_to_seq=4)
    assert await counts() == {(8, 4, 5)}
    await devices[1].request("message.read", conversation_id=c, seqs=[6, 7, 12])
    assert await counts() == {(5, 4, 5)}
    await devices[2].request("message.read", conversation_id=c, seqs=[5])
    assert await counts() == {(4, 7, 8)}
    await devices[0].request("message.unread", conversation_id=c, from_seq=3)
    assert await counts() == {(10, 2, 3)}
    page = await devices[1].request("history", conversation_id=c, after_seq=9, limit=1)
    await devices[1].request("message.read", conversation_id=c, up_to_ts=page["messages"][0]["sent_at"])
    assert await counts() == {(2, 10, 11)}
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/11", user_id=alice)
    assert await counts() == {(1, 10, 12)}
    assert fleet.rest("GET", "/v1/unread", user_id=bob)["total_unread"] == 1


@pytest.mark.long
async def test_history_is_read_in_both_directions_and_around_a_message(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    await say_all(await join(alice), c, "m", 50)
    reader = await join(bob)
    assert [entry["seq"] for entry in await read_log(reader, c)] == list(range(1, 51))
    back: list[int] = []
    before: int | None = 51
    while before is not None:
        page = await reader.request("history", conversation_id=c, before_seq=before, limit=20)
        back += [entry["seq"] for entry in page["messages"]]
        before = page["next_before_seq"]
    assert back == list(range(50, 0, -1))
    around = await reader.request("history", conversation_id=c, around_seq=25, limit=10)
    seqs = [entry["seq"] for entry in around["messages"]]
    assert 25 in seqs and seqs == list(range(seqs[0], seqs[-1] - 1, -1)) and len(seqs) == 10
    await reader.request("message.read", conversation_id=c, up_to_seq=30)
    anchored = await reader.request("history", conversation_id=c, anchor="first_unread", limit=10)
    assert anchored["first_unread_seq"] == 31
    assert 31 in [entry["seq"] for entry in anchored["messages"]]


@pytest.mark.long
async def test_ticks_reach_the_sender_and_never_go_back(fleet: Fleet, join: Join) -> None:
    alice, bob, carol = fleet.people("alice", "bob", "carol")
    c = fleet.group([alice, bob, carol])
    sender, one, other = await join(alice), await join(bob), await join(carol)
    await say_all(sender, c, "m", 5)
    one.send({"type": "message.delivered", "acks": {c: 5}})
    other.send({"type": "message.delivered", "acks": {c: 3}})
    await receipt(sender, bob, delivered_seq=5)
    await receipt(sender, carol, delivered_seq=3)
    await one.request("message.read", conversation_id=c, up_to_seq=4)
    await receipt(sender, bob, read_seq=4)
    await one.request("message.unread", conversation_id=c, from_seq=1)
    page = await sender.request("history", conversation_id=c)
    assert (page["delivered_all_seq"], page["read_all_seq"]) == (3, 0)
    shown = fleet.rest("GET", f"/v1/conversations/{c}/messages/4/receipts", user_id=alice)
    assert (shown["read"], shown["delivered"], shown["pending"]) == ([bob], [], [carol])
    marks = [frame["read_seq"] for frame in sender.events if frame["type"] == "receipt" and frame["user_id"] == bob]
    assert marks == sorted(marks)


@pytest.mark.long
async def test_a_device_that_was_away_gets_everything_or_is_told_where_to_go_on(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    writer = await join(alice)
    reader = await fleet.join(bob, resume={c: 0})
    await say_all(writer, c, "a", 3)
    await reader.message("a 3")
    await reader.close()
    asked = [writer.ask("message.send", conversation_id=c, message_id=f"b-{n}", text=f"b {n}") for n in range(1, 551)]
    answers = await asyncio.wait_for(asyncio.gather(*asked), 60)
    assert [answer["seq"] for answer in answers] == list(range(4, 554))
    back = await join(bob, resume={c: 3})
    resumed = await back.event(lambda frame: frame["type"] == "resumed", within_s=60)
    assert (resumed["from_seq"], resumed["to_seq"], resumed["complete"]) == (4, 503, False)
    assert [entry["seq"] for entry in back.messages(c)] == list(range(4, 504))
    rest = await back.request("history", conversation_id=c, after_seq=503, limit=100)
    assert texts(rest) == [f"b {n}" for n in range(550, 500, -1)]
    assert rest["next_after_seq"] is None
    assert (await row_of(back, c))["unread_count"] == 553
    beyond = await join(bob, device="restored", resume={c: 9_999})
    assert (await beyond.event(lambda frame: frame["type"] == "resumed"))["reset"] is True


@pytest.mark.long
async def test_devices_of_one_user_on_different_nodes_are_one_user(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    phone, laptop, tablet = [await join(alice, device=name) for name in ("phone", "laptop", "tablet")]
    reader = await join(bob)
    await phone.say(c, "m1", "from the phone")
    for device in (laptop, tablet, reader):
        assert (await device.message("from the phone"))["message"]["seq"] == 1
    await laptop.say(c, "m2", "from the laptop")
    await phone.message("from the laptop")
    assert [entry["seq"] for entry in phone.messages(c)] == [2], "who sent it got `ok` instead"
    await join(alice, device="tablet")
    await asyncio.wait_for(tablet.is_lost.wait(), 60)
    assert tablet.close_code == 4505


@pytest.mark.long
async def test_edited_and_deleted_texts_are_gone_on_every_node(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    writer, reader = await join(alice), await join(bob)
    await say_all(writer, c, "secret", 4)
    fleet.rest("PATCH", f"/v1/conversations/{c}/messages/2", {"text": "new"}, user_id=alice)
    fleet.rest("PATCH", f"/v1/conversations/{c}/messages/3", {"text": "newer"}, user_id=alice)
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/3", user_id=alice)
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/4", user_id=alice)
    await reader.event(lambda frame: frame["type"] == "message.new" and frame["message"]["seq"] == 8)
    assert [entry["kind"] for entry in reader.messages(c)] == ["message"] * 4 + ["edit", "edit", "delete", "delete"]
    late = await join(bob, device="late", resume={c: 0})
    await late.event(lambda frame: frame["type"] == "resumed")
    pages = [await late.request("history", conversation_id=c), {"messages": late.messages(c)[::-1]}]
    for page in pages:
        shown = {entry["seq"]: entry for entry in page["messages"]}
        assert [shown[seq]["text"] for seq in (1, 2, 3, 4)] == ["secret 1", "new", None, None]
        assert (shown[3]["deleted"], shown[4]["deleted"], shown[6]["text"]) == (True, True, None)
    row = await row_of(late, c)
    assert (row["unread_count"], row["last_message_preview"]) == (2, None)


@pytest.mark.long
async def test_archived_history_reads_as_before_on_every_node(fleet: Fleet, join: Join) -> None:
    alice, bob = fleet.people("alice", "bob")
    c = fleet.direct(alice, bob)
    await say_all(await join(alice), c, "m", 40)
    fleet.rest("PATCH", f"/v1/conversations/{c}/messages/7", {"text": "better"}, user_id=alice)
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/8", user_id=alice)
    readers = [await join(bob, device=f"d{n}") for n in range(3)]
    hot = await read_log(readers[0], c)
    words = ("archive", "run", "--conversation", c, "--archive-after-days", "0", "--json")
    moved = await asyncio.to_thread(fleet.nodes[0].tidings, *words)
    assert moved.returncode == 0, moved
    assert json.loads(moved.stdout)["messages"] >= 39, moved.stdout
    for reader in readers:
        assert await read_log(reader, c) == hot
        back = await reader.request("history", conversation_id=c, before_seq=30, limit=20)
        assert back["messages"] == hot[28:8:-1]
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/3", user_id=alice)
    for reader in readers:
        log = await read_log(reader, c)
        assert (log[2]["deleted"], log[2]["text"], log[3]["text"]) == (True, None, "m 4")
    row = await row_of(readers[0], c)
    assert (row["unread_count"], row["last_message_preview"]) == (38, "m 40")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nodes_restart_one_after_another_and_nobody_misses_anything(fleet: Fleet) -> None:
    """A rolling upgrade: each node in turn gets SIGTERM, leaves with 0 and comes back, while everybody sends."""
    users = fleet.people("alice", "bob", "carol")
    c = fleet.group(users)
    travellers = [Traveller(fleet, user_id, f"d{n}", c) for user_id in users for n in range(2)]
    await asyncio.gather(*(one.begin() for one in travellers))
    is_over = asyncio.Event()
    talking = [asyncio.create_task(talk(one, f"{n}", is_over), name=f"talk-{n}") for n, one in enumerate(travellers)]
    for node in fleet.nodes:
        began = sum(one.moves for one in travellers)
        node.terminate()
        assert await asyncio.to_thread(node.ended, 35.0) == 0, node.said()
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(fleet.haproxy.wait, lambda: set(fleet.haproxy.marked().values()) == {"UP"})
        said = [len(one.told) for one in travellers]
        await eventually(
            lambda said=said: all(  # type: ignore[misc]
                len(one.told) > count + 5 for one, count in zip(travellers, said, strict=True)
            ),
            within_s=60,
        )
        assert sum(one.moves for one in travellers) > began, "nobody was on this node"
    is_over.set()
    await asyncio.wait_for(asyncio.gather(*talking), 60)
    assert [one.refused for one in travellers] == [0] * len(travellers), "haproxy always had a node for them"
    await check_everybody(fleet, c, travellers)
    for one in travellers:
        await one.end()


async def talk(one: Traveller, name: str, is_over: asyncio.Event) -> None:
    number = 0
    while not is_over.is_set():
        number += 1
        await one.say(f"{name}-{number}")
        await asyncio.sleep(PACE_S)


async def check_everybody(fleet: Fleet, c: str, travellers: list[Traveller]) -> None:
    """The log has every message once, everybody has the whole log, and every count is right."""
    reader = await fleet.join(travellers[0].user_id)
    log = await read_log(reader, c, within_s=60)
    messages = [entry for entry in log if entry["kind"] == "message"]
    assert {entry["message_id"]: entry["seq"] for entry in messages} == {
        id_: seq for one in travellers for id_, seq in one.told.items()
    }
    assert len({entry["message_id"] for entry in messages}) == len(messages), "a message is there twice"
    assert all(entry["text"] == text_of(entry["message_id"]) for entry in messages)
    for one in travellers:
        await eventually(lambda one=one: one.has_all(len(log)), within_s=60)  # type: ignore[misc]
        one.check(log)
    for user_id in {one.user_id for one in travellers}:
        others = sum(entry["sender_id"] != user_id for entry in messages)
        client = await fleet.join(user_id)
        assert (await row_of(client, c))["unread_count"] == others
        await client.close()
    await reader.close()
    verdict = fleet.nodes[0].tidings("unread", "verify", "--json")
    assert verdict.returncode == 0, verdict
