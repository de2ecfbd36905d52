"""Texts of messages that are being written.

A streamed message is a row of the log from its begin on, and the row holds the text that it began with. Until the end
the text so far is a record of the conversation, written every STREAM_SAVE_S or STREAM_SAVE_BYTES. The node to which its
author is connected knows the newest text. `StreamedLog` puts the best known text into every page.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.model import Entry, StreamState
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import RecordKey, Records, of_conversation

STREAMS = "streams"  # a collection of records


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a streamed message."""

    sender_id: str
    message_id: str
    seq_no: int
    text: str
    state: StreamState = "streaming"  # interrupted: nobody may write the numbered end, such as of a removed member


_decode = msgspec.json.Decoder(Written).decode
_encode = msgspec.json.Encoder().encode


def to_value(written: Written) -> bytes:
    return _encode(written)


def from_value(value: bytes) -> Written:
    return _decode(value)


def key_of(conversation_id: str, sender_id: str, message_id: str) -> RecordKey:
    return RecordKey(of_conversation(conversation_id), STREAMS, f"{sender_id}:{message_id}")


class LiveTexts:
    """The newest texts of the streams whose authors are connected here, by conversation and seq."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, int], str] = {}


class StreamedLog:
    """The Messages port over another one. A page has the texts so far of messages that are being written."""

    def __init__(self, messages: Messages, records: Records, live: LiveTexts) -> None:
        self._messages = messages
        self._records = records
        self._live = live
        self.append = messages.append
        self.catch_up = messages.catch_up
        self.top = messages.top
        self.unread = messages.unread
        self.seq_at = messages.seq_at

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        entries = await self._messages.page(
            conversation_id, after=after, before=before, limit=limit, newest_first=newest_first
        )
        streaming = [entry for entry in entries if (one := entry.content) is not None and one.state == "streaming"]
        if not streaming:
            return entries
        found = await self._written(conversation_id, streaming)
        filled = {entry.seq_no: self._filled(entry, found) for entry in streaming}
        return [filled.get(entry.seq_no, entry) for entry in entries]

    async def _written(self, conversation_id: str, entries: Iterable[Entry]) -> dict[int, Written]:
        names = [key_of(conversation_id, entry.sender_id or "", entry.message_id or "").name for entry in entries]
        records = await self._records.get(of_conversation(conversation_id), STREAMS, names)
        texts = [from_value(record.value) for record in records.values()]
        return {written.seq_no: written for written in texts}

    def _filled(self, entry: Entry, found: dict[int, Written]) -> Entry:
        text = self._live.texts.get((entry.conversation_id, entry.seq_no))
        written = found.get(entry.seq_no)
        if text is None and written is None:
            return entry  # it ended between the two reads: the end entry brings the text
        state: StreamState = written.state if written is not None else "streaming"
        text = text if text is not None else written.text if written is not None else ""
        assert entry.content is not None
        return msgspec.structs.replace(entry, content=msgspec.structs.replace(entry.content, text=text, state=state))
