"""The launcher: the `tidings` command with something planted in it, and every plant still finds its place."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidings
from tidings_proof.sabotage.launcher import PARENT
from tidings_proof.sabotage.plants import PLANTS
from tidings_proof.world.processes import environment


def launched(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidings_proof.sabotage.launcher", *words],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_plant_it_is_the_command() -> None:
    done = launched("--", "version")
    assert (done.returncode, done.stdout) == (0, f"tidings {tidings.__version__}\n")


def test_every_plant_can_be_planted() -> None:
    """All at once: what they change in the code must still be there to be changed."""
    done = launched(*PLANTS, "--", "version")
    assert done.returncode == 0, done.stderr


def test_what_is_not_a_plant_is_refused() -> None:
    assert launched("no-such-plant", "--", "version").returncode != 0


def test_it_ends_with_whoever_started_it() -> None:
    """A shell starts it in the background, says its number and ends."""
    serve = f'{sys.executable} -m tidings_proof.sabotage.launcher -- serve --dev --port 0 --data "$0"'
    script = f"{PARENT}=$$ {serve} >/dev/null 2>&1 & echo $!"
    with tempfile.TemporaryDirectory() as folder:
        started = subprocess.run(
            ["sh", "-c", script, folder], env=environment({}), capture_output=True, text=True, timeout=120, check=True
        )
        pid = int(started.stdout)
        deadline_s = time.monotonic() + 60
        while Path(f"/proc/{pid}/cmdline").exists() and "sabotage.launcher" in Path(f"/proc/{pid}/cmdline").read_text():
            assert time.monotonic() < deadline_s, "it lives on"
            time.sleep(0.05)
