"""Sources: a Slack export and JSON lines as conversations with messages."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources import JsonLines, Slack


def slack(path: Path) -> Path:
    files = {
        "users.json": [{"id": "U1", "name": "ann", "real_name": "Ann"}, {"id": "U2", "name": "ben"}],
        "channels.json": [{"id": "C1", "name": "general", "members": ["U1", "U2"], "created": 1_500_000_000}],
        "general/2017-07-14.json": [
            {"type": "message", "user": "U2", "text": "second", "ts": "1500000002.000100", "thread_ts": "1500000001.0"},
            {"type": "message", "user": "U1", "text": "first", "ts": "1500000001.000000"},
            {"type": "message", "subtype": "channel_join", "text": "", "ts": "1500000000.0", "user": "U1"},
        ],
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content))
    return path


def test_a_slack_export_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    source = Slack(slack(tmp_path / "export.zip"), {"U1": "ann"})
    assert dict(source.people()) == {"ann": "Ann", "U2": "ben"}
    (general,) = source.conversations()
    assert (general.conversation_id, general.kind, general.members) == ("slack-C1", "channel", ("ann", "U2"))
    first, second = source.messages(general)
    assert (first.text, first.sender_id, first.sent_ms) == ("first", "ann", 1_500_000_001_000)
    assert second.data == {"slack": {"thread_ts": "1500000001.0"}}


def test_a_line_that_lacks_something_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"type": "message", "conversation_id": "c"}', "utf-8")
    with pytest.raises(BadRequest, match="line 1 lacks"):
        JsonLines(path, {})
