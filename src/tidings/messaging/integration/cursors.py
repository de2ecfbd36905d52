"""Cursors: how far a webhook has the log of one conversation.

A cursor is a record of its conversation, guarded by its version, so one node delivers at a time. Before a request the
cursor remembers the last entry of it. After a failure, or the death of the node, exactly these entries are sent again,
under the same Idempotency-Key. On success the cursor moves. A request that the endpoint refuses is halved, until one
entry is left: that entry alone can pause the conversation.
"""

from __future__ import annotations

import msgspec

from tidings.clock import Clock
from tidings.messaging.integration.hooks import Hook
from tidings.model import Head
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, Record, Records, of_conversation

CURSORS = "webhook_cursors"  # a collection of records
NEVER_MS = 253_402_300_799_000  # the year 9999: the time of a paused cursor, so that paused ones can be listed


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    acked_seq: int  # the endpoint has everything up to here
    sending_to: int = 0  # the end of a request that may have arrived; 0: there is none
    replays: int = 0  # how often it was set back: part of the Idempotency-Key, so that an endpoint takes a replay
    holder: str = ""  # the node that delivers
    held_until_ms: int = 0
    most: int = 0  # entries in the next request, after a larger one was refused; 0: as many as fit
    refusals: int = 0  # answers in a row that say that the entries themselves are wrong
    not_before_ms: int = 0  # the next try after a refusal
    paused: str = ""  # the answer that paused this conversation for this webhook


class Held(msgspec.Struct, frozen=True):
    """A cursor as it was read or put. Version 0: there is no record of it yet."""

    cursor: Cursor
    version: int


_decode = msgspec.json.Decoder(Cursor).decode
_encode = msgspec.json.Encoder().encode


class Cursors:
    def __init__(self, records: Records, messages: Messages, clock: Clock) -> None:
        self._records = records
        self._messages = messages
        self._clock = clock

    async def read(self, hook: Hook, head: Head) -> Held:
        """The cursor, or the place where the webhook begins. Entries below the floor are gone, and not waited for."""
        found = await self._records.get(of_conversation(head.conversation_id), CURSORS, [hook.webhook_id])
        if hook.webhook_id in found:
            held = held_in(found[hook.webhook_id])
            if held.cursor.acked_seq >= head.floor_seq:
                return held
            return Held(msgspec.structs.replace(held.cursor, acked_seq=head.floor_seq, sending_to=0), held.version)
        begin = 0 if hook.from_ms is None else await self._messages.seq_at(head.conversation_id, hook.from_ms)
        return Held(Cursor(acked_seq=max(begin, head.floor_seq)), 0)

    async def put(self, hook: Hook, conversation_id: str, held: Held, cursor: Cursor) -> Held:
        """Raises Conflict where another node was first."""
        owner, due_ms = of_conversation(conversation_id), NEVER_MS if cursor.paused else None
        put = Put(owner, CURSORS, hook.webhook_id, _encode(cursor), expected=held.version, due_ms=due_ms)
        await self._records.put([put])
        return Held(cursor, held.version + 1)

    async def set_back(self, hook: Hook, head: Head, from_seq: int) -> None:
        """Deliver everything from this entry on once more, and end a pause. Raises Conflict."""
        held = await self.read(hook, head)
        acked_seq = max(head.floor_seq, min(from_seq - 1, head.head))
        cursor = Cursor(acked_seq=acked_seq, replays=held.cursor.replays + 1)
        await self.put(hook, head.conversation_id, held, cursor)

    async def of_conversation(self, conversation_id: str, webhook_ids: list[str]) -> dict[str, Held]:
        found = await self._records.get(of_conversation(conversation_id), CURSORS, webhook_ids)
        return {name: held_in(record) for name, record in found.items()}

    async def paused(self, limit: int) -> list[tuple[str, str, Cursor]]:
        """(webhook_id, conversation_id, cursor) of those that wait for a person."""
        found = await self._records.due(CURSORS, until_ms=NEVER_MS, limit=limit)
        return [(record.name, record.owner.partition(":")[2], _decode(record.value)) for record in found]


def held_in(record: Record) -> Held:
    return Held(_decode(record.value), record.version)
