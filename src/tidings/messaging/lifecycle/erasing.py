"""Erasing a person: their texts, profile, devices, preferences and records go. A job does it, step by step.

The job is a record with a time, so another node goes on where a node died. Each removed message is a numbered delete,
so every device, count, preview and segment follows as for any delete. The finished job is the certificate: it says what
was removed, and what this server cannot reach.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.bounds import ARCHIVE_PAGE
from tidings.clock import Clock
from tidings.errors import Conflict, NotFound
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.send.edit import Rewrites
from tidings.model import KINDS, User
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, of_user
from tidings.stores.tables.values import Preferences

JOBS = "jobs"
_CONVERSATIONS = 20  # looked at in one step of an erasure; then its place is stored
Texts = Literal["remove", "keep"]
_REMAINS = (
    "copies by `tidings tables backup`, and backups of the stores",
    "segments of the cold tier, until the archiver's next pass",
    "devices of others, until they connect again",
)


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One erasure, and how far it is."""

    user_id: str
    texts: Texts
    began: int
    job_id: str = ""
    ended: int | None = None
    place: str = ""  # in the walk over all conversations
    is_walked: bool = False
    conversations: int = 0  # looked at
    messages: int = 0  # deleted
    devices: int = 0
    records: int = 0
    remains: tuple[str, ...] = ()


class Erasing:
    def __init__(self, tables: Tables, rewrites: Rewrites, directory: Directory, clock: Clock) -> None:
        self._tables = tables
        self._rewrites = rewrites
        self._directory = directory
        self._clock = clock

    async def begin(self, user_id: str, texts: Texts) -> Job:
        """Begin to erase a person. The job is done in the background."""
        now_ms = self._clock.now_ms()
        job = Job(user_id, texts, now_ms, self._clock.random_id())
        await self._tables.records.put([Put(DEPLOYMENT, JOBS, job.job_id, msgspec.json.encode(job), due_ms=now_ms)])
        return job

    async def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        found = (await self._tables.records.get(DEPLOYMENT, JOBS, [job_id])).get(job_id)
        if found is None:
            raise NotFound("no such job")
        return msgspec.json.decode(found.value, type=Job)

    async def run(self, job_id: str) -> Job:
        """Do all steps of a job now: for the command line. Raises NotFound."""
        while (job := await self.job(job_id)).ended is None:
            records = await self._tables.records.get(DEPLOYMENT, JOBS, [job_id])
            try:
                await self.step(records[job_id])
            except Conflict:
                continue  # a node did this step
        return job

    async def step(self, record: Record) -> None:
        """Do the next step of a job. Raises StoreError, Problem: to be tried again."""
        job = msgspec.json.decode(record.value, type=Job)
        if job.texts == "remove" and not job.is_walked:
            job = await self._remove_texts(job)
        else:
            job = await self._remove_rest(job)
        due_ms = None if job.ended is not None else self._clock.now_ms()
        value = msgspec.json.encode(job)
        await self._tables.records.put([Put(*record.key, value, expected=record.version, due_ms=due_ms)])

    async def _remove_texts(self, job: Job) -> Job:
        heads, place = await self._tables.whole.walk("conversation_heads", after=job.place, limit=_CONVERSATIONS)
        removed = 0
        for head in heads:
            removed += await self._remove_from(head.conversation_id, job.user_id)
        return msgspec.structs.replace(
            job,
            place=place,
            is_walked=not place,
            conversations=job.conversations + len(heads),
            messages=job.messages + removed,
        )

    async def _remove_from(self, conversation_id: str, user_id: str) -> int:
        removed = after = 0
        while page := await self._tables.log.page(
            conversation_id, after=after, before=1 << 53, limit=ARCHIVE_PAGE, newest_first=False
        ):
            for entry in page:
                if entry.sender_id == user_id and KINDS[entry.kind].is_target and not entry.is_deleted:
                    try:
                        await self._rewrites.remove(entry)
                        removed += 1
                    except NotFound:
                        continue  # deleted meanwhile
            after = page[-1].seq_no
        return removed

    async def _remove_rest(self, job: Job) -> Job:
        tables, user_id, now_ms = self._tables, job.user_id, self._clock.now_ms()
        await self._directory.introduce(User(user_id=user_id, tokens_valid_after=now_ms))
        devices = await tables.devices.remove(user_id)
        for block in await tables.people.blocks_of(user_id):
            await tables.people.unblock(user_id, block.blocked_id)
        await tables.people.put_preferences(user_id, Preferences())
        records = await self._remove_records(user_id)
        return msgspec.structs.replace(job, ended=now_ms, devices=devices, records=records, remains=_REMAINS)

    async def _remove_records(self, user_id: str) -> int:
        removed, place, is_more = 0, "", True
        while is_more:
            found, place = await self._tables.whole.walk("records", after=place, limit=ARCHIVE_PAGE)
            is_more = bool(place)
            for record in found:
                if record.owner == of_user(user_id):
                    await self._tables.records.put([Put(record.owner, record.collection, record.name, None)])
                    removed += 1
        return removed
