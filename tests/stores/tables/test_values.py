"""The values of the ports: the places of entries."""

from __future__ import annotations

from tests.contracts import message, void
from tidings.stores.tables.values import Known, Places, places_of


def test_a_number_goes_to_one_entry_and_a_void_gives_way() -> None:
    entries = [message("c", 1), void("c", 2), message("c", 3), message("c", 3, message_id="again"), message("c", 4)]
    places = places_of(entries, filled=[2, 4], known={4: Known(4)})
    assert places == Places([0, 2], frozenset({1}), frozenset({3}))
