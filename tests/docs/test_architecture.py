"""The drawing of the rooms on the architecture page shows the folders that there are, no more and no fewer."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

SRC = ROOT / "src" / "tidings"
PAGE = (ROOT / "docs" / "inside" / "architecture.md").read_text("utf-8")


def rooms(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.is_dir() and not file.name.startswith("__")}


def test_the_drawing_shows_every_room() -> None:
    drawing = PAGE.partition("## The rooms")[2].split("```")[1]
    stores = SRC / "stores"
    there = rooms(SRC) | rooms(SRC / "messaging") | rooms(stores) | rooms(stores / "tables")
    assert set(re.findall(r"\b([a-z]+)/", drawing)) == there


def test_the_leaves_are_named() -> None:
    leaves = {file.stem for file in SRC.glob("*.py")} - {"__init__", "__main__", "limiter", "testing"}
    (line,) = re.findall(r"^((?:\w+ ){8}\w+)   ", PAGE, re.MULTILINE)
    assert set(line.split()) == leaves
