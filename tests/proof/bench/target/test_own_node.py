"""Nodes that are there for the time of a benchmark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tidings_proof.bench.target.own_node import await_ready, child, environment, folder, is_answering
from tidings_proof.bench.target.target import Target


def test_a_node_of_its_own_answers_and_its_processes_are_known(target: Target) -> None:
    assert is_answering(f"{target.url}/readyz")
    assert len(target.parts["valkey"]) == 1 and target.parts["node"]


def test_a_child_is_gone_with_its_block(tmp_path: Path) -> None:
    with child([sys.executable, "-c", "import time; time.sleep(60)"], {}, tmp_path / "log") as process:
        assert process.poll() is None
    assert process.poll() is not None


def test_a_server_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        child([sys.executable, "-c", "raise SystemExit('no room')"], {}, log) as process,
        pytest.raises(RuntimeError, match="no room"),
    ):
        await_ready(process, lambda: False, log)


def test_children_do_not_see_the_settings_of_whoever_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_PORT", "1")
    monkeypatch.syspath_prepend("/more")
    found = environment()
    assert "TIDINGS_PORT" not in found
    assert "/more" in found["PYTHONPATH"].split(os.pathsep)


def test_a_folder_is_gone_with_its_block() -> None:
    with folder() as data:
        assert data.is_dir()
    assert not data.exists()


def test_nobody_answers_on_a_port_where_nothing_listens() -> None:
    assert not is_answering("http://127.0.0.1:1/readyz")
