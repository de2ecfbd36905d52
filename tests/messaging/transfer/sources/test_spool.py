"""A spool gives messages by conversation, in the order of time, also where two readers take turns."""

from __future__ import annotations

from tidings.messaging.transfer.sources.spool import Spool


def test_messages_come_by_conversation_in_the_order_of_time() -> None:
    spool = Spool()
    for key, at_ms, text in (("a", 3, "late"), ("b", 1, "other"), ("a", 1, "früh"), ("a", 3, "later")):
        spool.add(key, at_ms, {"text": text})
    both = zip(spool.read("a"), spool.read("b"), strict=False)
    assert [(one["text"], two["text"]) for one, two in both] == [("früh", "other")]
    assert [one["text"] for one in spool.read("a")] == ["früh", "late", "later"]
    assert list(spool.read("c")) == []
