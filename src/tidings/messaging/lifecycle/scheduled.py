"""Scheduled messages: sent by the server at their time, once, whichever node dies.

A scheduled message is a record of its author with the time as `due_ms`. It is sent with the message_id under which it
was stored, and its record goes in the commit of the entry. So it is stored once, and never after its author took it
back. A message that is refused for good stays in the list with the code of the refusal, until its author
removes it. Its files were uploaded before, and their records keep them a day longer than its time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.bounds import SCHEDULED_AHEAD_S, SCHEDULED_PER_USER_MAX
from tidings.clock import Clock
from tidings.errors import BadRequest, Conflict, NotFound, Problem, TooLarge
from tidings.messaging.access import Access
from tidings.messaging.files.attach import kept_files
from tidings.messaging.lifecycle.expiry import expiring
from tidings.messaging.send.draft import Companions
from tidings.messaging.send.lanes import Sends
from tidings.model import Content, Entry
from tidings.pushes import ScheduledFailed
from tidings.routing.router import Router
from tidings.stores.tables.records import Put, Record, Records, of_user, user_of

SCHEDULED = "scheduled"


class Scheduled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that is to be sent. The name of its record is its message_id."""

    conversation_id: str
    content: Content
    send_at: int
    message_id: str = ""
    failed: str | None = None  # the code of the refusal


class Schedule:
    def __init__(self, access: Access, records: Records, sends: Sends, router: Router, clock: Clock) -> None:
        self._access = access
        self._records = records
        self._sends = sends
        self._router = router
        self._clock = clock

    async def put(self, user_id: str, scheduled: Scheduled) -> bool:
        """Store the message, or replace it. Returns whether it is new. Raises NotFound, BadRequest, TooLarge."""
        if scheduled.send_at > self._clock.now_ms() + SCHEDULED_AHEAD_S * 1000:
            raise BadRequest("`send_at` must be at most one year ahead")
        await self._access.authorize(user_id, scheduled.conversation_id, "write")
        name = scheduled.message_id
        present = await self._records.page(of_user(user_id), SCHEDULED, limit=SCHEDULED_PER_USER_MAX)
        is_new = all(record.name != name for record in present)
        if is_new and len(present) >= SCHEDULED_PER_USER_MAX:
            raise TooLarge(f"at most {SCHEDULED_PER_USER_MAX} messages can be scheduled")
        value, files = msgspec.json.encode(scheduled), scheduled.content.files
        put, of = Put(of_user(user_id), SCHEDULED, name, value, due_ms=scheduled.send_at), scheduled.conversation_id
        while True:
            kept = await kept_files(self._records, user_id, of, name, files, until_ms=scheduled.send_at)
            try:
                await self._records.put([put, *kept])
                return is_new
            except Conflict:
                continue  # a file was sent or removed in this moment, and is looked at again

    async def all(self, user_id: str) -> list[Scheduled]:
        """The messages of a user that wait or were refused, the soonest first."""
        records = await self._records.page(of_user(user_id), SCHEDULED, limit=SCHEDULED_PER_USER_MAX)
        return sorted(map(_scheduled, records), key=lambda one: (one.send_at, one.message_id))

    async def remove(self, user_id: str, message_id: str) -> None:
        """Take a message back. When this returns, the message will not be sent. Raises NotFound."""
        while True:
            found = await self._records.get(of_user(user_id), SCHEDULED, [message_id])
            if message_id not in found:
                raise NotFound("no such scheduled message")
            record = found[message_id]
            try:
                await self._records.put([Put(*record.key, None, expected=record.version)])
                return
            except Conflict:
                continue  # it was sent or replaced in this moment

    async def send(self, record: Record) -> None:
        """Send the message of a record whose time has come. Raises Problem, StoreError: to be tried again."""
        scheduled, user_id = _scheduled(record), user_of(record.owner)
        removal = _SentRecord(self._records, record)
        end = expiring(scheduled.content, scheduled.conversation_id, user_id, record.name)
        companion = removal if end is None else Companions(removal, end)
        try:
            sent = await self._sends.send(
                user_id, scheduled.conversation_id, record.name, scheduled.content, companion=companion
            )
            if sent.is_duplicate:
                await self._records.put([Put(*record.key, None)])
        except Problem as problem:
            if problem.is_temporary:
                raise
            if not removal.is_stale:
                await self._fail(user_id, record, scheduled, problem)

    async def _fail(self, user_id: str, record: Record, scheduled: Scheduled, problem: Problem) -> None:
        value = msgspec.json.encode(msgspec.structs.replace(scheduled, failed=problem.code))
        await self._records.put([Put(*record.key, value, expected=record.version)])
        self._router.push(user_id, ScheduledFailed(record.name, problem.code))


def _scheduled(record: Record) -> Scheduled:
    found = msgspec.json.decode(record.value, type=Scheduled)
    return msgspec.structs.replace(found, message_id=record.name)


class _SentRecord:
    """The companion of a scheduled message: its record goes with the commit, and only the record that was read."""

    last_seq = 0

    def __init__(self, records: Records, record: Record) -> None:
        self._records = records
        self._record = record
        self.keys = frozenset((record.key,))
        self.is_stale = False

    async def read(self) -> None:
        key = self._record.key
        found = (await self._records.get(key.owner, key.collection, [key.name])).get(key.name)
        if found is None or found.version != self._record.version:
            self.is_stale = True
            raise NotFound("the message is not scheduled any more")

    def puts(self, entry: Entry) -> Sequence[Put]:
        return [Put(*self._record.key, None, expected=self._record.version)]
