"""JSON lines: read where they lie, in a folder, a zip or alone; a wrong line is named."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources.jsonl import JsonLines

LINES: list[dict[str, object]] = [
    {"type": "user", "user_id": "ann", "name": "Ann"},
    {"type": "conversation", "conversation_id": "c1", "members": ["ann", "ben"]},
    {"type": "conversation", "conversation_id": "c2", "kind": "channel", "members": [{"user_id": "ben"}]},
    {"type": "message", "conversation_id": "c1", "message_id": "m1", "sender_id": "ann", "text": "1", "sent_at": 1},
    {"type": "message", "conversation_id": "c2", "message_id": "m2", "sender_id": "ben", "text": "2", "sent_at": 2},
    {"type": "message", "conversation_id": "c1", "message_id": "m3", "sender_id": "ben", "text": "3", "sent_at": 3},
    {"type": "mark", "conversation_id": "c1"},
]


def text(lines: list[dict[str, object]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def as_file(path: Path) -> Path:
    (path / "some.jsonl").write_text(text(LINES) + "\n", "utf-8")
    return path / "some.jsonl"


def as_folder(path: Path) -> Path:
    (path / "export.jsonl").write_text(text(LINES), "utf-8")
    return path


def as_zip(path: Path) -> Path:
    with zipfile.ZipFile(path / "export.zip", "w") as packed:
        packed.writestr("export.jsonl", text(LINES))
    return path / "export.zip"


@pytest.mark.parametrize("form", [as_file, as_folder, as_zip])
def test_messages_come_by_conversation_in_their_order(form: object, tmp_path: Path) -> None:
    assert callable(form)
    source = JsonLines(form(tmp_path), {"ben": "benjamin"})
    assert [person.name for person in source.people()] == ["Ann"]
    one, two = source.conversations()
    assert [(member.user_id, member.role) for member in one.members] == [("ann", "owner"), ("benjamin", "member")]
    interleaved = list(zip(source.messages(one), source.messages(two), strict=False))
    assert [(left.text, right.text) for left, right in interleaved] == [("1", "2")]
    assert [message.sender_id for message in source.messages(one)] == ["ann", "benjamin"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"type": "message", "conversation_id": "c"}, "line 1 lacks"),
        ({"type": "song"}, "no `type` 'song'"),
        ({"user_id": "ann"}, "lacks 'type'"),
        ({"type": "user", "user_id": "a b"}, "--map"),
        ({"type": "conversation", "conversation_id": "a/b", "members": []}, "conversation"),
    ],
)
def test_a_wrong_line_is_named(line: dict[str, object], said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(text([line]), "utf-8")
    with pytest.raises(BadRequest, match=said):
        JsonLines(tmp_path / "bad.jsonl", {})


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("[1]\nnothing", "utf-8")
    with pytest.raises(BadRequest, match="line 1 is no JSON object"):
        JsonLines(tmp_path / "bad.jsonl", {})
    with pytest.raises(BadRequest, match="there is no"):
        JsonLines(tmp_path / "nowhere.jsonl", {})
