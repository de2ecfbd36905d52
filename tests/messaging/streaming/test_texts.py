"""A page has the text so far of a message that is being written."""

from __future__ import annotations

import msgspec
import pytest

from tidings.messaging.streaming.texts import LiveTexts, StreamedLog, Written, key_of, to_value
from tidings.model import Content
from tidings.node.graph import Core
from tidings.stores.tables.records import Put


@pytest.mark.parametrize("is_live", [True, False])
async def test_the_newest_known_text_is_shown(core: Core, is_live: bool) -> None:
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    id_ = view.head.conversation_id
    await core.sends.send("alice", id_, "m1", Content("plain"))
    await core.sends.send("alice", id_, "m2", Content("be", state="streaming"))
    written = Written("alice", "m2", 2, "begun")
    await core.tables.records.put([Put(*key_of(id_, "alice", "m2"), to_value(written))])
    live = LiveTexts()
    if is_live:
        live.texts[id_, 2] = "begun, and more"
    log = StreamedLog(core.tables.log, core.tables.records, live)
    page = await log.page(id_, after=0, before=10, limit=10, newest_first=False)
    assert [entry.text for entry in page] == ["plain", "begun, and more" if is_live else "begun"]
    assert [entry.content and entry.content.state for entry in page] == [None, "streaming"]


async def test_a_record_can_say_that_nobody_writes_the_end(core: Core) -> None:
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    id_ = view.head.conversation_id
    await core.sends.send("alice", id_, "m1", Content("be", state="streaming"))
    written = msgspec.structs.replace(Written("alice", "m1", 1, "cut"), state="interrupted")
    await core.tables.records.put([Put(*key_of(id_, "alice", "m1"), to_value(written))])
    (entry,) = await core.log.after(id_, 0, 10)
    assert entry.content == Content("cut", state="interrupted")
