"""`tidings top`: the words of the command, and its exit codes."""

from __future__ import annotations

import pytest

from tests.support.command_line import complaint
from tidings.cli.main import main
from tidings_proof.world.ports import free_port


def test_the_exit_code_is_1_when_no_node_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--interval", "1s", f"127.0.0.1:{free_port()}"]) == 1
    assert "LOST" in capsys.readouterr().out


def test_a_bad_address_or_time_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'foo' is not an http:// or https:// address" in complaint(capsys, "top", "foo")
    assert "--interval" in complaint(capsys, "top", "--interval", "soon")


def test_without_an_address_the_port_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tidings top http://host:port" in complaint(capsys, "top", "--once", "--port", "0")
