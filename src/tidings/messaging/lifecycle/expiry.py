"""Expiry: a message with `ttl_s` becomes a numbered delete by the server when its time is over.

The commit of the message also stores a record with the time at which it ends, so no crash loses the end. The delete
removes the record in its own commit. A message is deleted once, because a deleted message cannot be deleted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidings.errors import NotFound
from tidings.messaging.lifecycle.timed import Removal
from tidings.messaging.log import entry_at
from tidings.messaging.send.edit import Rewrites
from tidings.model import Content, Entry
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, Record, RecordKey, Records, conversation_of, of_conversation

EXPIRING = "expiring"


class Ending(msgspec.Struct, frozen=True, gc=False):
    """The value of a record: the number of the message that ends."""

    seq: int


class Expiring:
    """The companion of a message with `ttl_s`: the record of its end."""

    last_seq = 0

    def __init__(self, conversation_id: str, sender_id: str, message_id: str) -> None:
        self._key = RecordKey(of_conversation(conversation_id), EXPIRING, f"{sender_id}/{message_id}")
        self.keys = frozenset((self._key,))

    async def read(self) -> None:
        """The record belongs to this message alone."""

    def puts(self, entry: Entry) -> list[Put]:
        return [Put(*self._key, msgspec.json.encode(Ending(entry.seq_no)), due_ms=entry.expires_ms)]


def expiring(content: Content, conversation_id: str, sender_id: str, message_id: str) -> Expiring | None:
    """The companion of a message with this content. None: it has no end."""
    return None if content.ttl_s is None else Expiring(conversation_id, sender_id, message_id)


@dataclass(eq=False, repr=False)
class Expiry:
    messages: Messages
    records: Records
    rewrites: Rewrites
    count: Callable[[float], object]

    async def end(self, record: Record) -> None:
        """Delete the message of a record whose time has come. Raises Problem, StoreError: to be tried again."""
        ending = msgspec.json.decode(record.value, type=Ending)
        target = await entry_at(self.messages, conversation_of(record.owner), ending.seq)
        if target is not None and not target.is_deleted:
            try:
                await self.rewrites.remove(target, Removal(record))
                self.count(1)
                return
            except NotFound:  # deleted meanwhile, or the conversation is gone
                pass
        await self.records.put([Put(*record.key, None)])
