"""Pinned messages of conversations: `account.pins`."""

from __future__ import annotations

import msgspec

from tidings_client.beside.structs import Reacted
from tidings_client.forms import path_of
from tidings_client.rest import Rest
from tidings_client.values import Message


class PinnedMessage(msgspec.Struct, frozen=True):
    pinned_by: str
    pinned_at: int
    message: Message


class PinnedMessages(msgspec.Struct, frozen=True):
    pins: list[PinnedMessage]


class Pins:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def put(self, conversation_id: str, seq: int) -> Reacted:
        """Pin a message for everybody in the conversation, which has at most 100 of them."""
        return await self._rest.send("PUT", _pin(conversation_id, seq), Reacted, is_repeatable=True)

    async def remove(self, conversation_id: str, seq: int) -> Reacted:
        return await self._rest.send("DELETE", _pin(conversation_id, seq), Reacted, is_repeatable=True)

    async def all(self, conversation_id: str) -> list[PinnedMessage]:
        """Read the pinned messages of a conversation, the latest pinned first."""
        return (await self._rest.get(path_of("conversations", conversation_id, "pins"), PinnedMessages)).pins


def _pin(conversation_id: str, seq: int) -> str:
    return path_of("conversations", conversation_id, "messages", seq, "pin")
