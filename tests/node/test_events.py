"""The node's events reach the parts that the graph connected with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.node.events import Events


def test_every_event_is_its_own_object() -> None:
    one, other = Events(), Events()
    names = [field.name for field in dataclasses.fields(Events)]
    assert len({id(getattr(events, name)) for events in (one, other) for name in names}) == 2 * len(names)


def test_every_event_says_its_source_and_its_listeners() -> None:
    source = (Path(__file__).parents[2] / "src" / "tidings" / "node" / "events.py").read_text("utf-8")
    for field in dataclasses.fields(Events):
        above = source[: source.index(f"    {field.name}:")].splitlines()[-1]
        assert above.strip().startswith("#") and " -> " in above, field.name


async def test_a_read_becomes_a_receipt_and_stored_receipts_reach_the_push(a: FaultyNode, direct: str) -> None:
    stored = list[object]()
    a.core.events.receipts_stored.add(stored.extend)
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    await a.core.receipts.flush()
    assert stored == [(direct, "bob", 1, 1)]
