"""Zulip: the unpacked folder of an export (or a zip of it), with realm.json, messages-*.json and `uploads`.

Zulip has no replies: a topic of a stream is its thread. So the first message of a topic is the root, and the later ones
are replies. The topic stays in `data.zulip.topic`. People are known by their e-mail addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidings.ids import is_user_id
from tidings.messaging.transfer.sources.source import (
    ImportedConversation,
    ImportedFile,
    ImportedMessage,
    Person,
    Source,
    Users,
    file_of,
    members_of,
    opened,
    safe_id,
)
from tidings.messaging.transfer.sources.spool import Spool
from tidings.model import ConversationKind, Mention

_PERSONAL, _STREAM, _HUDDLE = 1, 2, 3  # types of a recipient
_MENTION = re.compile(r"@_?\*\*([^*|]+)(?:\|(\d+))?\*\*")
_UPLOAD = re.compile(r"\[([^\]]*)\]\(/user_uploads/([^)\s]+)\)")
_ALL: dict[str, Mention] = {"all": "all", "everyone": "all", "channel": "all", "stream": "all"}
Reactions = dict[int, dict[str, list[str]]]  # message -> sign -> users


class Zulip(Source):
    def __init__(self, path: Path, users: Mapping[str, str]) -> None:
        self._root = opened(path)
        self._user = Users(users)
        realm = self._read("realm.json")
        self._people = {one["id"]: one for one in realm.get("zerver_userprofile", ())}
        self._people |= {one["id"]: one for one in realm.get("zerver_userprofile_crossrealm", ())}
        self._ids = {id_: self._user(_name_there(one)) for id_, one in self._people.items()}
        self._by_name = {one["full_name"]: self._ids[id_] for id_, one in self._people.items()}
        self._recipients = {one["id"]: (one["type"], one["type_id"]) for one in realm.get("zerver_recipient", ())}
        self._streams = {one["id"]: one for one in realm.get("zerver_stream", ())}
        self._members: dict[int, list[str]] = {}  # recipient -> users
        for one in realm.get("zerver_subscription", ()):
            if one.get("active", True) and one["user_profile"] in self._ids:
                self._members.setdefault(one["recipient"], []).append(self._ids[one["user_profile"]])
        self._conversations: dict[str, ImportedConversation] = {}
        self._reactions: Reactions = {}
        self._take_reactions(realm)
        self._messages = Spool()
        self._take_messages()

    def people(self) -> list[Person]:
        return [Person(self._ids[id_], one["full_name"]) for id_, one in self._people.items()]

    def conversations(self) -> list[ImportedConversation]:
        return list(self._conversations.values())

    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        roots: dict[str, str] = {}  # topic -> the message_id of its first message
        for one in self._messages.read(conversation.conversation_id):
            yield self._message(one, roots, has_topics=conversation.kind == "channel")

    def _take_messages(self) -> None:
        names = (file.name for file in self._root.iterdir())
        for name in sorted(name for name in names if re.fullmatch(r"messages-\d+\.json", name)):
            part = self._read(name)
            self._take_reactions(part)
            for one in part.get("zerver_message", ()):
                id_ = self._conversation_of(one)
                if id_ is not None and one["sender"] in self._ids and one.get("content"):
                    self._messages.add(id_, one["id"], one)  # ids are in the order of time

    def _take_reactions(self, part: dict[str, Any]) -> None:
        for one in part.get("zerver_reaction", ()):
            if one["user_profile"] in self._ids:
                of_message = self._reactions.setdefault(one["message"], {})
                of_message.setdefault(_sign(one), []).append(self._ids[one["user_profile"]])

    def _conversation_of(self, one: dict[str, Any]) -> str | None:
        type_, place = self._recipients.get(one["recipient"], (0, 0))
        if type_ == _STREAM and place in self._streams:
            stream = self._streams[place]
            kind: ConversationKind = "channel"
            id_, name = f"zulip-stream-{place}", stream.get("name")
            members, created_ms = self._members.get(one["recipient"], []), _ms(stream.get("date_created", 0))
        elif type_ == _HUDDLE:
            kind, id_, name, created_ms = "group", f"zulip-huddle-{place}", None, 0
            members = self._members.get(one["recipient"], [])
        elif type_ == _PERSONAL and one["sender"] in self._ids and place in self._ids:
            low, high = sorted((one["sender"], place))
            kind, id_, name, created_ms = "group", f"zulip-pair-{low}-{high}", None, 0
            members = [self._ids[low], self._ids[high]]
        else:
            return None
        if id_ not in self._conversations:
            self._conversations[id_] = ImportedConversation(id_, kind, name, members_of(iter(members)), created_ms)
        return id_

    def _message(self, one: dict[str, Any], roots: dict[str, str], *, has_topics: bool) -> ImportedMessage:
        text, message_id = one["content"], safe_id("zulip", str(one["id"]))
        topic = one.get("subject", "") if has_topics else ""
        root = roots.setdefault(topic, message_id) if topic else message_id
        found = [(path, self._file(message_id, name, path)) for name, path in _UPLOAD.findall(text)]
        lost = [path for path, file in found if file is None]
        about = {name: value for name, value in (("topic", topic), ("files", lost)) if value}
        named = [self._by_name[name] for name, _ in _MENTION.findall(text) if name in self._by_name]
        wide = [_ALL[name] for name, _ in _MENTION.findall(text) if name in _ALL]
        return ImportedMessage(
            message_id,
            self._ids[one["sender"]],
            _ms(one["date_sent"]),
            _MENTION.sub(lambda match: f"@{match[1]}", text),
            {"zulip": about} if about else None,
            root=root if root != message_id else None,
            is_root=bool(topic) and root == message_id,
            mentions=tuple(dict.fromkeys(named)),
            mention=wide[0] if wide else None,
            reactions=tuple((key, tuple(users)) for key, users in self._reactions.get(one["id"], {}).items()),
            files=tuple(file for _, file in found if file is not None),
            edited_ms=_ms(one["last_edit_time"]) if one.get("last_edit_time") else None,
        )

    def _file(self, message_id: str, name: str, path: str) -> ImportedFile | None:
        return file_of(self._root, f"uploads/{path}", message_id, name or path.rpartition("/")[2])

    def _read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode((self._root / name).read_bytes())
        return found


def _name_there(user: dict[str, Any]) -> str:
    email = user.get("delivery_email") or user.get("email") or ""
    return email if is_user_id(email) else f"zulip-{user['id']}"


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def _sign(reaction: dict[str, Any]) -> str:
    """The sign of a reaction: Zulip has its code points."""
    if reaction.get("reaction_type", "unicode_emoji") != "unicode_emoji":
        return str(reaction["emoji_name"])
    try:
        return "".join(chr(int(code, 16)) for code in reaction["emoji_code"].split("-"))
    except ValueError:
        return str(reaction["emoji_name"])
