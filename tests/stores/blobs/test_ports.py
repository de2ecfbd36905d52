from __future__ import annotations

from tidings.stores.blobs.ports import Part


def test_a_part_ends_before_its_end() -> None:
    assert Part(5, 12).size == 7
