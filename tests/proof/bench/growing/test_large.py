"""Large: a post and an open are compared with plain ones."""

from __future__ import annotations

from tests.support.bench_figures import measured
from tidings_proof.bench.growing.large import checks_of


def test_a_large_conversation_may_cost_half_as_much_again() -> None:
    plain, dearer = measured({"node": 0.5, "valkey": 0.5}), measured({"node": 0.8, "valkey": 0.8})
    found = {"post, plain": plain, "post, large": plain, "open, plain": plain, "open, large": dearer}
    post, open_ = checks_of(found)
    assert post.is_met and post.value == 1.0
    assert not open_.is_met
