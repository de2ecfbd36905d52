"""`tidings config`: every value with its source, and no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import SECRET, complaint
from tidings.cli.main import main


def test_config_prints_every_value_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tidings.toml").write_text("[limits]\nsend = '5/1s'\n")
    monkeypatch.setenv("TIDINGS_AUTH_SECRET", SECRET)
    assert main(["config", "--port", "9", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["port"] == {"value": 9, "source": "flag --port"}
    assert shown["limits.send"] == {"value": "5/1s", "source": "file tidings.toml"}
    assert shown["auth.secret"] == {"value": "********", "source": "environment TIDINGS_AUTH_SECRET"}
    assert shown["tables"] == {"value": "sqlite", "source": "default"}


def test_config_for_people_masks_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KEYSPACE", "redis://me:sesame@localhost:6379/0")
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    assert "redis://me:********@localhost:6379/0" in text and "sesame" not in text


def test_the_columns_stand_below_each_other_whatever_the_names_and_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keyspace = "redis://a-host-with-a-name-that-is-rather-long.example:6379/0"
    monkeypatch.setenv("TIDINGS_KEYSPACE", keyspace)
    assert main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("push.fcm_credentials_file ") for line in lines)
    form = re.compile(r"(\S+ +)((?:default|random|environment \w+) +)(\S.*)")
    found = [one for line in lines if (one := form.fullmatch(line))]
    assert len(found) == len(lines) and len({(one.start(2), one.start(3)) for one in found}) == 1
    assert [one[3] for one in found if one[1].strip() == "keyspace"] == [keyspace]


def test_an_unknown_variable_stops_every_verb_that_needs_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_LIMIT_SEND", "1/1s")
    assert "TIDINGS_LIMITS_SEND" in complaint(capsys, "config")
    assert main(["version"]) == 0
