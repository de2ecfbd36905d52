"""tools/packages.sh names what is missing and is quick when nothing is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.deploy_files import ROOT

SCRIPT = ROOT / "tools" / "packages.sh"
USED = ("sh", "cut", "sed", "id", "tr")  # of the system, by the script itself
WANTED = (
    "haproxy",
    "npm",
    "chromium",
    "chromium-headless-shell",
    "redis-server",
    "pg_ctlcluster",
    "pgbouncer",
    "nginx",
    "faketime",
)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs in which everything that tests want is there but Java."""
    for name in USED:
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    for name in WANTED:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words], env={"PATH": str(folder)}, capture_output=True, text=True, timeout=120, check=False
    )


def test_what_is_missing_is_named_with_what_it_is_for(bare: Path) -> None:
    answer = run(bare, "--check")
    assert answer.returncode == 1
    assert [line.strip() for line in answer.stdout.splitlines()[1:]] == ["default-jre-headless (DynamoDB Local)"]


def test_without_apt_it_says_what_to_do_and_lets_the_tests_go_on(bare: Path) -> None:
    answer = run(bare)
    assert answer.returncode == 0 and "default-jre-headless" in answer.stdout and "as root on Debian" in answer.stdout


def test_where_nothing_is_missing_it_says_nothing(bare: Path) -> None:
    (bare / "java").symlink_to(bare / "npm")
    answer = run(bare, "--check")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_the_tests_call_it_first() -> None:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    for target in ("test: setup", "test-all: setup"):
        assert lines[lines.index(target) + 1].strip() == "@tools/packages.sh"
