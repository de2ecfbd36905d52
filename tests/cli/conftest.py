"""The command line is tested in an empty folder, without settings from outside, and without a node."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import tidings.node
from tests.support.command_line import PutNode


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDINGS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def put_node(monkeypatch: pytest.MonkeyPatch) -> PutNode:
    """Put functions in the place of those of node.py, so that a verb is tested without a node."""

    def put(**functions: Callable[..., object]) -> None:
        stand_in = types.ModuleType("tidings.node.node")
        vars(stand_in).update(functions)
        monkeypatch.setitem(sys.modules, "tidings.node.node", stand_in)
        monkeypatch.setattr(tidings.node, "node", stand_in)

    return put
