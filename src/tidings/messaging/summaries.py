"""Summaries: who reacted to a message, and whether it is pinned. One record for each message that has some. The thread
of a root is shown beside it too.

A summary changes only in the commit of an entry of kind reaction or pin, so it is exact whatever is retried, and a
recount of the log gives the same. `reactions_seq` is the last reaction that it holds: a reader of the log applies later
ones only.

A page of history costs nothing where its conversation has no summaries. The keyspace says so with the answer that
admits the member: the number of a reaction, a pin or a reply sets `summaries` of the conversation to 1 before anything
is committed. A reader that finds nothing there reads the tables, and sets 0 unless somebody was first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, starmap

import msgspec

from tidings.bounds import INDEX_TTL_S, PAGE_MAX
from tidings.errors import NotFound, StoreError
from tidings.messaging.access import Access, Action, MemberList
from tidings.messaging.log import entry_at
from tidings.model import KINDS, Beside, Entry, ReactionCount, ThreadBeside
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, Record, RecordKey, Records, conversation_of, of_conversation, seq_name

COLLECTION = "summaries"
_THREADS = "threads"
_COLLECTIONS = (COLLECTION, _THREADS)  # the records of what is shown beside a message
_HAS, _HAS_NOT = b"1", b"0"


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one message. It stays when its last reaction goes, because reactions_seq still tells."""

    reactions: dict[str, list[str]] = {}  # key -> users in the order in which they reacted
    reactions_seq: int = 0
    is_pinned: bool = False

    def seen_by(self, user_id: str) -> Beside:
        counts = {key: ReactionCount(len(users), user_id in users) for key, users in self.reactions.items()}
        return Beside(counts, self.reactions_seq, self.is_pinned)


Place = tuple[str, int]  # a conversation and the number of one of its entries

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


def _place_of(record: Record) -> Place:
    return conversation_of(record.owner), int(record.name)


def place_of(entry: Entry) -> Place:
    return entry.conversation_id, entry.seq_no


def _places(entries: Iterable[Entry]) -> set[Place]:
    """The places of the messages that may have something beside them."""
    return {place_of(entry) for entry in entries if KINDS[entry.kind].is_target and not entry.is_deleted}


@dataclass(eq=False, repr=False)
class Summaries:
    access: Access
    messages: Messages
    records: Records
    keyspace: Keyspace
    keys: Keys
    # (user_id, the records of threads) -> those that have replies, as the user sees them
    threads: Callable[[str, Mapping[Place, Record]], Awaitable[dict[Place, ThreadBeside]]]

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
        places = _places(entries)
        if not places or has_summaries is False:
            return {}
        if has_summaries is None and not await self._look(conversation_id):
            return {}
        owner, seqs = of_conversation(conversation_id), [seq_no for _, seq_no in places]
        after, before = seq_name(min(seqs) - 1), seq_name(max(seqs) + 1)
        found = await asyncio.gather(
            *(self.records.page(owner, one, after=after, before=before, limit=PAGE_MAX) for one in _COLLECTIONS)
        )
        shown = await self._shown(user_id, places, chain(*found))
        return {seq_no: beside for (_, seq_no), beside in shown.items()}

    async def beside_each(self, user_id: str, entries: Iterable[Entry]) -> dict[Place, Beside]:
        """The same for messages from anywhere, in one read of the tables. A reply is the root of no thread."""
        shown = list(entries)
        places, roots = _places(shown), _places([entry for entry in shown if entry.thread_seq is None])
        keys = [*starmap(key_of, places), *(RecordKey(of_conversation(id_), _THREADS, seq_name(n)) for id_, n in roots)]
        found = await self.records.get_each(keys) if keys else {}
        return await self._shown(user_id, places, found.values())

    async def _shown(self, user_id: str, places: set[Place], records: Iterable[Record]) -> dict[Place, Beside]:
        kept = [(_place_of(record), record) for record in records if _place_of(record) in places]
        shown = {place: _decode(one.value).seen_by(user_id) for place, one in kept if one.collection == COLLECTION}
        threads = await self.threads(user_id, {place: one for place, one in kept if one.collection != COLLECTION})
        for place, thread in threads.items():
            shown[place] = msgspec.structs.replace(shown.get(place, Beside({})), thread=thread)
        return shown

    async def _look(self, conversation_id: str) -> bool:
        """Whether the conversation has summaries, from the tables. A conversation without any is remembered."""
        owner = of_conversation(conversation_id)
        if any(await asyncio.gather(*(self.records.page(owner, one, limit=1) for one in _COLLECTIONS))):
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
