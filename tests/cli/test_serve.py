"""`tidings serve`: a node starts, and its addresses are printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import PutNode, complaint
from tidings.cli.main import main
from tidings.cli.serve import banner
from tidings.config.settings import Settings, load


def test_serve_prints_the_urls_once_it_listens(put_node: PutNode, capsys: pytest.CaptureFixture[str]) -> None:
    def serve(settings: Settings, on_ready: Callable[[int], None], sources: object) -> int:
        assert settings.dev and settings.auth.secret
        on_ready(1234)
        return 0

    put_node(serve=serve)
    assert main(["serve", "--dev", "--port", "0", "--log-level", "error"]) == 0
    text = capsys.readouterr().out
    for place in (
        "/",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/healthz",
        "/v1/dev/token",
        "/?as=alice",
        "/admin#key=tk_",
    ):
        assert f"http://127.0.0.1:1234{place}" in text
    assert "SIGN-IN IS OPEN" in text and "tidings-data" in text


def test_the_banner_is_quiet_about_dev_without_it_and_brackets_ipv6(tmp_path: Path) -> None:
    text = banner(load({"host": "::1"}, {}, tmp_path).settings, 80)
    assert "http://[::1]:80/" in text and "dev" not in text


def test_the_banner_names_the_command_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / ".venv" / "bin" / "tidings"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(program), "serve"])
    monkeypatch.setenv("PATH", "/nowhere")
    settings = load({}, {}, tmp_path).settings
    assert "(a key: .venv/bin/tidings key create" in banner(settings, 80)
    monkeypatch.setenv("PATH", str(program.parent))
    assert "(a key: tidings key create" in banner(settings, 80)


def test_the_banner_says_how_to_make_a_key_for_this_folder(tmp_path: Path) -> None:
    assert "(a key: tidings key create --name ops)" in banner(load({}, {}, tmp_path).settings, 80)
    elsewhere = banner(load({"data": "my chat"}, {}, tmp_path).settings, 80)
    assert f"(a key: tidings key create --name ops --data '{tmp_path}/my chat')" in elsewhere


def test_serve_needs_a_secret_and_stays_on_loopback_in_dev(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "TIDINGS_AUTH_SECRET" in complaint(capsys, "serve")
    assert "0.0.0.0" in complaint(capsys, "serve", "--dev", "--host", "0.0.0.0")
    assert list(tmp_path.iterdir()) == []
