"""The site of the documentation: every page is in its menu, and the menu names no page that is missing."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.paths import ROOT


def pages_of(menu: Any) -> list[str]:
    if isinstance(menu, str):
        return [menu]
    branches = menu.values() if isinstance(menu, dict) else menu
    return [page for branch in branches for page in pages_of(branch)]


def test_every_page_is_in_the_menu_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    docs = ROOT / "docs"
    there = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    assert sorted(pages_of(site["nav"])) == there
