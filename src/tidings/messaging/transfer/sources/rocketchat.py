"""Rocket.Chat: a folder or zip with the collections as `mongoexport` writes them, one JSON object a line or one array.

The files are `users.json`, `rocketchat_room.json`, `rocketchat_subscription.json` and `rocketchat_message.json`. The
bytes of files are taken from `uploads/<file id>`, where somebody put them. People are known by their user names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tidings.messaging.transfer.sources.source import (
    ImportedConversation,
    ImportedFile,
    ImportedMessage,
    Person,
    Source,
    Users,
    binary,
    emoji_of,
    file_of,
    members_of,
    opened,
    safe_id,
)
from tidings.messaging.transfer.sources.spool import Spool
from tidings.model import ConversationKind, Mention

_KINDS: dict[str, ConversationKind] = {"c": "channel", "p": "group", "d": "group"}
_ALL: dict[str, Mention] = {"all": "all", "here": "here"}


class RocketChat(Source):
    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._root = opened(path)
        self._user = Users(users)
        self._rooms = {room["_id"]: room for room in self._read("rocketchat_room.json")}
        self._ids = {safe_id("rc", id_): id_ for id_ in self._rooms}
        self._members: dict[str, list[str]] = {}
        for one in self._read("rocketchat_subscription.json"):
            self._members.setdefault(one["rid"], []).append(one["u"]["username"])
        self._messages = Spool()
        for message in self._read("rocketchat_message.json"):
            if not message.get("t") and message.get("rid") in self._rooms:  # `t`: the server said it
                self._messages.add(message["rid"], _ms(message["ts"]), message)

    def people(self) -> list[Person]:
        found = (one for one in self._read("users.json") if one.get("username"))
        return [Person(self._user(one["username"]), one.get("name") or one["username"]) for one in found]

    def conversations(self) -> list[ImportedConversation]:
        return [
            ImportedConversation(
                safe_id("rc", id_),
                _KINDS.get(room.get("t", "c"), "channel"),
                room.get("fname") or room.get("name"),
                members_of(map(self._user, self._members.get(id_) or room.get("usernames") or ())),
                _ms(room["ts"]) if "ts" in room else 0,
            )
            for id_, room in self._rooms.items()
            if room.get("t") in _KINDS
        ]

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        for message in self._messages.read(self._ids[conversation.conversation_id]):
            if message.get("msg") or message.get("file") or message.get("files"):
                yield self._message(message)

    def _message(self, one: dict[str, Any]) -> ImportedMessage:
        message_id = safe_id("rc", one["_id"])
        given = one.get("files") or ([one["file"]] if one.get("file") else [])
        files = [(file, self._file(message_id, file)) for file in given]
        lost = [file.get("name") or file["_id"] for file, found in files if found is None]
        named = [who["username"] for who in one.get("mentions") or () if who.get("username")]
        reactions = one.get("reactions") or {}
        return ImportedMessage(
            message_id,
            self._user(one["u"]["username"]),
            _ms(one["ts"]),
            one.get("msg") or None,
            {"rocketchat": {"files": lost}} if lost else None,
            root=safe_id("rc", one["tmid"]) if one.get("tmid") else None,
            is_root=bool(one.get("tcount")),
            mentions=tuple(dict.fromkeys(self._user(name) for name in named if name not in _ALL)),
            mention=next((_ALL[name] for name in named if name in _ALL), None),
            reactions=tuple(
                (emoji_of(sign), tuple(map(self._user, who.get("usernames", ())))) for sign, who in reactions.items()
            ),
            files=tuple(found for _, found in files if found is not None),
            edited_ms=_ms(one["editedAt"]) if one.get("editedAt") else None,
        )

    def _file(self, message_id: str, file: dict[str, Any]) -> ImportedFile | None:
        name = file.get("name") or file["_id"]
        return file_of(self._root, f"uploads/{file['_id']}", message_id, name, file.get("type"))

    def _read(self, name: str) -> Iterator[dict[str, Any]]:
        file = self._root / name
        if not file.is_file():
            return
        with binary(file) as lines:
            first = lines.read(1)
            rest = lines.read() if first == b"[" else b""
            if rest:
                yield from msgspec.json.decode(first + rest)
                return
            yield from (msgspec.json.decode(line) for line in [first + lines.readline(), *lines] if line.strip())


def _ms(date: Any) -> int:
    """A time as mongoexport writes it: {"$date": "2020-01-01T00:00:00Z"} or {"$date": {"$numberLong": "1577…"}}."""
    inner = date.get("$date", date) if isinstance(date, dict) else date
    if isinstance(inner, dict):
        return int(inner["$numberLong"])
    if isinstance(inner, int | float):
        return int(inner)
    return int(datetime.fromisoformat(inner).timestamp() * 1000)
