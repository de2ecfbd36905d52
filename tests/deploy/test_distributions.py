"""The three distributions: what each wheel has in it, and that the server's has no sabotage."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

import tidings
from tests.support.deploy_files import ROOT

SOURCES = {"tidings_server": ".", "tidings_client": "./clients/python", "tidings_proof": "./proof"}
NEVER_SHIPPED = ("torture", "sabotage", "simulation", "bench", "tests/")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheels")
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*words, "--wheel-dir", str(folder), *SOURCES.values()], cwd=ROOT, check=True, capture_output=True)
    return {name: zipfile.ZipFile(next(folder.glob(f"{name}-*.whl"))) for name in SOURCES}


def files_of(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if ".dist-info/" not in name]


def read(wheel: zipfile.ZipFile, name: str) -> str:
    (found,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(found).decode()


def test_the_server_has_its_page_and_no_sabotage(wheels: dict[str, zipfile.ZipFile]) -> None:
    files = files_of(wheels["tidings_server"])
    assert {"tidings/web/index.html", "tidings/web/admin/index.html", "tidings/web/sdk/tidings.js"} <= set(files)
    assert [name for name in files if any(word in name for word in NEVER_SHIPPED)] == []
    assert {name.partition("/")[0] for name in files} == {"tidings"}


def test_the_client_has_nothing_of_the_server(wheels: dict[str, zipfile.ZipFile]) -> None:
    files = files_of(wheels["tidings_client"])
    assert {name.partition("/")[0] for name in files} == {"tidings_client"} and "tidings_client/py.typed" in files


def test_the_client_installs_three_packages(wheels: dict[str, zipfile.ZipFile]) -> None:
    """Itself and two others, which require nothing in their turn on the oldest and the newest Python."""
    wanted = Parser().parsestr(read(wheels["tidings_client"], "METADATA")).get_all("Requires-Dist") or []
    assert {re.split(r"[^\w-]", line)[0] for line in wanted} == {"msgspec", "websockets"}
    further = [line for line in wanted if any(_plain(distribution(re.split(r"[^\w-]", line)[0]).requires))]
    assert further == []


def _plain(lines: list[str] | None) -> list[str]:
    """What is required without an extra."""
    return [line for line in lines or [] if "extra ==" not in line]


def test_the_proof_adds_its_verbs(wheels: dict[str, zipfile.ZipFile]) -> None:
    files = files_of(wheels["tidings_proof"])
    assert {name.partition("/")[0] for name in files} == {"tidings_proof"} and "tidings_proof/py.typed" in files
    assert read(wheels["tidings_proof"], "entry_points.txt").split() == [
        "[tidings.verbs]",
        *("bench", "=", "tidings_proof.bench.cli:VERBS"),
        *("torture", "=", "tidings_proof.torture.cli:VERBS"),
    ]


def test_all_have_the_version_of_the_server(wheels: dict[str, zipfile.ZipFile]) -> None:
    found = {name: Parser().parsestr(read(wheel, "METADATA"))["Version"] for name, wheel in wheels.items()}
    assert found == dict.fromkeys(SOURCES, tidings.__version__)


def test_without_the_proof_its_verbs_are_named_in_one_line(wheels: dict[str, zipfile.ZipFile], tmp_path: Path) -> None:
    """The wheel alone, with the libraries of this environment and none of its entry points."""
    wheels["tidings_server"].extractall(tmp_path)
    libraries = Path(str(distribution("msgspec").locate_file("")))
    script = (
        "import sys, importlib.metadata as metadata\n"
        "metadata.entry_points = lambda **wanted: ()\n"
        "from tidings.cli.main import main\n"
        "sys.exit(main(['torture']))\n"
    )
    path = f"{tmp_path}:{libraries}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], env={"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tidings: `tidings torture` is part of another package: pip install tidings-proof\n"
