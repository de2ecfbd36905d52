"""Summaries: who reacted to a message, and whether it is pinned. One record for each message that has some. The thread
of a root is shown beside it too.

A summary changes only in the commit of an entry of kind reaction or pin, so it is exact whatever is retried, and a
recount of the log gives the same. `reactions_seq` is the last reaction that it holds: a reader of the log applies later
ones only.

A page costs nothing where its conversation has no summaries. The keyspace says so with the answer that admits the
member: the number of a reaction, a pin or a reply sets `summaries` of the conversation to 1 before anything is
committed. A reader that finds nothing there reads the tables, and sets 0 unless somebody was first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from tidings.bounds import INDEX_TTL_S, PAGE_MAX
from tidings.errors import NotFound, StoreError
from tidings.messaging.access import Access, Action, MemberList
from tidings.messaging.log import entry_at
from tidings.model import KINDS, Beside, Entry, ReactionCount, ThreadBeside
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, Record, RecordKey, Records, of_conversation, seq_name

COLLECTION = "summaries"
_HAS, _HAS_NOT = b"1", b"0"


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one message. It stays when its last reaction goes, because reactions_seq still tells."""

    reactions: dict[str, list[str]] = {}  # key -> users in the order in which they reacted
    reactions_seq: int = 0
    is_pinned: bool = False

    def seen_by(self, user_id: str) -> Beside:
        counts = {key: ReactionCount(len(users), user_id in users) for key, users in self.reactions.items()}
        return Beside(counts, self.reactions_seq, self.is_pinned)


_decode = msgspec.json.Decoder(Summary).decode
_encode = msgspec.json.Encoder().encode
NOTHING = Summary()


def key_of(conversation_id: str, seq_no: int) -> RecordKey:
    return RecordKey(of_conversation(conversation_id), COLLECTION, seq_name(seq_no))


def put_of(key: RecordKey, summary: Summary, version: int) -> Put:
    return Put(*key, _encode(summary), expected=version)


def summary_of(record: Record | None) -> tuple[Summary, int]:
    """The summary and the version of its record."""
    return (_decode(record.value), record.version) if record is not None else (NOTHING, 0)


@dataclass(eq=False, repr=False)
class Summaries:
    access: Access
    messages: Messages
    records: Records
    keyspace: Keyspace
    keys: Keys
    # (user_id, conversation_id, seqs) -> the threads of those messages that have one
    threads: Callable[[str, str, Sequence[int]], Awaitable[dict[int, ThreadBeside]]]

    async def target(self, user_id: str, conversation_id: str, seq_no: int, action: Action) -> MemberList:
        """Authorize the user for a message that has not been deleted, and that the user may see. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, action)
        if seq_no <= member_list.visible_after(user_id):
            raise NotFound("no such message")
        await self.check_target(conversation_id, seq_no)
        return member_list

    async def check_target(self, conversation_id: str, seq_no: int) -> None:
        found = await entry_at(self.messages, conversation_id, seq_no)
        if found is None or found.is_deleted or not KINDS[found.kind].is_target:
            raise NotFound("no such message")

    async def read(self, conversation_id: str, seq_no: int) -> tuple[Summary, int]:
        """The summary of one message and the version of its record."""
        key = key_of(conversation_id, seq_no)
        return summary_of((await self.records.get(key.owner, key.collection, [key.name])).get(key.name))

    async def beside(
        self, user_id: str, conversation_id: str, entries: Sequence[Entry], has_summaries: bool | None
    ) -> dict[int, Beside]:
        """seq_no -> what the user sees beside it, of the messages in a run of the log that have something."""
        seqs = [entry.seq_no for entry in entries if KINDS[entry.kind].is_target and not entry.is_deleted]
        if not seqs or has_summaries is False:
            return {}
        if has_summaries is None and not await self._look(conversation_id):
            return {}
        found = await self.records.page(
            of_conversation(conversation_id),
            COLLECTION,
            after=seq_name(min(seqs) - 1),
            before=seq_name(max(seqs) + 1),
            limit=PAGE_MAX,
        )
        shown = {int(record.name): _decode(record.value).seen_by(user_id) for record in found}
        for seq_no, thread in (await self.threads(user_id, conversation_id, seqs)).items():
            shown[seq_no] = msgspec.structs.replace(shown.get(seq_no, Beside({})), thread=thread)
        return {seq_no: shown[seq_no] for seq_no in seqs if seq_no in shown}

    async def _look(self, conversation_id: str) -> bool:
        """Whether the conversation has summaries, from the tables. A conversation without any is remembered."""
        owner, pages = of_conversation(conversation_id), (COLLECTION, "threads")
        if any(await asyncio.gather(*(self.records.page(owner, one, limit=1) for one in pages))):
            await self._remember(conversation_id, b"HSET", _HAS)
            return True
        await self._remember(conversation_id, b"HSETNX", _HAS_NOT)
        return False

    async def committed(self, conversation_id: str) -> None:
        """Say again that there are summaries: a failover since the number was given may have lost it."""
        await self._remember(conversation_id, b"HSET", _HAS)

    async def _remember(self, conversation_id: str, command: bytes, value: bytes) -> None:
        key = self.keys.conv(conversation_id)
        try:
            await self.keyspace.run(
                (plain(key, command, key, b"summaries", value), plain(key, b"EXPIRE", key, INDEX_TTL_S))
            )
        except StoreError:
            pass  # the next reader asks the tables
