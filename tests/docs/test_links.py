"""Links of the pages lead somewhere: to a file of the repository, and to a heading that the page has."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "clients").glob("*/*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors_of(text: str) -> set[str]:
    """The anchors that a site makes of the headings."""
    bare = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(page: Path, text: str) -> list[str]:
    found = []
    for link in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and (not anchor or anchor in anchors_of(target.read_text("utf-8")))
        found += [] if is_there else [f"{page.name}: {link}"]
    return found


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert [link for page in PAGES for link in broken(page, page.read_text("utf-8"))] == []


def test_a_link_to_nothing_is_noticed() -> None:
    page = ROOT / "docs" / "index.md"
    text = "[a](use/nowhere.md) [b](use/tokens.md#nothing) [c](use/tokens.md#express) [d](https://example.com)"
    assert broken(page, text) == ["index.md: use/nowhere.md", "index.md: use/tokens.md#nothing"]
