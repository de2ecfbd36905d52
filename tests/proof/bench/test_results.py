"""Results: checks against targets, where a result is from, and the command that made it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.bench_figures import claim_result, trial_result
from tidings_proof.bench.results import Check, command_of, read, write


def test_a_check_compares_by_its_sign() -> None:
    assert Check("a", 220, "<=", 220).is_met and not Check("a", 220.1, "<=", 220).is_met
    assert Check("a", 4, ">=", 4).is_met and not Check("a", 3.9, ">=", 4).is_met
    assert Check("a", 20, "==", 20).is_met and not Check("a", 20.1, "==", 20).is_met


def test_a_result_says_where_it_is_from_and_survives_its_file(tmp_path: Path) -> None:
    found = claim_result("send", Check("CPU", 90.5, "<=", 220, "us"))
    write(found, tmp_path / "new" / "send.json")
    assert read(tmp_path / "new" / "send.json") == found
    assert found.commit and found.python.split()[1].count(".") == 2
    assert found.machine["cores"] == os.cpu_count() and found.machine["memory_gib"] > 0
    assert found.command == "tidings bench send"


def test_the_result_of_a_trial_survives_its_file_too(tmp_path: Path) -> None:
    found = trial_result()
    write(found, tmp_path / "send.json")
    assert read(tmp_path / "send.json") == found


def test_the_command_of_a_result_has_the_sizes_it_was_given() -> None:
    assert command_of("inbox", {}) == "tidings bench inbox"
    given = {"seconds": 2.0, "conversations": 50_000, "only": "x"}
    assert command_of("inbox", given) == "tidings bench inbox --seconds 2 --conversations 50000 --only x"
    assert command_of("send", {"rate": 0.5}, "http://h") == "tidings bench send http://h --rate 0.5"
