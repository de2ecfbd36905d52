"""Records of threads: their names are ordered as the numbers are, and an id is told apart from a conversation's."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.ids import is_id
from tidings.messaging.threads.records import is_thread_id, parts_of, read_replies, thread_id
from tidings.model import Content


def test_the_id_of_a_thread_is_never_that_of_a_conversation() -> None:
    id_ = thread_id("c1.x@y-z", 40)
    assert parts_of(id_) == ("c1.x@y-z", 40) and is_thread_id(id_) and not is_id(id_)


@pytest.mark.parametrize("text", ["", "c1", "c1/", "/4", "c1/x", "c1/-4", "c 1/4", "c1/4/5", "c1/" + "9" * 17])
def test_another_text_is_no_thread(text: str) -> None:
    assert not is_thread_id(text)


async def test_replies_are_read_from_either_end_and_stay_within_their_thread(a: FaultyNode, group: str) -> None:
    for name in ("root 1", "root 2"):
        await a.send("alice", group, name)
    for at in range(6):
        await a.core.sends.send("bob", group, f"r{at}", Content("x", thread_seq=1 + at % 2))
    records, id_ = a.tables.records, thread_id(group, 1)
    assert [seq for seq, _ in await read_replies(records, id_, newest_first=True)] == [7, 5, 3]
    assert [seq for seq, _ in await read_replies(records, id_, newest_first=False, after=3, limit=1)] == [5]
    assert [seq for seq, _ in await read_replies(records, id_, newest_first=True, before=7, limit=1)] == [5]
