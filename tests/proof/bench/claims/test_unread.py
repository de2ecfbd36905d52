"""Unread: the frames of each operation."""

from __future__ import annotations

import json

from tidings_proof.bench.claims.unread import ARRIVALS, COUNTS, MARKS, frames, users_of


def test_each_operation_has_its_frames() -> None:
    assert [json.loads(frame)["type"] for frame in frames("count", 10)] == ["inbox"] * COUNTS
    arrivals = [json.loads(frame)["message_id"] for frame in frames("arrive", 10)]
    assert len(set(arrivals)) == ARRIVALS
    assert [json.loads(frame)["up_to_seq"] for frame in frames("mark one", 10)] == list(range(1, MARKS + 1))
    (everything,) = frames("mark all", 10)
    assert json.loads(everything)["up_to_seq"] == 10 + ARRIVALS


def test_each_size_has_users_of_its_own() -> None:
    assert not set(users_of(10)) & set(users_of(10_000))
