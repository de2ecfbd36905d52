"""The README is true and short: its counts are those of the code, and it names the pages to begin with."""

from __future__ import annotations

import re

from tests.support.paths import ROOT
from tidings import bounds
from tidings_proof.sabotage.plants import PLANTS
from tidings_proof.torture.run import CHECKS

README = (ROOT / "README.md").read_text("utf-8")
LINES_MAX = 150
PROMISES = len(CHECKS)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_the_counts_of_promises_and_planted_bugs_are_those_of_the_proof() -> None:
    operations = (ROOT / "docs" / "run" / "operations.md").read_text("utf-8")
    for text in (README, operations):
        assert {int(count) for count in re.findall(r"(\d+) promises", text)} == {PROMISES}
    assert re.findall(r"(\d+) planted bugs", README) == [str(len(PLANTS))]


def test_the_largest_conversation_is_the_one_that_the_code_takes() -> None:
    assert f"above {bounds.MEMBERS_MAX:,} members" in README


def test_every_page_of_the_index_exists_and_every_page_for_developers_is_in_it() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w/.-]+\.md)\)", index))
    assert [page for page in sorted(linked) if not (ROOT / "docs" / page).is_file()] == []
    for folder in ("use", "run"):
        there = {f"{folder}/{page.name}" for page in (ROOT / "docs" / folder).glob("*.md")}
        assert there <= linked
