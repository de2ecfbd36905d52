"""Importing: conversations of another product become conversations here, with their dates.

Entries are written in the order of the source, in large groups, past limits, counts and notifications. How many of a
conversation are written is a record in the commit of each group. So an import that was interrupted goes on, and the
same import again writes nothing. At the end every member has read everything, and their inboxes are counted anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from tidings.clock import Clock
from tidings.errors import Conflict, StoreError, Unavailable
from tidings.messaging.transfer.sources import ImportedConversation, ImportedMessage, Source
from tidings.model import Content, Entry, Head, Member, Row, Status, User
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put, of_conversation
from tidings.stores.tables.values import Group, Refused

IMPORTS = "imports"
_GROUP = 40  # entries of one commit: what every adapter takes at once


class Imported(msgspec.Struct):
    """The work that is done."""

    users: int = 0
    conversations: int = 0
    messages: int = 0
    known: int = 0  # messages that an earlier import wrote


class _Progress(msgspec.Struct, frozen=True):
    messages: int


class Importing:
    def __init__(self, tables: Tables, keyspace: Keyspace, scripts: Scripts, clock: Clock) -> None:
        self._tables = tables
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock

    async def run(self, source: Source, *, is_dry: bool = False) -> Imported:
        """Import everything. `is_dry`: count only. Raises Conflict, Unavailable."""
        done = Imported()
        for user_id, name in source.people().items():
            done.users += 1
            if not is_dry and name and await self._tables.accounts.user(user_id) is None:
                await self._tables.accounts.put_user(User(user_id=user_id, name=name[:100]))
        for conversation in source.conversations():
            done.conversations += 1
            if is_dry:
                done.messages += sum(1 for _ in source.messages(conversation))
            else:
                await self._conversation(conversation, source.messages(conversation), done)
        return done

    async def _conversation(
        self, conversation: ImportedConversation, messages: Iterator[ImportedMessage], done: Imported
    ) -> None:
        id_ = conversation.conversation_id
        people = await self._create(conversation)
        found = (await self._tables.records.get(of_conversation(id_), IMPORTS, [IMPORTS])).get(IMPORTS)
        progress = msgspec.json.decode(found.value, type=_Progress).messages if found is not None else 0
        version = found.version if found is not None else 0
        done.known += sum(1 for _ in islice(messages, progress))
        top = await self._tables.log.top(id_)
        seq_no, sent_ms = top.seq_no, top.sent_ms
        while chunk := list(islice(messages, _GROUP)):
            entries = []
            for message in chunk:
                seq_no, sent_ms = seq_no + 1, max(message.sent_ms, sent_ms)
                entries.append(_entry(id_, seq_no, sent_ms, message))
            progress += len(chunk)
            value = msgspec.json.encode(_Progress(progress))
            put = Put(of_conversation(id_), IMPORTS, IMPORTS, value, expected=version)
            await self._append(Group(conversation_id=id_, entries=tuple(entries), puts=(put,)))
            version += 1
            done.messages += len(chunk)
        await self._read_all(id_, people, seq_no)

    async def _append(self, group: Group) -> None:
        (answer,) = await self._tables.log.append([group])
        if isinstance(answer, Refused):
            raise Conflict("somebody writes to the conversation that is imported; run the import again")
        if isinstance(answer, StoreError):
            raise Unavailable(str(answer))

    async def _create(self, conversation: ImportedConversation) -> list[str]:
        """Create the conversation unless it is there, and return its members."""
        id_, now_ms = conversation.conversation_id, conversation.created_ms or self._clock.now_ms()
        head = Head(conversation_id=id_, kind=conversation.kind, created_ms=now_ms, name=conversation.name)
        people = list(dict.fromkeys(conversation.members))
        members = [
            Member(conversation_id=id_, user_id=one, role="member" if at else "owner", joined_ms=now_ms)
            for at, one in enumerate(people)
        ]
        rows = [
            Row(user_id=one, conversation_id=id_, kind=conversation.kind, name=conversation.name, joined_ms=now_ms)
            for one in people
        ]
        await self._tables.conversations.create(head, members, rows)
        return people

    async def _read_all(self, conversation_id: str, people: list[str], seq_no: int) -> None:
        for user_id in people:
            status = (await self._tables.statuses.get(user_id, [conversation_id])).get(conversation_id)
            before = status or Status(conversation_id=conversation_id, user_id=user_id)
            read = msgspec.structs.replace(
                before, cursor_seq=max(before.cursor_seq, seq_no), ranges=(), version=before.version + 1
            )
            await self._tables.statuses.put(read)
            token = self._clock.random_id(8)
            await self._keyspace.one(self._scripts.unread_put(user_id, token, hold_ms=-1))


def _entry(conversation_id: str, seq_no: int, sent_ms: int, message: ImportedMessage) -> Entry:
    return Entry(
        conversation_id=conversation_id,
        seq_no=seq_no,
        kind="message",
        sent_ms=sent_ms,
        message_id=message.message_id,
        sender_id=message.sender_id,
        content=Content(message.text, message.data, imported=True),
        timestamp=message.sent_ms,
    )
