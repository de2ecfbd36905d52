"""The parts of a copy: every table, every column, in both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contracts.whole import samples
from tidings.stores.tables import whole
from tidings.stores.tables.whole import PARTS

SQLITE = (Path(whole.__file__).parent / "sqlite" / "file" / "schema.sql").read_text("utf-8")
TABLES = {
    name: set(re.findall(r"^  ([a-z]\w+) ", body, re.MULTILINE))
    for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", SQLITE, re.DOTALL)
}


def test_every_table_is_copied_with_every_column() -> None:
    assert {name: set(part.columns) for name, part in PARTS.items()} == TABLES


def test_the_key_of_a_part_is_among_its_columns() -> None:
    assert all(set(part.key) <= set(part.columns) and part.key for part in PARTS.values())


@pytest.mark.parametrize("table", [name for name in PARTS if name != "meta"])
def test_a_value_comes_back_from_its_columns(table: str) -> None:
    part = PARTS[table]
    for value in samples()[table]:
        row = part.row_of(value)
        as_stored = tuple(int(column) if isinstance(column, bool) else column for column in row)
        assert part.value_of(row) == part.value_of(as_stored) == value
