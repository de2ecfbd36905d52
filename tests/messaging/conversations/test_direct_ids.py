from __future__ import annotations

from tidings.ids import is_id
from tidings.messaging.conversations.direct_ids import direct_id, unkeyed_direct_id


def test_a_pair_has_one_id_from_both_sides_and_each_store_another() -> None:
    assert direct_id("ann", "bob", "secret") == direct_id("bob", "ann", "secret")
    assert len({direct_id(one, other, secret) for one, other in (("a", "b"), ("a", "c")) for secret in ("x", "y")}) == 4
    assert is_id(direct_id("ann", "bob", "secret"))


def test_the_id_from_before_stays_what_it_was() -> None:
    assert unkeyed_direct_id("bob", "ann") == "d-8f9622b42f75a84dd9b1188b1b1f0e12"
