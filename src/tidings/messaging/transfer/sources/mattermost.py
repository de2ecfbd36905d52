"""Mattermost: a bulk export, the JSON lines alone or the zip with them and the folder `data`.

Replies stand inside their post, and become a thread. People are known by their user names. A post of a bulk export has
no id, so the message_id is a digest of its author, its time and its text.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources.source import (
    ImportedConversation,
    ImportedFile,
    ImportedMessage,
    Person,
    Root,
    Source,
    Users,
    binary,
    emoji_of,
    file_of,
    members_of,
    named_in,
    opened,
    safe_id,
)
from tidings.messaging.transfer.sources.spool import Spool
from tidings.model import ConversationKind

_KINDS: dict[str, ConversationKind] = {"O": "channel", "P": "group"}
_DIRECT = "direct"


class Mattermost(Source):
    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        is_whole = path.is_dir() or zipfile.is_zipfile(path)
        self._root: Root | None = opened(path) if is_whole else None
        self._user = Users(users)
        self._people: dict[str, str | None] = {}
        self._members: dict[str, list[str]] = {}  # channel -> user names
        self._channels: dict[str, tuple[ConversationKind, str | None]] = {}
        self._posts = Spool()
        for line in _lines(self._root, path):
            self._take(msgspec.json.decode(line))
        self._ids = {name: self._user(name) for name in self._people}
        self._keys = {_conversation_id(key): key for key in self._channels}

    def people(self) -> list[Person]:
        return [Person(self._user(name), shown) for name, shown in self._people.items()]

    def conversations(self) -> list[ImportedConversation]:
        return [
            ImportedConversation(
                _conversation_id(key),
                kind,
                name,
                members_of(map(self._user, self._members.get(key, ()))),
            )
            for key, (kind, name) in self._channels.items()
        ]

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        for post in self._posts.read(self._keys[conversation.conversation_id]):
            yield self._message(post)

    def _take(self, line: dict[str, Any]) -> None:
        type_ = line.get("type", "")
        value: dict[str, Any] = line.get(type_) or {}
        if type_ == "user":
            self._take_user(value)
        elif type_ == "channel":
            key = f"{value['team']}/{value['name']}"
            self._channels[key] = _KINDS.get(value.get("type", "O"), "channel"), value.get("display_name")
        elif type_ == "post" and (key := f"{value['team']}/{value['channel']}") in self._channels:
            self._take_post(key, value)
        elif type_ == "direct_channel":
            self._direct(value["members"])
        elif type_ == "direct_post":
            self._take_post(self._direct(value["channel_members"]), value)

    def _take_user(self, user: dict[str, Any]) -> None:
        full = f"{user.get('first_name', '')} {user.get('last_name', '')}".strip()
        self._people[user["username"]] = full or user.get("nickname") or user["username"]
        for team in user.get("teams") or ():
            for channel in team.get("channels") or ():
                self._members.setdefault(f"{team['name']}/{channel['name']}", []).append(user["username"])

    def _direct(self, members: list[str]) -> str:
        key = f"{_DIRECT}/{'.'.join(sorted(members))}"
        self._channels.setdefault(key, ("group", None))
        self._members[key] = sorted(members)
        return key

    def _take_post(self, key: str, post: dict[str, Any]) -> None:
        if post.get("type"):
            return  # the server said it: somebody joined, left, and so on
        replies = post.pop("replies", None) or []
        root = _message_id(key, post)
        self._posts.add(key, post["create_at"], {**post, "_id": root, "_is_root": bool(replies)})
        for reply in replies:
            self._posts.add(key, reply["create_at"], {**reply, "_id": _message_id(key, reply), "_root": root})

    def _message(self, post: dict[str, Any]) -> ImportedMessage:
        text, message_id = post.get("message") or "", post["_id"]
        paths = [one["path"] for one in post.get("attachments") or ()]
        files = [(path, self._file(message_id, path)) for path in paths]
        lost = [path for path, found in files if found is None]
        mentions, mention = named_in(text, self._ids)
        return ImportedMessage(
            message_id,
            self._user(post["user"]),
            post["create_at"],
            text or None,
            {"mattermost": {"files": lost}} if lost else None,
            root=post.get("_root"),
            is_root=post.get("_is_root", False),
            mentions=mentions,
            mention=mention,
            reactions=self._reactions(post.get("reactions") or ()),
            files=tuple(found for _, found in files if found is not None),
            edited_ms=post.get("edit_at") or None,
        )

    def _reactions(self, given: list[dict[str, Any]] | tuple[()]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        by_key: dict[str, dict[str, None]] = {}
        for one in given:
            by_key.setdefault(emoji_of(one["emoji_name"]), {})[self._user(one["user"])] = None
        return tuple((key, tuple(users)) for key, users in by_key.items())

    def _file(self, message_id: str, path: str) -> ImportedFile | None:
        name = path.rpartition("/")[2]
        return file_of(self._root, f"data/{path}", message_id, name) if self._root is not None else None


def _lines(root: Root | None, path: Path) -> Iterator[bytes]:
    if root is None:
        found: Root = path
    else:
        files = sorted((one for one in root.iterdir() if one.name.endswith(".jsonl")), key=lambda one: one.name)
        if not files:
            raise BadRequest(f"there is no .jsonl file in {path}")
        found = files[0]
    with binary(found) as lines:
        yield from (line for line in lines if line.strip())


def _conversation_id(key: str) -> str:
    return safe_id("mm", key.replace("/", "-"))


def _message_id(key: str, post: dict[str, Any]) -> str:
    said = f"{key}/{post['user']}/{post['create_at']}/{post.get('message')}"
    return "mm-" + hashlib.sha256(said.encode()).hexdigest()[:32]
