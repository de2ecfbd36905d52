"""The command line in tests: run verbs in this process, and read what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.nodes.node_process import NodeProcess
from tidings.cli.main import main

SECRET = "0123456789abcdef0123456789abcdef"
PutNode = Callable[..., None]


def complaint(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    assert main(words) == code
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("tidings: ") and shown.err.count("\n") == 1
    return shown.err


class Verbs:
    """The command line on the stores of a node, in this process: a process for each verb takes a second."""

    def __init__(self, node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._node = node
        self._capsys = capsys
        self.data = node.data

    def run(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main([*words, "--data", str(self._node.data)]) == code
        shown = self._capsys.readouterr()
        return shown.out or shown.err

    def entries(self, *words: str) -> list[dict[str, Any]]:
        lines = self.run("audit", "tail", "--json", "--count", "1000", *words).splitlines()
        return [json.loads(line) for line in lines]


def sends(node: NodeProcess, c: str, user_id: str, count: int, prefix: str) -> list[int]:
    bodies = [{"message_id": f"{prefix}{n}", "text": "hi"} for n in range(count)]
    return [node.rest("POST", f"/v1/conversations/{c}/messages", body, user_id)[0] for body in bodies]
