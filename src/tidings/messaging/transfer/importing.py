"""Importing: conversations of another product become conversations here, with their dates.

Entries are written in the order of the source, in large groups, past limits, counts and notifications. How many of a
conversation are written is a record in the commit of each group. So an import that was interrupted goes on, and the
same import again writes nothing. At the end every member has read everything, and their inboxes are counted anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from tidings.bounds import ARCHIVE_PAGE
from tidings.clock import Clock
from tidings.errors import Conflict, StoreError, Unavailable
from tidings.messaging.access import RULES
from tidings.messaging.log import NEWEST
from tidings.messaging.moderation.rules import LISTED
from tidings.messaging.summaries import Summaries
from tidings.messaging.threads.records import THREADS, Follow, follow_key, put_follow, thread_of
from tidings.messaging.transfer.bounds import IMPORTED_TOGETHER, IMPORTS_AT_ONCE
from tidings.messaging.transfer.entries import MESSAGE_WEIGHT, Chunk
from tidings.messaging.transfer.import_files import ImportFiles
from tidings.messaging.transfer.sources.source import ImportedConversation, ImportedMember, Source
from tidings.messaging.transfer.walk import records_of
from tidings.messaging.unread.line import crossed, touch_of
from tidings.model import Head, Member, Row, Rules, Status, User
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import forget_tally
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import DEPLOYMENT, Put, of_conversation
from tidings.stores.tables.values import Group, Refused

IMPORTS = "imports"


class Imported(msgspec.Struct):
    """The work that is done."""

    users: int = 0
    conversations: int = 0
    messages: int = 0
    known: int = 0  # messages that an earlier import wrote
    files: int = 0


class _Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    messages: int = 0
    last_seq: int = 0
    is_settled: bool = False  # the members have read all of it


@dataclass(eq=False, repr=False, kw_only=True)
class Importing:
    tables: Tables
    files: ImportFiles
    summaries: Summaries
    introduce: Callable[[User], Awaitable[None]]
    keyspace: Keyspace
    scripts: Scripts
    clock: Clock
    members_large: int

    async def run(self, source: Source, *, is_dry: bool = False) -> Imported:
        """Import everything. `is_dry`: count only. Raises Conflict, Unavailable."""
        done = Imported()
        for person in source.people():
            done.users += 1
            if not is_dry and await self.tables.accounts.user(person.user_id) is None:
                name = person.name[:100] if person.name else None
                await self.introduce(User(user_id=person.user_id, name=name, avatar_url=person.avatar_url))
        conversations = iter(source.conversations())
        if is_dry:
            for conversation in conversations:
                done.conversations += 1
                done.messages += sum(1 for _ in source.messages(conversation))
            return done
        works = [self._work(source, conversations, done) for _ in range(IMPORTS_AT_ONCE)]
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in works:
                    tasks.create_task(work)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return done

    async def _work(self, source: Source, conversations: Iterator[ImportedConversation], done: Imported) -> None:
        for conversation in conversations:
            done.conversations += 1
            await self._conversation(source, conversation, done)

    async def _conversation(self, source: Source, conversation: ImportedConversation, done: Imported) -> None:
        id_, messages = conversation.conversation_id, source.messages(conversation)
        await self._create(conversation)
        progress, version = await self._progress(id_)
        done.known += sum(1 for _ in islice(messages, progress.messages))
        top = await self.tables.log.top(id_)
        joined = {one.user_id: one.joined_seq for one in conversation.members}
        chunk = Chunk(id_, max(top.seq_no, conversation.floor_seq), top.sent_ms, joined)
        is_begun, weight_max = progress.messages > 0, self.tables.commit_max - MESSAGE_WEIGHT
        for message in messages:
            if is_begun and message.root is not None and message.root not in chunk.roots:
                await self._find_roots(chunk)
                is_begun = False
            files = await self.files.store(id_, message.sender_id, message.files) if message.files else {}
            done.files += len(files)
            chunk.add(message, files)
            if chunk.weight >= weight_max:
                progress, version = await self._write(chunk, progress, version, done)
        if chunk.messages:
            progress, version = await self._write(chunk, progress, version, done)
        if not progress.is_settled:
            await self._settle(source, conversation, progress.last_seq)
            await self.tables.records.put([_put(id_, msgspec.structs.replace(progress, is_settled=True), version)])

    async def _progress(self, conversation_id: str) -> tuple[_Progress, int]:
        found = (await self.tables.records.get(of_conversation(conversation_id), IMPORTS, [IMPORTS])).get(IMPORTS)
        return (msgspec.json.decode(found.value, type=_Progress), found.version) if found else (_Progress(), 0)

    async def _find_roots(self, chunk: Chunk) -> None:
        """The numbers of the messages that an earlier run wrote, and its threads. One of them goes on."""
        async for record in records_of(self.tables.records, of_conversation(chunk.conversation_id), THREADS):
            chunk.threads.setdefault(int(record.name), thread_of(record)[0])
        after = 0
        while page := await self.tables.log.page(
            chunk.conversation_id, after=after, before=NEWEST, limit=ARCHIVE_PAGE, newest_first=False
        ):
            for entry in page:
                if entry.message_id is not None:
                    chunk.roots.setdefault(entry.message_id, entry.seq_no)
                    chunk.authors.setdefault(entry.seq_no, entry.sender_id)
            after = page[-1].seq_no

    async def _write(self, chunk: Chunk, progress: _Progress, version: int, done: Imported) -> tuple[_Progress, int]:
        """Commit what was gathered, with the progress."""
        after = _Progress(progress.messages + chunk.messages, chunk.seq_no)
        done.messages += chunk.messages
        entries, puts = chunk.take()
        put = _put(chunk.conversation_id, after, version)
        group = Group(conversation_id=chunk.conversation_id, entries=tuple(entries), puts=(*puts, put))
        (answer,) = await self.tables.log.append([group])
        if isinstance(answer, Refused):
            raise Conflict("somebody writes to the conversation that is imported; run the import again")
        if isinstance(answer, StoreError):
            raise Unavailable(str(answer))
        return after, version + 1

    async def _create(self, conversation: ImportedConversation) -> None:
        """Create the conversation unless it is there."""
        id_, now_ms = conversation.conversation_id, conversation.created_ms or self.clock.now_ms()
        facts = {"kind": conversation.kind, "name": conversation.name, "avatar_url": conversation.avatar_url}
        head = Head(
            conversation_id=id_,
            created_ms=now_ms,
            history=conversation.history,
            floor_seq=conversation.floor_seq,
            members_seq=conversation.members_seq,
            **facts,  # type: ignore[arg-type]  # of three types
        )
        line_ms = crossed(head, len(conversation.members), self.members_large, self.clock.now_ms())
        head = msgspec.structs.replace(head, large_ms=line_ms or 0)
        members = [_member(id_, one, now_ms) for one in conversation.members]
        rows = [
            Row(
                user_id=one.user_id,
                conversation_id=id_,
                joined_seq=one.joined_seq,
                joined_ms=one.joined_ms,
                role=one.role,
                **facts,  # type: ignore[arg-type]
            )
            for one in members
        ]
        await self.tables.conversations.create(head, members, rows)

    async def _settle(self, source: Source, conversation: ImportedConversation, seq_no: int) -> None:
        """Put what stands beside the messages, and let every member have read all of them."""
        id_ = conversation.conversation_id
        records = source.records(conversation)
        while puts := list(islice(records, IMPORTED_TOGETHER)):
            await self.tables.records.put([*puts, *(one for put in puts if (one := _listing(id_, put)) is not None)])
        await self._follow_all(id_)
        await self.summaries.committed(id_)
        head = (await self.tables.conversations.heads([id_])).get(id_)
        await self.keyspace.run(forget_tally(self.scripts.keys, id_))  # it knows nothing of these messages
        people = iter(conversation.members)
        while head is not None and (some := list(islice(people, IMPORTED_TOGETHER))):
            await asyncio.gather(*(self._read_all(one, head, seq_no) for one in some))

    async def _follow_all(self, conversation_id: str) -> None:
        """Let every follower of a thread have read all of its replies."""
        owner = of_conversation(conversation_id)
        puts: list[Put] = []
        async for record in records_of(self.tables.records, owner, THREADS):
            follow, root = Follow((thread := thread_of(record)[0]).last_seq), int(record.name)
            puts += [put_follow(follow_key(id_, conversation_id, root), follow, None) for id_ in thread.followers]
            if len(puts) >= IMPORTED_TOGETHER**2:
                await self._put_all(puts)
                puts.clear()
        await self._put_all(puts)

    async def _put_all(self, puts: Sequence[Put]) -> None:
        """Put records side by side, so that they share commits."""
        starts = range(0, len(puts), IMPORTED_TOGETHER)
        put = self.tables.records.put
        await asyncio.gather(*(put(puts[start : start + IMPORTED_TOGETHER]) for start in starts))

    async def _read_all(self, member: ImportedMember, head: Head, seq_no: int) -> None:
        user_id, id_ = member.user_id, head.conversation_id
        status = (await self.tables.statuses.get(user_id, [id_])).get(id_)
        before = status or Status(conversation_id=id_, user_id=user_id, since_seq=member.joined_seq)
        read = msgspec.structs.replace(
            before, cursor_seq=max(before.cursor_seq, seq_no), ranges=(), version=before.version + 1
        )
        await self.tables.statuses.put(read)
        touch = touch_of(user_id, head, unread_count=0, version=read.version)
        await self.tables.inboxes.touch([touch])
        both, token = (self.scripts, self.scripts.threads), self.clock.random_id(8)
        await self.keyspace.run([one.unread_put(user_id, token, hold_ms=-1) for one in both])


def _put(conversation_id: str, progress: _Progress, version: int) -> Put:
    return Put(of_conversation(conversation_id), IMPORTS, IMPORTS, msgspec.json.encode(progress), expected=version)


def _listing(conversation_id: str, put: Put) -> Put | None:
    """The record that lists a conversation, if these are rules that list it."""
    if put.collection != RULES or put.value is None:
        return None
    rules = msgspec.json.decode(put.value, type=Rules)
    return Put(DEPLOYMENT, LISTED, conversation_id, b"{}") if rules.visibility != "private" else None


def _member(conversation_id: str, one: ImportedMember, created_ms: int) -> Member:
    return Member(
        conversation_id=conversation_id,
        user_id=one.user_id,
        role=one.role,
        joined_seq=one.joined_seq,
        joined_ms=one.joined_ms if one.joined_ms is not None else created_ms,
    )
