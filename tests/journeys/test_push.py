"""Push from end to end: a real node, a phone that is gone without a word, and Apple's stand-in that is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.push_services import KEY_ID, TEAM_ID, TOPIC, ApnsStandin, Told, served
from tests.support.waiting import eventually
from tidings_proof.world.proxy import open_proxy

PHONE = "ab" * 32  # bob's, as Apple knows it
SECRET_TEXT = "what only bob may see"
WITHIN_S = 60.0  # the grace time, a look, a job


@dataclass(frozen=True)
class Place:
    node: NodeProcess
    apple: ApnsStandin

    async def rest(self, user_id: str, method: str, path: str, body: Any = None) -> Any:
        status, answer = await asyncio.to_thread(self.node.rest, method, path, body, user_id)
        assert status < 300, answer
        return answer

    async def direct(self, one: str, other: str) -> str:
        body = {"kind": "direct", "members": [other]}
        return str((await self.rest(one, "POST", "/v1/conversations", body))["conversation_id"])

    async def join(self, user_id: str, device: str, port: int = 0) -> Client:
        return await Client(port or self.node.port, self.node.token(user_id)).connect(device=device)

    async def told(self, count: int) -> Told:
        """The last of so many."""
        await eventually(lambda: len(self.apple.told) >= count, within_s=WITHIN_S)
        assert len(self.apple.told) == count
        return self.apple.told[-1]

    def pending(self) -> list[tuple[str, str, int, int]]:
        with closing(apsw.Connection(str(self.node.data / "tidings.db"), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            return list(db.execute("SELECT user_id, conversation_id, first_seq, last_seq FROM pending_deliveries"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    apple = ApnsStandin()
    key_file = tmp_path / "apple.p8"
    key_file.write_text(apple.pem)
    async with served(apple) as url:
        env = {
            "TIDINGS_PUSH_GRACE_S": "5",
            "TIDINGS_PUSH_APNS_KEY_FILE": str(key_file),
            "TIDINGS_PUSH_APNS_KEY_ID": KEY_ID,
            "TIDINGS_PUSH_APNS_TEAM_ID": TEAM_ID,
            "TIDINGS_PUSH_APNS_TOPIC": TOPIC,
            "TIDINGS_PUSH_APNS_URL": url,
        }
        with NodeProcess(tmp_path / "n", env) as node:
            await asyncio.to_thread(node.start)
            yield Place(node, apple)


async def test_a_phone_that_vanished_is_pushed_to_while_its_message_waits_without_a_tick(place: Place) -> None:
    c = await place.direct("alice", "bob")
    await place.rest("bob", "POST", "/v1/devices", {"device": "phone", "provider": "apns", "token": PHONE})
    async with open_proxy(place.node.port) as network:
        alice, phone = await place.join("alice", "phone"), await place.join("bob", "phone", network.port)
        await alice.say(c, "m1", "heard")
        await phone.message("heard")
        await phone.request("message.delivered", acks={c: 1})
        network.freeze()  # the socket stays open, and nobody is there
        for n in (2, 3):
            await alice.say(c, f"m{n}", SECRET_TEXT)

        push = await place.told(1)
        total = (await place.rest("bob", "GET", "/v1/unread"))["total_unread"]
        assert (push.token, push.collapse_id, push.body["aps"]["badge"]) == (PHONE, c, total) and total == 3
        assert "alert" in push.body["aps"] and SECRET_TEXT not in str(push.body), "no text unless push.preview"
        assert place.pending() == [("bob", c, 2, 3)]
        receipts = await place.rest("alice", "GET", f"/v1/conversations/{c}/messages/3/receipts")
        assert receipts == {"read": [], "delivered": [], "pending": ["bob"]}
        assert [frame["delivered_seq"] for frame in alice.events if frame["type"] == "receipt"] == [1]

        laptop = await place.join("bob", "laptop")
        await laptop.request("message.read", conversation_id=c, up_to_seq=3)
        silent = await place.told(2)  # read elsewhere: the phone's badge follows, and nothing is shown
        assert silent.body["aps"]["badge"] == 0 and "alert" not in silent.body["aps"]
        await eventually(lambda: place.pending() == [])

        await phone.close()
        network.mend()
        (known,) = (await place.rest("bob", "GET", "/v1/devices"))["devices"]
        while known["last_seen"] == known["registered_at"]:
            (known,) = (await place.rest("bob", "GET", "/v1/devices"))["devices"]
        for client in (alice, laptop):
            await client.close()


@pytest.mark.parametrize(("wanted", "of_muted"), [("loud", 0), ("all", 1)])
async def test_a_muted_conversation_is_silent_and_in_the_badge_of_who_wants_all_and_what_was_read_in_time_is_not_pushed(
    place: Place, wanted: str, of_muted: int
) -> None:
    await place.rest("bob", "PUT", "/v1/preferences", {"badge": wanted})
    muted, loud = await place.direct("alice", "bob"), await place.direct("carol", "bob")
    await place.rest("bob", "POST", "/v1/devices", {"device": "phone", "provider": "apns", "token": PHONE})
    alice, carol, laptop = [await place.join(name, "laptop") for name in ("alice", "carol", "bob")]
    await alice.say(muted, "m1", "hello")
    await laptop.message("hello")
    await place.rest("bob", "PATCH", f"/v1/inbox/{muted}", {"muted": True})
    await carol.say(loud, "m1", "now")
    await laptop.message("now")
    await laptop.request("message.read", conversation_id=loud, up_to_seq=1)

    push = await place.told(1)
    assert push.collapse_id == muted and push.body["aps"]["badge"] == of_muted and "alert" not in push.body["aps"]
    await carol.say(loud, "m2", "and again")
    push = await place.told(2)  # of the one that was read in time nothing came
    assert push.collapse_id == loud and push.body["aps"]["badge"] == of_muted + 1 and "alert" in push.body["aps"]
    for client in (alice, carol, laptop):
        await client.close()
