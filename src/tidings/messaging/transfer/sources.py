"""Sources: exports of other products as conversations with messages, in the order in which they were written.

A source is read twice: first its people and conversations, then the messages of each conversation. Nothing here writes.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.errors import BadRequest
from tidings.ids import is_id, is_message_id
from tidings.model import ConversationKind


class ImportedMessage(msgspec.Struct, frozen=True, gc=False):
    message_id: str
    sender_id: str
    sent_ms: int
    text: str
    data: dict[str, Any] | None = None


class ImportedConversation(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    members: tuple[str, ...]
    created_ms: int = 0


class Source(Protocol):
    def people(self) -> Mapping[str, str | None]:
        """user_id -> name."""
        ...

    def conversations(self) -> list[ImportedConversation]: ...

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        """In the order of the source."""
        ...


class JsonLines:
    """One JSON object a line, with `type`: `user`, `conversation` or `message`."""

    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._path = path
        self._users = users
        self._of: dict[str, list[ImportedMessage]] = {}
        self._people: dict[str, str | None] = {}
        self._conversations: list[ImportedConversation] = []
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    self._take(number, json.loads(line))

    def people(self) -> Mapping[str, str | None]:
        return self._people

    def conversations(self) -> list[ImportedConversation]:
        return self._conversations

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        return iter(self._of.get(conversation.conversation_id, ()))

    def _take(self, number: int, line: dict[str, Any]) -> None:
        try:
            if line["type"] == "user":
                self._people[self._user(line["user_id"])] = line.get("name")
            elif line["type"] == "conversation":
                members = tuple(self._user(one) for one in line["members"])
                self._conversations.append(
                    ImportedConversation(
                        checked(line["conversation_id"]), line.get("kind", "group"), line.get("name"), members
                    )
                )
            else:
                message = ImportedMessage(
                    line["message_id"], self._user(line["sender_id"]), line["sent_at"], line["text"], line.get("data")
                )
                if not is_message_id(message.message_id):
                    raise BadRequest(f"`{message.message_id[:40]}` is not a message_id")
                self._of.setdefault(line["conversation_id"], []).append(message)
        except KeyError as error:
            raise BadRequest(f"line {number} lacks {error}") from None

    def _user(self, name: str) -> str:
        return checked(self._users.get(name, name))


class Slack:
    """A Slack export: a zip or its folder, with users.json, channels.json and a folder for each channel."""

    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._root: Path | zipfile.Path = zipfile.Path(path) if path.is_file() else path
        self._users = users
        self._folders: dict[str, str] = {}

    def people(self) -> Mapping[str, str | None]:
        return {self._user(one["id"]): _name_of(one) for one in self._read("users.json")}

    def conversations(self) -> list[ImportedConversation]:
        kinds: dict[str, ConversationKind] = {
            "channels.json": "channel",
            "groups.json": "group",
            "mpims.json": "group",
            "dms.json": "group",
        }
        found = []
        for file, kind in kinds.items():
            for one in self._read(file):
                id_ = checked(f"slack-{one['id']}")
                self._folders[id_] = one.get("name") or one["id"]
                members = tuple(self._user(member) for member in one.get("members", ()))
                created_ms = int(one.get("created", 0)) * 1000
                found.append(ImportedConversation(id_, kind, one.get("name"), members, created_ms))
        return found

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        folder = self._root / self._folders[conversation.conversation_id]
        if not folder.exists():
            return
        for name in sorted(file.name for file in folder.iterdir()):
            for one in sorted(json.loads((folder / name).read_text("utf-8")), key=lambda one: float(one["ts"])):
                message = self._message(one)
                if message is not None:
                    yield message

    def _message(self, one: dict[str, Any]) -> ImportedMessage | None:
        if one.get("type") != "message" or not one.get("user") or not one.get("text"):
            return None
        more = {name: one[name] for name in ("thread_ts", "reactions") if name in one}
        message_id = "slack-" + str(one["ts"]).replace(".", "-")
        sent_ms = int(float(one["ts"]) * 1000)
        data = {"slack": more} if more else None
        return ImportedMessage(message_id, self._user(one["user"]), sent_ms, one["text"], data)

    def _read(self, name: str) -> list[dict[str, Any]]:
        file = self._root / name
        found: list[dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else []
        return found

    def _user(self, name: str) -> str:
        return checked(self._users.get(name, name))


def checked(name: str) -> str:
    """Raises BadRequest where the name is no id: `--map` gives it another one."""
    if not is_id(name):
        raise BadRequest(f"`{name[:40]}` is not an id; name another one with --map")
    return name


def _name_of(user: dict[str, Any]) -> str | None:
    return user.get("real_name") or user.get("name")


SOURCES: dict[str, Callable[[Path, Mapping[str, str]], Source]] = {"jsonl": JsonLines, "slack": Slack}
