"""A Slack export: order, threads, mentions, reactions and files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tidings.messaging.transfer.sources.slack import Slack


def slack(path: Path) -> Path:
    files = {
        "users.json": [{"id": "U1", "name": "ann", "real_name": "Ann"}, {"id": "U2", "name": "ben"}],
        "channels.json": [{"id": "C1", "name": "general", "members": ["U1", "U2"], "created": 1_500_000_000}],
        "general/2017-07-14.json": [
            {
                "type": "message",
                "user": "U2",
                "text": "re <@U1>",
                "ts": "1500000002.000100",
                "thread_ts": "1500000001.0",
            },
            {
                "type": "message",
                "user": "U1",
                "text": "first <!here>",
                "ts": "1500000001.0",
                "thread_ts": "1500000001.0",
                "reactions": [{"name": "+1", "users": ["U2"]}],
                "edited": {"ts": "1500000009.0"},
            },
            {"type": "message", "subtype": "channel_join", "text": "", "ts": "1500000000.0", "user": "U1"},
            {
                "type": "message",
                "user": "U1",
                "text": "",
                "ts": "1500000003.0",
                "files": [{"id": "F1", "name": "a.txt", "mimetype": "text/plain"}, {"id": "F2", "name": "gone.png"}],
            },
        ],
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content))
        archive.writestr("__uploads/F1/a.txt", b"words")
    return path


def test_a_slack_export_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    source = Slack(slack(tmp_path / "export.zip"), {"U1": "ann"})
    assert [(one.user_id, one.name) for one in source.people()] == [("ann", "Ann"), ("U2", "ben")]
    (general,) = source.conversations()
    assert (general.conversation_id, general.kind) == ("slack-C1", "channel")
    assert [one.user_id for one in general.members] == ["ann", "U2"]
    first, second, third = source.messages(general)
    assert (first.text, first.sender_id, first.sent_ms) == ("first <!here>", "ann", 1_500_000_001_000)
    assert (first.is_root, first.mention, first.edited_ms) == (True, "here", 1_500_000_009_000)
    assert first.reactions == (("👍", ("U2",)),)
    assert (second.text, second.root, second.mentions) == ("re @Ann", first.message_id, ("ann",))
    (file,) = third.files
    with file.open() as opened:
        assert (file.name, file.mime, file.bytes, opened.read()) == ("a.txt", "text/plain", 5, b"words")
    assert third.data == {"slack": {"files": ["gone.png"]}}
