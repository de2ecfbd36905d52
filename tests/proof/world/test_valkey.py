"""A Valkey of ours: spoken to past everything else, killed and started again on what it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_proof.world.valkey import Speaker, ValkeyProcess, start_valkey


@pytest.fixture
def server(tmp_path: Path) -> ValkeyProcess:
    return start_valkey(tmp_path / "v", args=("--appendonly", "yes", "--appendfsync", "always"))


def test_answers_are_decoded_whatever_they_are(server: ValkeyProcess) -> None:
    try:
        assert server.ask("SET", "a", "ä") == "OK" and server.ask("GET", "a") == "ä"
        assert server.ask("EXISTS", "nothing") == 0 and server.ask("GET", "nothing") is None
        assert server.ask_all([["LPUSH", "l", "x"], ["LLEN", "l"], ["LRANGE", "l", "0", "-1"]]) == [1, 1, ["x"]]
        assert isinstance(server.ask("NO", "SUCH"), Exception)
        assert Speaker(server.socket).pid == server.pid
    finally:
        server.stop()


def test_a_scan_sees_every_key_of_a_pattern(server: ValkeyProcess) -> None:
    try:
        server.ask_all([["SET", f"k:{n}", "1"] for n in range(1_500)] + [["SET", "other", "1"]])
        assert sorted(server.scan("k:*")) == sorted(f"k:{n}" for n in range(1_500))
    finally:
        server.stop()


def test_it_comes_back_with_what_it_had(server: ValkeyProcess) -> None:
    try:
        server.ask("SET", "a", "1")
        server.kill()
        server.start()
        assert server.ask("GET", "a") == "1"
        server.pause()
        server.resume()
        assert server.ask("PING") == "PONG"
    finally:
        server.stop()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        start_valkey(tmp_path / "v", args=("--no-such-setting", "1"))
