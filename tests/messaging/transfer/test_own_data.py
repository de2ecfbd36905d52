"""Own data: marks, blocks, devices and preferences of a person, and no secret of a device."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.transfer.own_data import OwnData
from tidings.messaging.transfer.walk import FileKey
from tidings.stores.tables.values import Device, Preferences


async def test_a_person_gets_what_they_set(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "of alice")
    await a.core.blocks.block("bob", "eve")
    await a.core.consent.put_preferences("bob", Preferences(badge="all"))
    await a.tables.devices.put(Device(user_id="bob", device_id="d1", provider="fcm", token="secret-token"))
    await a.tables.inboxes.flag("bob", group, {"muted": True})
    files: list[FileKey] = []
    own = OwnData(a.tables, a.core.cold.messages)
    found = [line async for line in own.lines("bob", files, is_everywhere=True)]
    types = [line["type"] for line in found]
    assert types == ["user", "preferences", "block", "device", "mark", "conversation"] and files == []
    assert found[2]["user_id"] == "eve" and found[4]["muted"] is True
    assert [one["user_id"] for one in found[5]["members"]] == ["bob"]
    assert "secret-token" not in repr(found) and "of alice" not in repr(found)
