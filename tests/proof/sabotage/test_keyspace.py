"""Plants of the index are each a mistake: they change the script or the step that they name."""

from __future__ import annotations

from tidings.stores.keyspace.scripts.messaging import SOURCES


def test_the_lines_that_are_changed_are_in_the_script() -> None:
    source = SOURCES["inbox_index"]
    assert source.count("'GT'") == 1 and source.count("local n = redis.call('ZCARD', unread)") == 1
