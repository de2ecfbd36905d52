from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import Forbidden
from tidings.messaging.banned import BANS, Banned
from tidings.stores.tables.records import Put, of_conversation


async def test_a_ban_holds_until_its_end(a: FaultyNode, group: str) -> None:
    banned = Banned(a.tables.records, a.clock)
    until = a.clock.now_ms() + 60_000
    value = b'{"by":"alice","since":1,"until":%d}' % until
    await a.tables.records.put([Put(of_conversation(group), BANS, "mallory", value)])
    assert await banned.among(group, ["mallory", "bob"]) == {"mallory"}
    with pytest.raises(Forbidden):
        await banned.check(group, ["mallory"])
    a.clock.ahead_ms = 61_000
    await banned.check(group, ["mallory"])
