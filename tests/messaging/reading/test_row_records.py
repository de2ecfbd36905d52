"""Drafts and rules of the rows of a page are read in one request, and only where there are some."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.reading.row_records import read_row_records, read_rules
from tidings.model import NO_RULES, Rules


async def test_rules_and_drafts_come_with_the_conversations_that_have_them(a: FaultyNode, direct: str) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="g")
    group = view.head.conversation_id
    await a.core.rules.change("alice", group, {"slow_s": 30, "data": {"color": "red"}})
    await a.core.drafts.put("bob", direct, "well", 0)
    found = await read_row_records(a.core.tables.records, "bob", [direct, group])
    assert {id_: draft.text for id_, draft in found.drafts.items()} == {direct: "well"}
    assert found.rules == {group: Rules(slow_s=30, data={"color": "red"})}
    assert (found.rules_of(direct), found.rules_of(group).slow_s) == (NO_RULES, 30)
    assert await read_rules(a.core.tables.records, group) == found.rules[group]


async def test_no_conversations_need_no_request(a: FaultyNode) -> None:
    assert (await read_row_records(a.core.tables.records, "bob", [])).drafts == {}
