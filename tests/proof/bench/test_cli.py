"""`tidings bench`: its words, its mistakes, and one whole run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.nodes.node_process import run_tidings
from tidings.cli import main as cli
from tidings_proof.bench.load.people import Keyed
from tidings_proof.bench.names import BENCHMARKS
from tidings_proof.bench.report.progress import Quiet
from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials.table import run_on


def test_every_benchmark_is_a_verb() -> None:
    assert {f"bench {name}" for name in (*BENCHMARKS, "all", "report")} <= set(cli.VERBS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench",), "`tidings bench` needs a second word; write `tidings bench connect` or"),
        (("bench", "send", "--seconds", "0"), "bad value for --seconds"),
        (("bench", "send", "nonsense"), "bad value for URL"),
        (("bench", "send", "--plot", "a.gif"), "neither in .png nor in .svg"),
        (("bench", "archive", "--user", "alice"), "--user of `tidings bench archive` needs a URL"),
        (("bench", "archive", "http://127.0.0.1:1", "--user", "alice"), "--conversation and --user go together"),
        (("bench", "send", "http://127.0.0.1:1", "--only", "tidings"), "--only of `tidings bench send` needs no URL"),
        (("bench", "send", "--only", "others"), "invalid choice: 'others'"),
        (("bench", "flood", "http://127.0.0.1:1"), "unknown flag or word 'http://127.0.0.1:1'"),
        (("bench", "limiter", "--plot", "a.svg"), "--plot"),
        (("bench", "report", "no-such-folder"), "no results in no-such-folder: run `tidings bench all` first"),
        (("bench", "send", "--members", "5"), "unknown flag or word '--members'"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_runs(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize("who", [(), ("--api-key", "k"), ("--auth-secret", "x" * 32)])
def test_a_server_that_is_not_there_is_one_line(who: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "inbox", "http://127.0.0.1:1", *who]) == 1
    assert capsys.readouterr().err == "tidings: nothing answers at http://127.0.0.1:1\n"


def test_a_run_on_a_node_of_its_own_is_printed_as_json(tmp_path: Path) -> None:
    done = run_tidings("bench", "connect", "--seconds", "3", "--clients", "2", "--json", env={}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    figures = found["figures"]["connect"]
    assert found["url"] is None and figures["units"] > 0 and figures["cpu_us"] > 0
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_server_that_is_there_is_measured_by_its_url_and_its_secret(capsys: pytest.CaptureFixture[str]) -> None:
    with folder() as data, own_node(data) as server:
        secret = ["--auth-secret", "only-for-benchmarks-on-loopback-0123456789"]
        assert cli.main(["bench", "send", server.url, "--seconds", "3", "--clients", "4", *secret]) == 0
        out = capsys.readouterr().out
        assert f"send: {server.url}" in out and "Valkey us" in out
        assert cli.main(["bench", "send", server.url, "--seconds", "3", "--clients", "4"]) == 2
        assert "gives no tokens" in capsys.readouterr().err
        assert cli.main(["bench", "send", server.url, "--api-key", "k"]) == 2
        assert "a socket takes a user's token and no API key" in capsys.readouterr().err
        assert cli.main(["bench", "inbox", server.url, "--api-key", "k", "--conversations", "1"]) == 1
        assert "401" in capsys.readouterr().err


@pytest.mark.long
def test_with_an_api_key_pages_are_read_over_rest(tmp_path: Path) -> None:
    secret = {"TIDINGS_AUTH_SECRET": "only-for-benchmarks-on-loopback-0123456789"}
    with folder() as data, own_node(data) as server:
        made = run_tidings("key", "create", "--name", "bench", "--data", str(data), env=secret, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        target = Target(server.url, Keyed(made.stdout.strip()), server.parts)
        for name in ("inbox", "history"):
            found = run_on(name, target, {"seconds": 3.0, "clients": 2, "conversations": 3, "messages": 20}, Quiet())
            assert next(iter(found.runs.values())).units > 0
