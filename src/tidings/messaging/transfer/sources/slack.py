"""Slack: the export of a workspace, a zip or its folder, with users.json, channels.json and a folder for each channel.

A reply names the time of the first message of its thread. Mentions stand in the text as `<@U1>`, and become `@name`.
The bytes of files are not in an export of Slack itself; tools that add them put them into `__uploads/<id>/<name>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    conversation_id_of,
    emoji_of,
    file_of,
    members_of,
    opened,
)
from tidings.model import ConversationKind, Mention

_KINDS: dict[str, ConversationKind] = {
    "channels.json": "channel",
    "groups.json": "group",
    "mpims.json": "group",
    "dms.json": "group",
}
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_ALL: dict[str, Mention] = {"<!channel>": "all", "<!everyone>": "all", "<!here>": "here"}


class Slack(Source):
    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._root = opened(path)
        self._user = Users(users)
        self._folders: dict[str, str] = {}
        self._names = {one["id"]: _name_of(one) for one in self._read("users.json")}

    def people(self) -> list[Person]:
        return [Person(self._user(id_), name) for id_, name in self._names.items()]

    def conversations(self) -> list[ImportedConversation]:
        found = []
        for file, kind in _KINDS.items():
            for one in self._read(file):
                id_ = conversation_id_of(f"slack-{one['id']}")
                self._folders[id_] = one.get("name") or one["id"]
                members = members_of(map(self._user, one.get("members", ())))
                created_ms = int(one.get("created", 0)) * 1000
                found.append(ImportedConversation(id_, kind, one.get("name"), members, created_ms))
        return found

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        folder = self._root / self._folders[conversation.conversation_id]
        if not folder.is_dir():
            return
        for name in sorted(file.name for file in folder.iterdir()):
            day: list[dict[str, Any]] = msgspec.json.decode((folder / name).read_bytes())
            for one in sorted(day, key=lambda one: float(one.get("ts", 0))):
                if one.get("type") == "message" and one.get("user") and (one.get("text") or one.get("files")):
                    yield self._message(one)

    def _message(self, one: dict[str, Any]) -> ImportedMessage:
        text, ts, root = one.get("text") or "", one["ts"], one.get("thread_ts")
        message_id = _message_id(ts)
        named = dict.fromkeys(_MENTION.findall(text)) if "<@" in text else ()
        files, lost = self._files(message_id, one["files"]) if "files" in one else ((), None)
        return ImportedMessage(
            message_id,
            self._user(one["user"]),
            int(float(ts) * 1000),
            (_MENTION.sub(self._name, text) if named else text) or None,
            lost,
            root=_message_id(root) if root is not None and root != ts else None,
            is_root=root == ts,
            mentions=tuple(map(self._user, named)),
            mention=next((kind for word, kind in _ALL.items() if word in text), None) if "<!" in text else None,
            reactions=self._reactions(one["reactions"]) if "reactions" in one else (),
            files=files,
            edited_ms=int(float(one["edited"]["ts"]) * 1000) if "edited" in one else None,
        )

    def _name(self, found: re.Match[str]) -> str:
        return f"@{self._names.get(found[1]) or found[1]}"

    def _reactions(self, signs: list[dict[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((emoji_of(sign["name"]), tuple(map(self._user, sign.get("users", ())))) for sign in signs)

    def _files(
        self, message_id: str, files: list[dict[str, Any]]
    ) -> tuple[tuple[ImportedFile, ...], dict[str, Any] | None]:
        """The files that the export holds, and a note of the others."""
        found = [(file, self._file(message_id, file)) for file in files]
        lost = [_file_name(file) for file, one in found if one is None]
        return tuple(one for _, one in found if one is not None), {"slack": {"files": lost}} if lost else None

    def _file(self, message_id: str, one: dict[str, Any]) -> ImportedFile | None:
        name = _file_name(one)
        return file_of(self._root, f"__uploads/{one['id']}/{name}", message_id, name, one.get("mimetype"))

    def _read(self, name: str) -> list[dict[str, Any]]:
        file = self._root / name
        found: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes()) if file.is_file() else []
        return found


def _file_name(file: dict[str, Any]) -> str:
    name: str = file.get("name") or file.get("title") or file["id"]
    return name


def _message_id(ts: str) -> str:
    return "slack-" + str(ts).replace(".", "-")


def _name_of(user: dict[str, Any]) -> str | None:
    return user.get("real_name") or user.get("name")
