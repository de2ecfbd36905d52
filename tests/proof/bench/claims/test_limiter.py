"""Limiter: batches go round all users."""

from __future__ import annotations

from itertools import islice

from tidings_proof.bench.claims.limiter import BATCH, USERS, batches


def test_batches_go_round_and_round_all_users() -> None:
    seen = [user_id for batch in islice(batches("u"), -(-USERS // BATCH)) for user_id in batch]
    assert set(seen) == {f"u{number}" for number in range(USERS)}
    assert len(next(batches("u"))) == BATCH
