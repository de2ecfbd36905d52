"""The systemd unit: systemd itself reads it, a node takes its settings, and a drain has the time it may need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deploy_files import DEPLOY, wrong_settings
from tidings.bounds import DRAIN_S

UNIT = DEPLOY / "tidings.service"
EXPOSURE_MAX = 2.0  # of 10, by systemd's own reckoning; below it the unit is as closed as its work allows


def settings() -> dict[str, list[str]]:
    """Every value of every key: some keys may stand twice."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def analyze(*words: str, unit: Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd)")
    return subprocess.run([tool, *words, str(unit)], capture_output=True, text=True, timeout=60, check=False)


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    """With a program that exists here, for systemd looks for it."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/tidings/bin/tidings", sys.executable))
    answer = analyze("verify", unit=unit)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_it_is_hardened(tmp_path: Path) -> None:
    answer = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX * 10:.0f}", unit=UNIT)
    assert answer.returncode == 0, answer.stdout[-400:]


def test_its_settings_are_settings_of_a_node() -> None:
    unit = settings()
    pairs = dict(pair.split("=", 1) for line in unit["Environment"] for pair in line.split())
    assert wrong_settings(pairs, frozenset(("%d/auth.secret",))) == []
    assert unit["LoadCredential"][0].startswith("auth.secret:")
    assert pairs["TIDINGS_DATA"] == f"/var/lib/{unit['StateDirectory'][0]}"


def test_its_memory_is_bounded() -> None:
    assert settings()["MemoryMax"] == ["80%"]


def test_a_drain_is_not_cut_short_and_its_valkey_is_left_to_the_node() -> None:
    unit = settings()
    assert int(unit["TimeoutStopSec"][0]) > DRAIN_S
    assert (unit["KillSignal"], unit["KillMode"]) == (["SIGTERM"], ["mixed"])
