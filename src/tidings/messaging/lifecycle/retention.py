"""Retention: messages older than `retention_s` of their conversation are removed, with their rows and segments.

The rules of a conversation are a record, and its time says when the oldest message ends. A cut raises the floor of the
log and deletes the rows below it, from the beginning, so a reader sees a shorter log and no gap. Their words leave the
search index first, because nobody could name them without the rows. They leave it once more after the cut: an edit that
was indexed in between brought some back. The archiver's next pass deletes what segments still hold. The highest entry
of a log stays, because numbers go on from it. Where it has a text, a delete takes the text and becomes the highest
entry itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from tidings.bounds import ARCHIVE_PAGE
from tidings.clock import Clock
from tidings.errors import Conflict, NotFound
from tidings.messaging.access import Access, MemberList
from tidings.messaging.archive.read_through import new_recheck
from tidings.messaging.log import entry_at
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.threads.records import THREADS, thread_of
from tidings.model import KINDS, Entry, Rules
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import forget_tally
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put, Record, RecordKey, conversation_of, of_conversation
from tidings.stores.tables.values import Touch
from tidings.tasks import attempt

CUTS = "cuts"  # the collection and the name of the record of a cut under way
_LOOK_S = 10  # the least pause between two cuts of a conversation: each makes its counts cold
_TOGETHER = 100  # members whose counts become cold side by side


@dataclass(eq=False, repr=False)
class Retention:
    """`unindex` takes the words of entries out of the search index."""

    access: Access
    tables: Tables
    rewrites: Rewrites
    keyspace: Keyspace
    scripts: Scripts
    clock: Clock
    count: Callable[[float], object]
    unindex: Callable[[str, Sequence[Entry]], Awaitable[object]]

    async def keep(self, record: Record) -> None:
        """Cut the log of the conversation whose rules these are, and set the time of the next cut."""
        rules, conversation_id = msgspec.json.decode(record.value, type=Rules), conversation_of(record.owner)
        due_ms = None
        if rules.retention_s is None:
            await self.cut(conversation_id, 0)
        else:
            await self.cut(conversation_id, self.clock.now_ms() - rules.retention_s * 1000)
            due_ms = await self._next_ms(conversation_id, rules.retention_s * 1000)
        try:
            await self.tables.records.put([Put(*record.key, record.value, expected=record.version, due_ms=due_ms)])
        except Conflict:
            return  # the rules changed, and their new record has a time of its own

    async def cut(self, conversation_id: str, before_ms: int) -> None:
        """Remove the entries up to this time. Raises StoreError: the next try goes on.

        A record says that a cut was begun, until the counts have followed it: a try that finds nothing to cut makes up
        for one that did not come so far.
        """
        key, records = RecordKey(of_conversation(conversation_id), CUTS, CUTS), self.tables.records
        found = (await records.get(key.owner, CUTS, [CUTS])).get(CUTS)
        version = found.version if found is not None else 0
        after, up_to = await self._part_before(conversation_id, before_ms)
        if after < up_to:
            await records.put([Put(*key, b"{}", expected=version)])
            version += 1
            await self._let_go(conversation_id, after, up_to)
        if version:
            member_list = await self.access.load(conversation_id)
            if member_list is not None:
                await self._follow(member_list)
            await records.put([Put(*key, None, expected=version)])

    async def _part_before(self, conversation_id: str, before_ms: int) -> tuple[int, int]:
        """The part of the log that is older than this: above the first number, up to the second one."""
        up_to = await self.tables.log.seq_at(conversation_id, before_ms)
        heads = await self.tables.conversations.heads([conversation_id])
        if conversation_id not in heads or up_to <= heads[conversation_id].floor_seq:
            return 0, 0
        top = (await self.tables.log.top(conversation_id)).seq_no
        if up_to >= top and await self._take_text_of(conversation_id, top):
            top += 1
        return heads[conversation_id].floor_seq, min(up_to, top - 1)

    async def _take_text_of(self, conversation_id: str, seq_no: int) -> bool:
        """Delete the message that is the highest entry. Returns whether there is a higher entry now."""
        entry = await entry_at(self.tables.log, conversation_id, seq_no)
        if entry is None or entry.is_deleted or not KINDS[entry.kind].is_target:
            return False
        try:
            await self.rewrites.remove(entry)
        except NotFound:
            return False
        self.count(1)
        return True

    async def _let_go(self, conversation_id: str, after: int, up_to: int) -> None:
        """Cut the log page by page, take the words out of the search index, and ask the archiver to look at each
        segment that loses rows."""
        while page := await self.tables.log.page(
            conversation_id, after=after, before=up_to + 1, limit=ARCHIVE_PAGE, newest_first=False
        ):
            after = page[-1].seq_no
            await self.unindex(conversation_id, page)
            for s3_ref in sorted({entry.s3_ref for entry in page if entry.s3_ref is not None}):
                recheck = new_recheck(self.clock, conversation_id, s3_ref, "rewritten")
                await self.tables.archive.put_recheck(recheck)
            await self._cut(conversation_id, after)
            await attempt(self.unindex(conversation_id, page))  # the counts of members follow the cut in any case
            self.count(sum(KINDS[entry.kind].counts and not entry.is_deleted for entry in page))
        if after < up_to:
            await self._cut(conversation_id, up_to)

    async def _cut(self, conversation_id: str, up_to: int) -> None:
        while not await self.tables.archive.cut(conversation_id, up_to_seq=up_to):
            continue  # a long page goes in several commits

    async def _follow(self, member_list: MemberList) -> None:
        """Take the texts out of inbox rows, and make the counts of members cold: the next read counts anew."""
        head = member_list.head
        if head.large_ms:  # its counts come from its tally, which is built anew without the entries that are gone
            await self.keyspace.run(forget_tally(self.scripts.keys, head.conversation_id))
            await self._chill_followers(head.conversation_id)
            return
        if head.last_seq and head.last_seq <= head.floor_seq:
            touches = [
                Touch(
                    user_id=user_id,
                    conversation_id=head.conversation_id,
                    last_seq=head.last_seq,
                    last_ms=head.last_ms,
                    preview=None,
                )
                for user_id in member_list.members
            ]
            await self.tables.inboxes.touch(touches)
        members = list(member_list.members)
        for start in range(0, len(members), _TOGETHER):
            await asyncio.gather(
                *(self._chill(user_id, head.conversation_id) for user_id in members[start : start + _TOGETHER])
            )

    async def _chill_followers(self, conversation_id: str) -> None:
        """Make the threads of their followers cold. The members are too many to ask each of them."""
        put, token, after = self.scripts.threads.unread_put, self.clock.random_id(8), ""
        owner = of_conversation(conversation_id)
        while found := await self.tables.records.page(owner, THREADS, limit=_TOGETHER, after=after):
            after = found[-1].name
            followers = {user_id for record in found for user_id in thread_of(record)[0].followers}
            await self.keyspace.run([put(user_id, token, hold_ms=-1) for user_id in sorted(followers)])

    async def _chill(self, user_id: str, conversation_id: str) -> None:
        token = self.clock.random_id(8)
        put, chill_threads = self.scripts.unread_put, self.scripts.threads.unread_put
        chilled = put(user_id, token, hold_ms=-1, conversation_id=conversation_id)
        await self.keyspace.run((chilled, chill_threads(user_id, token, hold_ms=-1)))

    async def _next_ms(self, conversation_id: str, retention_ms: int) -> int:
        heads = await self.tables.conversations.heads([conversation_id])
        floor_seq = heads[conversation_id].floor_seq if conversation_id in heads else 0
        page = await self.tables.log.page(conversation_id, after=floor_seq, before=1 << 53, limit=2, newest_first=False)
        soon_ms = self.clock.now_ms() + _LOOK_S * 1000
        oldest = page[0] if len(page) > 1 or (page and page[0].content is not None) else None
        return max(soon_ms, (oldest.sent_ms if oldest is not None else self.clock.now_ms()) + retention_ms)
