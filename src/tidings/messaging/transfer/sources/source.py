"""Sources: what an import reads, whatever product made it.

A source is read twice: first its people and conversations, then the messages of each conversation, in the order in
which they were written. Nothing here writes.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tidings.bounds import FILE_TYPE_CHARS_MAX
from tidings.errors import BadRequest
from tidings.ids import is_id, is_message_id, is_user_id
from tidings.model import ConversationKind, Entry, HistoryRule, Mention, Role
from tidings.stores.tables.records import Put

_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")  # as an upload may name it
Root = Path | zipfile.Path  # a folder, or a zip that is read as one


class ImportedFile(msgspec.Struct, frozen=True):
    """A file of a message, with the way to its bytes."""

    file_id: str
    name: str
    mime: str
    bytes: int
    open: Callable[[], BinaryIO]
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None


class ImportedMessage(msgspec.Struct, frozen=True, gc=False):
    message_id: str
    sender_id: str
    sent_ms: int
    text: str | None
    data: dict[str, Any] | None = None
    root: str | None = None  # the message_id of the first message of its thread
    is_root: bool = False  # others may name it as their root
    mentions: tuple[str, ...] = ()
    mention: Mention | None = None
    reactions: tuple[tuple[str, tuple[str, ...]], ...] = ()  # key, users
    files: tuple[ImportedFile, ...] = ()
    edited_ms: int | None = None
    entry: Entry | None = None  # it comes from an export of Tidings, and is put back as it was


class ImportedMember(msgspec.Struct, frozen=True):
    user_id: str
    role: Role = "member"
    joined_seq: int = 0
    joined_ms: int | None = None  # None: when the conversation was made


class ImportedConversation(msgspec.Struct, frozen=True):
    """The first member owns a conversation in which nobody has a role."""

    conversation_id: str
    kind: ConversationKind
    name: str | None
    members: tuple[ImportedMember, ...]
    created_ms: int = 0
    avatar_url: str | None = None
    history: HistoryRule = "all"
    floor_seq: int = 0
    members_seq: int = 0


class Person(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None = None
    avatar_url: str | None = None


class Source(ABC):
    @abstractmethod
    def people(self) -> list[Person]: ...

    @abstractmethod
    def conversations(self) -> list[ImportedConversation]: ...

    @abstractmethod
    def messages(self, conversation: ImportedConversation) -> Iterator[ImportedMessage]:
        """In the order of the source, the same each time."""

    def records(self, conversation: ImportedConversation) -> Iterator[Put]:
        """The records of a conversation: only an export of Tidings has them."""
        return iter(())


class Users:
    """The ids of people here, by their ids in the source. `--map` names those that differ."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._named = named
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """Raises BadRequest where the name is no user id: `--map` gives it another one."""
        user_id = self._known.get(name)
        if user_id is None:
            user_id = self._known[name] = self._checked(self._named.get(name, name))
        return user_id

    def _checked(self, user_id: str) -> str:
        if not is_user_id(user_id):
            raise BadRequest(f"`{user_id[:40]}` is not a user id; name another one with --map")
        return user_id


def members_of(user_ids: Iterator[str] | tuple[str, ...]) -> tuple[ImportedMember, ...]:
    """Each once. The first one owns the conversation."""
    names = dict.fromkeys(user_ids)
    return tuple(ImportedMember(one, "member" if at else "owner") for at, one in enumerate(names))


_AT = re.compile(r"@([A-Za-z0-9_.-]*[A-Za-z0-9_-])")
_WIDE: dict[str, Mention] = {"all": "all", "channel": "all", "here": "here"}


def named_in(text: str, users: Mapping[str, str]) -> tuple[tuple[str, ...], Mention | None]:
    """The people whom a text names as `@name`, and whether it names everybody."""
    names = _AT.findall(text) if "@" in text else []
    wide = next((_WIDE[name] for name in names if name in _WIDE), None)
    return tuple(dict.fromkeys(users[name] for name in names if name in users)), wide


def conversation_id_of(text: str) -> str:
    if not is_id(text):
        raise BadRequest(f"`{text[:40]}` is not the id of a conversation")
    return text


def message_id_of(text: str) -> str:
    if not is_message_id(text):
        raise BadRequest(f"`{text[:40]}` is not a message_id")
    return text


def safe_id(prefix: str, text: str) -> str:
    """An id for a name of the source, which may hold any character: as it is, or a digest of it."""
    plain = f"{prefix}-{text}"
    return plain if is_message_id(plain) else f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


_EMOJI = {
    "+1": "👍",
    "thumbsup": "👍",
    "-1": "👎",
    "thumbsdown": "👎",
    "heart": "❤️",
    "joy": "😂",
    "smile": "😄",
    "laughing": "😆",
    "cry": "😢",
    "thinking_face": "🤔",
    "tada": "🎉",
    "eyes": "👀",
    "pray": "🙏",
    "fire": "🔥",
    "rocket": "🚀",
    "100": "💯",
    "clap": "👏",
    "wave": "👋",
    "raised_hands": "🙌",
    "white_check_mark": "✅",
    "heavy_check_mark": "✔️",
    "x": "❌",
}


def emoji_of(name: str) -> str:
    """The sign of a reaction that products name by a word. An unknown word stays as it is."""
    word = name.strip(":").split("::")[0]
    return _EMOJI.get(word, word)


def opened(path: Path) -> Root:
    """An export as a folder. Raises BadRequest."""
    if path.is_dir():
        return path
    try:
        return zipfile.Path(path)
    except zipfile.BadZipFile:
        raise BadRequest(f"{path} is neither a folder nor a zip") from None


def file_of(root: Root, path: str, message_id: str, name: str, mime: str | None = None) -> ImportedFile | None:
    """A file that the export holds; None: it is not there, or its path leads out of the export."""
    parts = [part for part in path.split("/") if part]
    if not parts or ".." in parts:
        return None
    found = root.joinpath(*parts)
    if not found.is_file():
        return None
    digest = hashlib.sha256(f"{message_id}/{path}".encode()).hexdigest()[:28]
    kind = type_of(mime, name)
    return ImportedFile(f"f{digest}", name[:255] or "file", kind, size_of(found), lambda: binary(found))


def type_of(mime: object, name: str) -> str:
    """The type that the export names, if it may stand in a header; otherwise that of the name."""
    if isinstance(mime, str) and len(mime) <= FILE_TYPE_CHARS_MAX and _TYPE.fullmatch(mime):
        return mime
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def binary(found: Root) -> BinaryIO:
    opened_file: Any = found.open("rb")
    file: BinaryIO = opened_file
    return file


def size_of(found: Root) -> int:
    if isinstance(found, zipfile.Path):
        return found.root.getinfo(found.at).file_size
    return found.stat().st_size
