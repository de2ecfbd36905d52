"""The Dockerfile as far as it can be run without Docker: what it copies exists, what it installs is locked and
complete, its wheel is whole, and its probe and its words work on a real node.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.deploy_files import DEPLOY, ROOT, lock, wrong_settings
from tests.support.nodes.node_process import NodeProcess, command, environment
from tidings.bounds import DRAIN_S

EXTRAS = ("dynamodb", "otel", "push")


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of each, lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def said(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def copied() -> list[str]:
    """What comes from the repository."""
    return [source for rest in said("COPY") if "--from" not in rest for source in rest.split()[:-1]]


def test_everything_it_copies_exists_and_is_let_through() -> None:
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    let_through = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert sorted(line[1:] for line in let_through if line.startswith("!")) == sorted(copied())


def test_it_installs_from_hashes_alone() -> None:
    installs = [rest for rest in said("RUN") if re.search(r" pip (--python=\S+ )?install ", rest)]
    assert len(installs) == 3
    assert all("--require-hashes" in rest or "--no-deps --no-index" in rest for rest in installs)
    named = {source for rest in installs for source in re.findall(r"-r (\S+)", rest)}
    assert named == {"requirements/build.txt", "requirements/image.txt"}


def test_its_base_is_an_exact_version_and_it_holds_nothing_that_installs() -> None:
    (base,) = {rest.split()[0] for rest in said("FROM")}
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-bookworm(@sha256:\w+)?", base)
    assert any("venv --without-pip /opt/tidings" in rest for rest in said("RUN"))
    assert any("pip uninstall" in rest and rest.endswith(" setuptools wheel pip") for rest in said("RUN"))


def test_its_lock_has_what_a_node_needs_with_every_extra_in_the_versions_of_the_tests() -> None:
    image, tested = lock("image.txt"), lock("dev.txt")
    assert {name: version for name, version in image.items() if tested.get(name) != version} == {}
    assert sorted(needed("tidings-server", EXTRAS) - image.keys() - {"tidings-server"}) == []
    clients = {"websockets"}  # the welcome of `make run` is a client; an image has none
    assert {name: version for name, version in lock("run.txt").items() if name not in clients}.items() <= image.items()


def test_its_build_lock_makes_the_wheel_that_the_project_asks_for() -> None:
    build, tested = lock("build.txt"), lock("dev.txt")
    assert "hatchling" in build
    assert {name for name in build if tested.get(name, build[name]) != build[name]} == set()


def needed(package: str, extras: tuple[str, ...] = ()) -> set[str]:
    """The package and everything that it requires here, from what is installed."""
    found: set[tuple[str, str]] = set()
    waiting = [(package, extra) for extra in ("", *extras)]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += list(_required(*one))
    return {name for name, _ in found}


def _required(package: str, extra: str) -> Iterator[tuple[str, str]]:
    for line in metadata.requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            yield from ((name, each) for each in ("", *requirement.extras))


def test_its_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    """The command of the Dockerfile, with the build tools of this environment."""
    (line,) = [rest for rest in said("RUN") if " pip wheel " in rest]
    words = line.replace("/build/bin/python", sys.executable).replace("/wheel", str(tmp_path)).split()
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name.removeprefix("tidings/") for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name}
    folder = ROOT / "src" / "tidings"
    owned = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    owned |= {f"web/sdk/{path.name}" for path in (folder / "web" / "sdk").iterdir()}  # a link in the repository
    assert {name for name in owned if "__pycache__" not in name} == packed
    assert {"stores/tables/sqlite/file/schema.sql", "web/index.html", "web/sdk/tidings.js"} <= packed
    assert any(name.endswith(".lua") for name in packed)


def test_its_settings_are_settings_of_a_node() -> None:
    pairs = dict(re.findall(r"(\w+)=(\S+)", " ".join(said("ENV"))))
    assert wrong_settings(pairs, frozenset()) == []
    assert (pairs["TIDINGS_HOST"], pairs["TIDINGS_PORT"], said("EXPOSE")) == ("0.0.0.0", "8000", ["8000"])
    assert said("VOLUME") == [pairs["TIDINGS_DATA"]]


def test_it_does_not_run_as_root_and_ends_with_a_drain() -> None:
    assert said("USER") == ["10001:10001"] and "uid 10001" in " ".join(said("RUN"))
    assert said("STOPSIGNAL") == ["SIGTERM"]
    told = re.search(r"docker stop -t (\d+)", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert told is not None and int(told[1]) > DRAIN_S


def test_its_words_are_words_of_the_command_line() -> None:
    words = json.loads(said("ENTRYPOINT")[0])[1:] + json.loads(said("CMD")[0])
    answer = subprocess.run(command(*words, "--help"), env=environment({}), capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0 and "start a node" in answer.stdout


def test_its_probe_passes_on_a_node_and_fails_without_one(tmp_path: Path) -> None:
    words = json.loads(said("HEALTHCHECK")[0].partition("CMD ")[2])
    assert words[0] == "python"
    with NodeProcess(tmp_path / "data") as node:
        node.start()
        probe = [sys.executable, words[1], words[2].replace(":8000/", f":{node.port}/")]
        assert subprocess.run(probe, capture_output=True, timeout=120).returncode == 0
        node.stop()
        assert subprocess.run(probe, capture_output=True, timeout=120).returncode != 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_its_build_stage_makes_an_environment_in_which_a_node_starts(tmp_path: Path) -> None:
    """Every RUN of the first stage, in its order and with its words; only the folders are others."""
    stage = instructions()[: [word for word, _ in instructions()].index("FROM", 1)]
    places = {"/build": tmp_path / "build", "/opt/tidings": tmp_path / "node", "/wheel": tmp_path / "wheel"}
    for line in (rest for word, rest in stage if word == "RUN"):
        for place, folder in places.items():
            line = re.sub(rf"(?<![\w/]){place}\b", str(folder), line)
        line = re.sub(r"(?<![\w/])python ", f"{sys.executable} ", line)
        done = subprocess.run(["sh", "-ec", line], cwd=ROOT, capture_output=True, text=True, check=False)
        if "No matching distribution" in done.stderr and "Could not find a version" in done.stderr:
            pytest.skip(f"the package index lacks something: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("tidings ")
    parts = "tidings.node.node, tidings.stores.tables.dynamodb.adapter, tidings.stores.push.open"
    python = tmp_path / "node" / "bin" / "python"
    subprocess.run([python, "-c", f"import {parts}"], cwd=tmp_path, env={}, check=True, timeout=60)
