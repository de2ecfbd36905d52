"""A journey of a thread on {SQLite, DynamoDB Local} x {one Valkey, a cluster of three shards}, three nodes each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.support.devices.plain_client import Frame
from tests.support.nodes.fleet import CELLS, Fleet, running_fleet
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.waiting import eventually


@pytest.fixture(scope="module", params=CELLS)
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(request.param, request, tmp_path_factory.mktemp("t")) as fleet:
        yield fleet


def is_reply(frame: Frame) -> bool:
    return frame["type"] == "message.new" and "thread_seq" in frame["message"]


@pytest.mark.long
async def test_a_thread_counts_for_its_followers_on_every_node(fleet: Fleet) -> None:
    alice, bob, carol = fleet.people("alice", "bob", "carol")
    c = fleet.group([alice, bob, carol])
    async with AsyncExitStack() as stack:
        phone, laptop, writer, other = [
            await stack.enter_async_context(await fleet.join(user_id, device=name))
            for user_id, name in ((alice, "phone"), (alice, "laptop"), (bob, "b"), (carol, "c"))
        ]
        root = (await phone.say(c, "root", "root"))["seq"]
        for at in range(6):
            reply = {
                "message_id": f"r{at}",
                "text": f"r{at}",
                "thread_seq": root,
                "mentions": [carol] if at == 3 else [],
            }
            assert (await writer.request("message.send", conversation_id=c, **reply))["type"] == "ok"
        for device, count in ((phone, 6), (laptop, 6), (other, 3)):
            last = await device.event(lambda frame: is_reply(frame) and frame["message"]["text"] == "r5")
            assert (last.get("thread_unread_count"), last["unread_count"]) == (count, int(device is other))
        read = await phone.request("message.read", conversation_id=c, thread_seq=root, up_to_seq=root + 4)
        assert (read["thread_seq"], read["unread_count"], read["unread_threads"]) == (root, 2, 1)
        synced = await laptop.event(lambda frame: frame["type"] == "read.synced" and "thread_seq" in frame)
        assert synced["unread_count"] == 2
        page = await other.request("history", conversation_id=c, thread_seq=root, limit=2)
        assert [entry["text"] for entry in page["messages"]] == ["r5", "r4"]
    (row,) = fleet.rest("GET", "/v1/threads?filter=unread", user_id=alice)["threads"]
    assert (row["replies"], row["unread_count"], row["first_unread_seq"]) == (6, 2, root + 5)
    fleet.rest("DELETE", f"/v1/conversations/{c}/messages/{root + 6}", user_id=bob)
    assert fleet.rest("GET", "/v1/threads", user_id=alice)["threads"][0]["unread_count"] == 1
    fleet.rest("POST", f"/v1/conversations/{c}/read", {"threads": True}, user_id=alice)
    await eventually(lambda: "unread_threads" not in fleet.rest("GET", "/v1/unread", user_id=alice))
    fleet.rest("DELETE", f"/v1/conversations/{c}/members/{carol}", user_id=carol)
    assert fleet.rest("GET", "/v1/threads", user_id=carol)["threads"] == []
