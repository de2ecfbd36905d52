from __future__ import annotations

from tidings.bounds import ACKS_MAX, ACKS_PER_SLOT
from tidings.gateway.folded_acks import CONVERSATIONS_MAX, FoldedAcks
from tidings.protocol.client_frames import Delivered


def test_watermarks_fold_to_the_highest_and_every_id_is_kept() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(acks={"c1": 7}))
    acks.add(Delivered(id=1, acks={"c1": 5, "c2": 3}))
    acks.add(Delivered(id=2, acks={"c1": 9}))
    assert acks and acks.take() == ({"c1": 9, "c2": 3}, [None, 1, 2])
    assert not acks and acks.take() == ({}, [])


def test_every_frame_and_every_conversation_costs_something() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(acks={"c1": 7}))
    assert acks.take().cost == 1
    acks.add(Delivered(acks={f"c{n}": 7 for n in range(ACKS_MAX)}))
    assert acks.take().cost == ACKS_MAX // ACKS_PER_SLOT + 1
    for _ in range(1_000):
        acks.add(Delivered(acks={"c1": 7}))
    assert acks.take().cost == 1_000 // ACKS_PER_SLOT + 1


def test_a_frame_that_acknowledges_nothing_is_answered_too() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(id=3, acks={}))
    assert acks and acks.take() == ({}, [3])


def test_past_the_bound_only_known_conversations_go_up() -> None:
    acks = FoldedAcks()
    for n in range(CONVERSATIONS_MAX):
        acks.add(Delivered(acks={f"c{n}": 1}))
    acks.add(Delivered(acks={"one-more": 1, "c0": 2}))
    seqs, _ = acks.take()
    assert len(seqs) == CONVERSATIONS_MAX and seqs["c0"] == 2 and "one-more" not in seqs
