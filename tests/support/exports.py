"""Exports of other products, made up: people, channels, threads, mentions, reactions and a file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BEGIN_S = 1_500_000_000
PEOPLE = ("ann", "ben", "cleo")
FILE = b"the bytes of a shared file"


def slack(path: Path, *, channels: int, messages: int, day: int = 5_000) -> Path:
    """A zip. Every 10th message begins a thread that the next two are in; every 20th has a reaction."""
    ids = [f"C{at}" for at in range(channels)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        packed.writestr("users.json", json.dumps([{"id": one.upper(), "name": one} for one in PEOPLE]))
        members = [one.upper() for one in PEOPLE]
        rooms = [{"id": one, "name": one.lower(), "members": members, "created": BEGIN_S} for one in ids]
        packed.writestr("channels.json", json.dumps(rooms))
        for of, id_ in enumerate(ids):
            count = messages // channels + (of < messages % channels)
            for start in range(0, count, day):
                said = [_slack_message(at) for at in range(start, min(start + day, count))]
                packed.writestr(f"{id_.lower()}/day-{start:09d}.json", json.dumps(said))
    return path


def _slack_message(at: int) -> dict[str, Any]:
    ts, root = f"{BEGIN_S + at}.000100", at - at % 10
    message: dict[str, Any] = {
        "type": "message",
        "user": PEOPLE[at % 3].upper(),
        "text": f"message {at} says something of a usual length to <@{PEOPLE[(at + 1) % 3].upper()}>",
        "ts": ts,
    }
    if at % 10 < 3:
        message["thread_ts"] = f"{BEGIN_S + root}.000100"
    if at % 20 == 0:
        message["reactions"] = [{"name": "+1", "users": ["BEN", "CLEO"]}]
    return message


def mattermost(path: Path) -> Path:
    """A zip with the lines and `data`."""
    lines: list[dict[str, Any]] = [{"type": "version", "version": 1}]
    lines.append({"type": "channel", "channel": {"team": "t", "name": "town", "display_name": "Town", "type": "O"}})
    for one in PEOPLE:
        teams = [{"name": "t", "channels": [{"name": "town"}]}]
        lines.append({"type": "user", "user": {"username": one, "first_name": one.title(), "teams": teams}})
    post = {
        "team": "t",
        "channel": "town",
        "user": "ann",
        "message": "root for @ben and @nobody",
        "create_at": 1_000,
        "reactions": [{"user": "ben", "emoji_name": "heart", "create_at": 1_001}],
        "replies": [{"user": "ben", "message": "reply", "create_at": 3_000, "edit_at": 4_000}],
    }
    lines.append({"type": "post", "post": post})
    late = {"team": "t", "channel": "town", "user": "cleo", "message": "between", "create_at": 2_000}
    lines.append({"type": "post", "post": late | {"attachments": [{"path": "a/notes.txt"}, {"path": "a/gone.txt"}]}})
    lines.append({"type": "post", "post": late | {"type": "system_join_channel", "message": "joined"}})
    lines.append({"type": "direct_channel", "direct_channel": {"members": ["ben", "ann"]}})
    direct = {"channel_members": ["ann", "ben"], "user": "ann", "message": "@all between us", "create_at": 5_000}
    lines.append({"type": "direct_post", "direct_post": direct})
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("import.jsonl", "\n".join(map(json.dumps, lines)))
        packed.writestr("data/a/notes.txt", FILE)
    return path


def rocketchat(folder: Path) -> Path:
    """A folder of collections, as mongoexport writes them."""
    message = {"rid": "R1", "u": {"_id": "1", "username": "ann"}, "ts": {"$date": "2017-07-14T02:40:02.000Z"}}
    collections: dict[str, list[dict[str, Any]]] = {
        "users": [{"_id": str(at), "username": one, "name": one.title()} for at, one in enumerate(PEOPLE)],
        "rocketchat_room": [
            {"_id": "R1", "t": "c", "name": "general", "ts": {"$date": "2017-07-14T02:40:00.000Z"}},
            {"_id": "R2", "t": "l", "name": "a visitor"},
        ],
        "rocketchat_subscription": [
            {"rid": "R1", "u": {"_id": str(at), "username": one}} for at, one in enumerate(PEOPLE)
        ],
        "rocketchat_message": [
            message | {"_id": "m2", "msg": "reply", "tmid": "m1", "u": {"_id": "2", "username": "ben"}},
            message
            | {
                "_id": "m1",
                "msg": "root @ben @all",
                "ts": {"$date": {"$numberLong": "1500000001000"}},
                "tcount": 1,
                "mentions": [{"username": "ben"}, {"username": "all"}],
                "reactions": {":+1:": {"usernames": ["cleo"]}},
            },
            message | {"_id": "m3", "msg": "", "files": [{"_id": "F1", "name": "notes.txt", "type": "text/plain"}]},
            message | {"_id": "m4", "msg": "", "t": "uj"},
        ],
    }
    (folder / "uploads").mkdir(parents=True)
    (folder / "uploads" / "F1").write_bytes(FILE)
    for name, rows in collections.items():
        (folder / f"{name}.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return folder


def zulip(folder: Path) -> Path:
    """A folder with realm.json and two files of messages."""
    people = [
        {"id": at, "delivery_email": f"{one}@example.com", "full_name": one.title()} for at, one in enumerate(PEOPLE)
    ]
    realm = {
        "zerver_userprofile": people,
        "zerver_stream": [{"id": 7, "name": "engineering", "date_created": float(BEGIN_S)}],
        "zerver_recipient": [{"id": 70, "type": 2, "type_id": 7}, {"id": 71, "type": 1, "type_id": 1}],
        "zerver_subscription": [{"user_profile": at, "recipient": 70, "active": True} for at in range(3)],
        "zerver_reaction": [{"message": 1, "user_profile": 1, "emoji_code": "1f44d", "emoji_name": "+1"}],
    }
    texts = [
        (1, 70, "builds", "root for @**Ben** and @**all**"),
        (2, 70, "lunch", "another topic"),
        (3, 70, "builds", "see [notes.txt](/user_uploads/1/ab/notes.txt) and [x](/user_uploads/1/gone)"),
        (4, 71, "", "a secret for ben"),
    ]
    messages = [
        {"id": id_, "sender": 0, "recipient": to, "subject": topic, "content": text, "date_sent": BEGIN_S + id_ + 0.5}
        for id_, to, topic, text in texts
    ]
    (folder / "uploads" / "1" / "ab").mkdir(parents=True)
    (folder / "uploads" / "1" / "ab" / "notes.txt").write_bytes(FILE)
    (folder / "realm.json").write_text(json.dumps(realm), "utf-8")
    for at, part in enumerate(_halves(messages), start=1):
        (folder / f"messages-{at:06d}.json").write_text(json.dumps({"zerver_message": part}), "utf-8")
    return folder


def _halves(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    yield messages[:2]
    yield messages[2:]
