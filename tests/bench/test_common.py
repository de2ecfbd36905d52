"""Figures, results, tokens and CPU readings of the benchmarks; nothing here is timed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bench.common import Check, Result, command_of, options, result, write


def a_result(*checks: Check) -> Result:
    return result("send", "a claim", {"pairs": 100}, {"tidings": {"cpu_us": 90.5}}, list(checks))


def test_a_check_compares_by_its_sign() -> None:
    assert Check("a", 220, "<=", 220).is_met and not Check("a", 220.1, "<=", 220).is_met
    assert Check("a", 4, ">=", 4).is_met and not Check("a", 3.9, ">=", 4).is_met
    assert Check("a", 20, "==", 20).is_met and not Check("a", 20.1, "==", 20).is_met


def test_a_result_says_where_it_is_from_and_survives_its_file(tmp_path: Path) -> None:
    found = a_result(Check("CPU", 90.5, "<=", 220, "us"))
    write(found, tmp_path / "new" / "send.json")
    assert msgspec.json.decode((tmp_path / "new" / "send.json").read_bytes(), type=Result) == found
    assert found.commit and found.python.split()[1].count(".") == 2
    assert found.machine["cores"] == os.cpu_count() and found.machine["memory_gib"] > 0
    assert found.command == "python -m bench send"


def test_the_command_of_a_result_has_the_options_it_was_made_with() -> None:
    parser = options("inbox", "About.", seconds=5)
    parser.add_argument("--big", action="store_true")
    assert command_of("inbox", parser, parser.parse_args([])) == "inbox"
    given = parser.parse_args(["--big", "--seconds", "2", "--out", "elsewhere.json"])
    assert command_of("inbox", parser, given) == "inbox --seconds 2.0 --big"
    assert result(command_of("inbox", parser, given), "", {}, {}, []).name == "inbox"
