"""Every test that the docs name exists: a promise or an attack never points to a test that was renamed or removed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]


def missing_tests(text: str, root: Path) -> list[str]:
    """The names in `path::test` that the file does not define."""
    missing: list[str] = []
    for path, name in re.findall(r"`(tests/[\w/.]+\.py)::(\w+)`", text):
        file = root / path
        if not file.is_file() or not re.search(rf"def {name}\b", file.read_text("utf-8")):
            missing.append(f"{path}::{name}")
    return missing


def test_every_named_test_exists() -> None:
    found = {page.name: missing_tests(page.read_text("utf-8"), ROOT) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_test_that_is_gone_is_noticed() -> None:
    here = "tests/docs/test_named_tests.py"
    text = f"`{here}::test_a_test_that_is_gone_is_noticed` `{here}::test_gone` `tests/nowhere.py::test_x`"
    assert missing_tests(text, ROOT) == [f"{here}::test_gone", "tests/nowhere.py::test_x"]
