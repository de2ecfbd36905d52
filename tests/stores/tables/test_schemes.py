"""URL schemes of the tables: forms for help, and a new scheme that the settings take without an edit of theirs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidings.stores.tables.schemes import SCHEMES, examples, scheme_of, url_of


def test_the_default_is_a_file_in_the_data_folder() -> None:
    assert url_of("sqlite", Path("/data")) == "sqlite:///data/tidings.db"
    assert url_of("dynamodb://eu-west-1", Path("/data")) == "dynamodb://eu-west-1"
    assert scheme_of("sqlite") is SCHEMES["sqlite"]
    assert scheme_of("dynamodb://eu-west-1?prefix=a") is SCHEMES["dynamodb"]


def test_the_help_names_every_form() -> None:
    assert examples() == "sqlite, sqlite:///path, postgresql://user@host/database or dynamodb://region"
    assert examples(are_shared=True) == "postgresql://user@host/database or dynamodb://region"


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_the_example_of_a_scheme_fits_its_own_pattern(scheme: object) -> None:
    row = next(row for row in SCHEMES.values() if row is scheme)
    assert re.fullmatch(row.place, row.example.partition("://")[2])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("prefix", ["", "a_b.c-9"], ["a:b", "x" * 65]),
        ("links", ["2", "064", "999"], ["1", "0", "1000", "-3", "two"]),
        ("endpoint", ["http://127.0.0.1:8000", "https://x.example/"], ["ftp://x", "http://", "http://a b"]),
    ],
)
def test_a_parameter_of_the_url_is_checked_by_its_pattern(name: str, good: list[str], bad: list[str]) -> None:
    pattern = SCHEMES["dynamodb"].parameters[name].pattern
    assert [value for value in good if not re.fullmatch(pattern, value)] == []
    assert [value for value in bad if re.fullmatch(pattern, value)] == []
