"""The file that names the nodes which used the embedded Valkey before."""

from __future__ import annotations

from pathlib import Path

from tidings.node.predecessors import read_predecessors, write_predecessors


def test_the_names_of_the_last_run_are_read_by_the_next(tmp_path: Path) -> None:
    assert read_predecessors(tmp_path) == []
    write_predecessors(tmp_path, ["a-1", "a-2"])
    assert read_predecessors(tmp_path) == ["a-1", "a-2"]
    write_predecessors(tmp_path, ["b"])
    assert read_predecessors(tmp_path) == ["b"] and (tmp_path / "node.id").stat().st_mode & 0o077 == 0
