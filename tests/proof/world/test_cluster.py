"""What a cluster is made of. tests/faults/ and tests/stores/ have it at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_proof.world.cluster import Cluster, binary_of, wait_until


def test_the_wheel_has_its_server() -> None:
    found = binary_of("valkey")
    assert found is not None and found.is_file()


def test_what_never_comes_is_not_waited_for_for_ever() -> None:
    with pytest.raises(AssertionError, match="not in time"):
        wait_until(lambda: False, within_s=0.02)


@pytest.mark.long
def test_three_servers_share_the_slots(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "c")
    try:
        cluster.start()
        assert len({cluster.serving(slot).port for slot in (0, 8_000, 16_000)}) == 3
        assert cluster.url.count("127.0.0.1:") == 3
    finally:
        cluster.stop()
