"""Requests that put something beside a message: reactions. `Account` has these methods."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from tidings_client.beside.structs import Reacted, ReactorsPage
from tidings_client.bounds import REACTION_KEY_BYTES_MAX
from tidings_client.errors import BadRequest
from tidings_client.forms import Cursor, Frame, Id, Seq, path_of, query_of
from tidings_client.rest import Rest

ReactionKey = Annotated[str, Meta(min_length=1)]


class Reaction(Frame, frozen=True, tag="reaction"):
    conversation_id: Id
    seq: Seq
    key: ReactionKey
    on: bool


class MoreQuery(msgspec.Struct, frozen=True):
    cursor: Cursor | None = None


class BesideMessages:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def react(self, conversation_id: str, seq: int, key: str) -> Reacted:
        """React to a message. The same reaction twice is once, so it may be repeated."""
        return await self._rest.send("PUT", _reaction(conversation_id, seq, key), Reacted, is_repeatable=True)

    async def unreact(self, conversation_id: str, seq: int, key: str) -> Reacted:
        return await self._rest.send("DELETE", _reaction(conversation_id, seq, key), Reacted, is_repeatable=True)

    async def reactions(self, conversation_id: str, seq: int) -> dict[str, list[str]]:
        """Read who reacted to a message: key -> user ids."""
        found: dict[str, list[str]] = {}
        cursor: str | None = None
        while True:
            path = _message(conversation_id, seq, "reactions")
            page = await self._rest.get(path, ReactorsPage, **query_of(MoreQuery(cursor)))
            for one in page.reactions:
                found.setdefault(one.key, []).extend(one.user_ids)
            if page.next_cursor is None:
                return found
            cursor = page.next_cursor


def checked_key(key: str) -> str:
    """Return the key of a reaction, or refuse the text. The server also refuses characters that nobody can see."""
    if not isinstance(key, str) or not 0 < len(key.encode("utf-8", "replace")) <= REACTION_KEY_BYTES_MAX:
        raise BadRequest(f"the key of a reaction has 1 to {REACTION_KEY_BYTES_MAX} bytes")
    return key


def _message(conversation_id: str, seq: int, *parts: str) -> str:
    return path_of("conversations", conversation_id, "messages", seq, *parts)


def _reaction(conversation_id: str, seq: int, key: str) -> str:
    return f"{_message(conversation_id, seq, 'reactions')}/{quote(checked_key(key), safe='')}"
