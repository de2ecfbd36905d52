"""Adapters by URL scheme: each row of SCHEMES leads to an adapter that keeps the protocol and runs every suite."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from tests import contracts
from tidings.stores.tables import schemes
from tidings.stores.tables.open import Adapter, adapter_of
from tidings.stores.tables.schemes import SCHEMES, Scheme

PORTS = Path(contracts.__file__).parent
HERE = Path(__file__).parent


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_an_adapter_with_all_functions_of_the_protocol(scheme: str) -> None:
    adapter = importlib.import_module(SCHEMES[scheme].adapter)
    wanted = {name for name, _ in inspect.getmembers(Adapter, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in wanted if not callable(getattr(adapter, name, None))} == set()
    for name in wanted:
        (self_, *parameters) = inspect.signature(getattr(Adapter, name)).parameters
        assert self_ == "self" and list(inspect.signature(getattr(adapter, name)).parameters) == parameters


def suites_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Contract")}


def suites_run_in(folder: Path) -> set[str]:
    trees = [ast.parse(file.read_text("utf-8")) for file in folder.rglob("test_*.py")]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_adapter_runs_every_contract_suite(scheme: str) -> None:
    of_tables = [file for file in PORTS.glob("*.py") if file.stem not in ("blobs", "file_bytes")]
    wanted = {name for file in of_tables for name in suites_in(file)}
    assert len(wanted) > 8
    assert wanted - suites_run_in(HERE / SCHEMES[scheme].adapter.split(".")[-2]) == set()


def test_an_adapter_without_its_library_is_a_mistake_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Scheme(
        adapter="tidings.stores.tables.no_such", example="x://y", place=".*", place_hint="", extra="postgres"
    )
    monkeypatch.setitem(schemes.SCHEMES, "x", lacking)
    with pytest.raises(ValueError, match=r"x:// needs pip install '\.\[postgres\]'"):
        adapter_of("x://y")
