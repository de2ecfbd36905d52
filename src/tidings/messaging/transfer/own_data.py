"""Own data: all that the server holds about one person, for that person.

Messages of others are not in it, nor who the other members are. Tokens of devices stay here too: they are a secret of
the provider of notifications.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from tidings.bounds import ARCHIVE_PAGE, PAGE_MAX
from tidings.messaging.lifecycle.scheduled import SCHEDULED
from tidings.messaging.reading.drafts import DRAFTS
from tidings.messaging.reading.saved import PLACES
from tidings.messaging.summaries import COLLECTION as SUMMARIES
from tidings.messaging.summaries import summary_of
from tidings.messaging.transfer.sources.lines import Line, line_of_conversation, line_of_entry, line_of_user
from tidings.messaging.transfer.walk import FileKey, entries_of, files_of, records_of
from tidings.model import KINDS, Head, Member, Row, User
from tidings.stores.tables.ports import Messages, Tables
from tidings.stores.tables.records import of_conversation, of_user
from tidings.stores.tables.values import FLAGS

RECORDS = (DRAFTS, PLACES, SCHEDULED)  # the records of a person that they made themselves


class OwnData:
    def __init__(self, tables: Tables, messages: Messages) -> None:
        self._tables = tables
        self._messages = messages

    async def lines(self, user_id: str, files: list[FileKey], *, is_everywhere: bool) -> AsyncIterator[Line]:
        """`files` gets every file that the person sent."""
        async for line in self._profile(user_id):
            yield line
        after, seen = "", set[str]()
        while rows := await self._tables.inboxes.scan(user_id, after_id=after, limit=PAGE_MAX):
            heads = await self._tables.conversations.heads(row.conversation_id for row in rows)
            for row in rows:
                seen.add(row.conversation_id)
                if row.conversation_id in heads and not row.is_invited:
                    yield await self._mark(user_id, row)
                    async for line in self._wrote(user_id, heads[row.conversation_id], files):
                        yield line
            after = rows[-1].conversation_id
        async for head in self._left(user_id, seen) if is_everywhere else _nothing():
            async for line in self._wrote(user_id, head, files):
                yield line

    async def _profile(self, user_id: str) -> AsyncIterator[Line]:
        tables = self._tables
        yield line_of_user(await tables.accounts.user(user_id) or User(user_id=user_id))
        if (chosen := (await tables.people.preferences([user_id])).get(user_id)) is not None:
            yield {"type": "preferences", **msgspec.to_builtins(chosen)}
        for block in await tables.people.blocks_of(user_id):
            yield {"type": "block", "user_id": block.blocked_id, "since": block.since_ms}
        for device in await tables.devices.of_user(user_id):
            times = {"registered_at": device.registered_ms, "last_seen_at": device.last_seen_ms}
            yield {"type": "device", "device_id": device.device_id, "provider": device.provider, **times}
        for collection in RECORDS:
            async for record in records_of(tables.records, of_user(user_id), collection):
                value = msgspec.json.decode(record.value)
                yield {"type": "own_record", "collection": collection, "name": record.name, "value": value}

    async def _mark(self, user_id: str, row: Row) -> Line:
        """How far the person has read, and what they set for the conversation."""
        status = (await self._tables.statuses.get(user_id, [row.conversation_id])).get(row.conversation_id)
        flags = {name: value for name in FLAGS if (value := getattr(row, name))}
        marks = {"read_seq": status.read_seq, "cursor_seq": status.cursor_seq} if status is not None else {}
        return {"type": "mark", "conversation_id": row.conversation_id, **marks, **flags}

    async def _wrote(self, user_id: str, head: Head, files: list[FileKey]) -> AsyncIterator[Line]:
        """The conversation, with what this person wrote in it."""
        id_ = head.conversation_id
        mine = [one for one in await self._members(id_, user_id) if one.user_id == user_id]
        yield line_of_conversation(head, mine)
        async for entry in entries_of(self._messages, head):
            if entry.sender_id == user_id and KINDS[entry.kind].is_target:
                yield line_of_entry(entry)
                files += files_of(entry)
        async for record in records_of(self._tables.records, of_conversation(id_), SUMMARIES):
            reactions = summary_of(record)[0].reactions
            for key in (key for key, users in reactions.items() if user_id in users):
                yield {"type": "reaction", "conversation_id": id_, "seq": int(record.name), "key": key}

    async def _members(self, conversation_id: str, user_id: str) -> list[Member]:
        conversations = self._tables.conversations
        return [*await conversations.members(conversation_id), *await conversations.former(conversation_id, [user_id])]

    async def _left(self, user_id: str, seen: set[str]) -> AsyncIterator[Head]:
        """Conversations that the person was a member of, and has no row of."""
        after, is_more = "", True
        while is_more:
            members, after = await self._tables.whole.walk("members", after=after, limit=ARCHIVE_PAGE)
            is_more = bool(after)
            left = [one.conversation_id for one in members if one.user_id == user_id]
            heads = await self._tables.conversations.heads(id_ for id_ in left if id_ not in seen)
            for head in heads.values():
                yield head


async def _nothing() -> AsyncIterator[Head]:
    return
    yield
