"""A conversation is large above a number of members; test_receipts.py shows what its senders get."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.bounds import RECEIPT_MEMBERS_MAX
from tidings.messaging.reading.receipt_summaries import is_large


async def test_a_conversation_is_large_above_fifty_members(a: FaultyNode) -> None:
    for count in (RECEIPT_MEMBERS_MAX, RECEIPT_MEMBERS_MAX + 1):
        others = [f"m{n}" for n in range(count - 1)]
        view, _ = await a.core.directory.create("alice", kind="channel", members=others)
        member_list = await a.core.access.fresh(view.head.conversation_id)
        assert member_list is not None and is_large(member_list) == (count > RECEIPT_MEMBERS_MAX)
