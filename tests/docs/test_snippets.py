"""Commands of the pages are words that the command line takes.

test_code_blocks.py runs those of the pages for developers. The steps of a restore are run by a test of their own.
"""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.code_blocks import USE_PAGES
from tests.support.paths import ROOT
from tidings.cli import main

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "examples" / "README.md"]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The lines of plain blocks that are a `tidings` command, without the remark beside it. One block shows a file."""
    lines = [line for language in ("", "sh") for block in blocks(text, language) for line in block.splitlines()]
    found = [re.match(r"(?:\S+=\S+ )*(?:\.venv/bin/)?tidings (.*)", line) for line in lines]
    return [re.split(r"\s{2,}|\s#", match[1])[0] for match in found if match and not match[1].startswith("segment")]


def test_programs_are_only_on_pages_that_a_test_runs() -> None:
    elsewhere = [page for page in PAGES if page not in USE_PAGES and blocks(page.read_text("utf-8"), "python")]
    assert elsewhere == []


NAMED = sorted({(page.name, command) for page in PAGES for command in commands(page.read_text("utf-8"))})


@pytest.mark.parametrize(("page", "command"), NAMED)
def test_a_command_of_the_docs_is_one_that_the_command_line_takes(page: str, command: str) -> None:
    words = shlex.split(command.replace("[", " ").replace("]", " "))
    name = main._verb_name(words)
    main._parse(name, words[len(name.split()) :])


def test_every_verb_that_a_page_names_exists() -> None:
    pages = {page.name: page.read_text("utf-8") for page in PAGES if page.name != "CHANGELOG.md"}
    named = {
        (page, words) for page, text in pages.items() for words in re.findall(r"`tidings ([a-z]+(?: [a-z-]+)?)", text)
    }
    verbs = {*main.VERBS, *(name.split()[0] for name in main.VERBS)}
    one = {name for name in main.VERBS if " " not in name}
    unknown = [(page, words) for page, words in named if words not in verbs and words.split()[0] not in one]
    assert len(named) > 20 and unknown == []


def test_there_are_commands_on_many_pages() -> None:
    assert len(NAMED) > 30
    assert len({page for page, _ in NAMED}) > 5
