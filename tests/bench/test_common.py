"""Figures, results, tokens and CPU readings of the benchmarks; nothing here is timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from joserfc import jwt
from joserfc.jwk import OctKey

from bench.common import (
    SECRET,
    Check,
    Result,
    command_of,
    cpu_s,
    descendants,
    options,
    percentile,
    result,
    shown,
    token,
    write,
)


def a_result(*checks: Check) -> Result:
    return result("send", "a claim", {"pairs": 100}, {"tidings": {"cpu_us": 90.5}}, list(checks))


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2


def test_the_percentile_of_nothing_is_zero() -> None:
    assert percentile([], 0.5) == 0.0


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


def test_figures_are_shown_with_the_digits_that_mean_something() -> None:
    shapes = {12396.4: "12,396", 87.43: "87.4", 1.478: "1.48", 20.0: "20", 5_000: "5,000", "ws": "ws"}
    assert {value: shown(value) for value in shapes} == shapes


def test_a_token_is_signed_for_its_user() -> None:
    claims = jwt.decode(token("alice"), OctKey.import_key(SECRET), algorithms=["HS256"]).claims
    assert claims["sub"] == "alice"
    assert claims["exp"] > claims["iat"]


def test_cpu_is_what_proc_says_in_finer_units() -> None:
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        pass
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    read_s = cpu_s({"node": [os.getpid()], "valkey": []})
    assert read_s["valkey"] == 0
    assert abs(read_s["node"] - ticks_s) < 0.1
    assert read_s["node"] >= 0.05


def test_children_of_a_process_are_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(descendants(os.getpid()))
        assert child.stdin is not None
        child.stdin.write(b"\n")
