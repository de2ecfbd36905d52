"""Socket.IO in the comparison: installed once from its lock, and talked over."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.versus import socketio
from tidings_proof.bench.versus.rivals import QUICK
from tidings_proof.bench.versus.works import prepared


def test_a_missing_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert socketio.missing() == "no node and npm: apt install nodejs npm"


def test_a_failed_install_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(RuntimeError, match="npm cannot fetch it: no network"):
        socketio.installed()


def test_its_lock_names_no_host_and_has_a_hash_for_each_package() -> None:
    text = (socketio._SOURCE / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]
    wanted = json.loads((socketio._SOURCE / "package.json").read_text("utf-8"))["dependencies"]
    assert packages[""]["dependencies"] == wanted
    assert all("integrity" in one for name, one in packages.items() if name)
    assert not re.search("://", text)


@pytest.mark.long
def test_pairs_and_a_channel_talk_over_it() -> None:
    if lack := socketio.missing():
        pytest.skip(lack)
    with folder() as data, socketio.start(data, QUICK) as server:
        for work in ("send", "fanout"):
            assert all(figure > 0 for turn in prepared(work, server) for figure in turn(0).values())
