"""Erasing a person: their texts, files, reactions, profile, devices, preferences and records go. A job does it.

The job is a record with a time, so another node goes on where a node died. Each removed message is a numbered delete,
so every device, count, preview and segment follows as for any delete. The search index follows in the same step. Then
the person leaves all groups, and everything else about them goes. At last the archiver writes the segments anew and
removes the bytes of files, and the files of the tables are wiped. The finished job is the certificate: it says what was
removed, and what remains elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from tidings.bounds import ARCHIVE_PAGE
from tidings.clock import Clock
from tidings.errors import Conflict, NotFound, Problem
from tidings.messaging.archive.schedule import Pass
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.files.profile_pictures import ProfilePictures
from tidings.messaging.files.record import COLLECTION as FILES
from tidings.messaging.files.record import put_of, value_of
from tidings.messaging.moderation.reports import REPORTS, Report
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.reactions.withdraw import Withdraw
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.streaming.texts import STREAMS
from tidings.messaging.unread.line import LOUD
from tidings.model import KINDS, User
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, conversation_of, of_user
from tidings.stores.tables.values import Preferences

JOBS = "jobs"
_CONVERSATIONS = 20  # looked at in one step of an erasure; then its place is stored
Texts = Literal["remove", "keep"]
_LOOK_S = 0.2  # between two looks of the command line at the archiver
_OWN_S = 60  # after so long without a step of the command line, nodes go on
_AGAIN_S = 2.0  # the archiver is at work on another node
_REMAINS = (
    "copies by `tidings tables backup`, exports, and backups of the stores and blobs",
    "devices of others, until they connect again",
    "endpoints of webhooks and services of notifications that were sent the texts before",
    "the person's id, as the sender of entries without a text and in the mentions of others",
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
    reactions: int = 0
    files: int = 0
    groups: int = 0  # left
    is_cleared: bool = False  # all but what the archiver removes
    devices: int = 0
    records: int = 0
    remains: tuple[str, ...] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class Erasing:
    """`index` brings the search index of a conversation up to its log; `sweep` is a pass of the archiver."""

    tables: Tables
    rewrites: Rewrites
    withdraw: Withdraw
    directory: Directory
    names: NameIndex
    pictures: ProfilePictures
    index: Callable[[str], Awaitable[object]]
    sweep: Callable[[], Awaitable[Pass]]
    clock: Clock

    async def begin(self, user_id: str, texts: Texts, *, is_own: bool = False) -> Job:
        """Begin to erase a person. Nodes do it in the background. `is_own`: the caller runs it, and nodes stand by."""
        now_ms = self.clock.now_ms()
        job = Job(user_id, texts, now_ms, self.clock.random_id())
        due_ms = now_ms + _OWN_S * 1000 * is_own
        await self.tables.records.put([Put(DEPLOYMENT, JOBS, job.job_id, msgspec.json.encode(job), due_ms=due_ms)])
        return job

    async def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        found = (await self.tables.records.get(DEPLOYMENT, JOBS, [job_id])).get(job_id)
        if found is None:
            raise NotFound("no such job")
        return msgspec.json.decode(found.value, type=Job)

    async def run(self, job_id: str) -> Job:
        """Do all steps of a job now: for the command line. Raises NotFound."""
        while (job := await self.job(job_id)).ended is None:
            records = await self.tables.records.get(DEPLOYMENT, JOBS, [job_id])
            with suppress(Conflict):  # a node did this step
                await self.step(records[job_id], is_own=True)
            if job.is_cleared:
                await asyncio.sleep(_LOOK_S)
        return job

    async def step(self, record: Record, *, is_own: bool = False) -> None:
        """Do the next step of a job. Raises StoreError, Problem: to be tried again."""
        job = msgspec.json.decode(record.value, type=Job)
        due_ms: int | None = self.clock.now_ms()
        if job.texts == "remove" and not job.is_walked:
            job = await self._remove_texts(job)
        elif not job.is_cleared:
            job = await self._remove_rest(job)
        elif await self._is_swept():
            return await self._end(job)
        else:
            due_ms = self.clock.now_ms() + int(_AGAIN_S * 1000)
        if due_ms is not None and is_own:
            due_ms = self.clock.now_ms() + _OWN_S * 1000
        value = msgspec.json.encode(job)
        await self.tables.records.put([Put(*record.key, value, expected=record.version, due_ms=due_ms)])

    async def _end(self, job: Job) -> None:
        """Write the certificate, whatever a node that waited for this one wrote meanwhile."""
        value = msgspec.json.encode(msgspec.structs.replace(job, ended=self.clock.now_ms(), remains=_REMAINS))
        await self.tables.records.put([Put(DEPLOYMENT, JOBS, job.job_id, value)])

    async def _remove_texts(self, job: Job) -> Job:
        heads, place = await self.tables.whole.walk("conversation_heads", after=job.place, limit=_CONVERSATIONS)
        removed = reactions = 0
        for head in heads:
            removed += await self._remove_from(head.conversation_id, job.user_id)
            reactions += await self.withdraw.all(job.user_id, head.conversation_id)
        return msgspec.structs.replace(
            job,
            place=place,
            is_walked=not place,
            conversations=job.conversations + len(heads),
            messages=job.messages + removed,
            reactions=job.reactions + reactions,
        )

    async def _remove_from(self, conversation_id: str, user_id: str) -> int:
        removed = after = 0
        while page := await self.tables.log.page(
            conversation_id, after=after, before=1 << 53, limit=ARCHIVE_PAGE, newest_first=False
        ):
            for entry in page:
                if entry.sender_id == user_id and KINDS[entry.kind].is_target and not entry.is_deleted:
                    try:
                        await self.rewrites.remove(entry)
                        removed += 1
                    except NotFound:
                        continue  # deleted meanwhile
            after = page[-1].seq_no
        await self.index(conversation_id)  # also for earlier deletes, whose node may have died before it did
        return removed

    async def _is_swept(self) -> bool:
        """Let the archiver write segments anew, remove bytes and wipe the tables.

        False: another node is at it and may be past us, or somebody reads the tables for long.
        """
        try:
            return (await self.sweep()).is_wiped
        except Conflict:
            return False

    async def _remove_rest(self, job: Job) -> Job:
        tables, user_id, now_ms = self.tables, job.user_id, self.clock.now_ms()
        nameless = User(user_id=user_id, tokens_valid_after=now_ms)
        await self.directory.introduce(nameless)
        await self.names.forget(nameless)
        await self.pictures.forget(user_id)
        groups = await self._leave(user_id)
        devices = await tables.devices.remove(user_id)
        for block in await tables.people.blocks_of(user_id):
            await tables.people.unblock(user_id, block.blocked_id)
        await tables.people.put_preferences(user_id, Preferences())
        records, files = await self._remove_records(user_id)
        done = {"groups": groups, "devices": devices, "records": records, "files": files}
        return msgspec.structs.replace(job, is_cleared=True, **done)

    async def _leave(self, user_id: str) -> int:
        """Leave every group and channel, so that nothing comes to the person any more."""
        left, after = 0, ""
        while page := await self.tables.inboxes.scan(user_id, after_id=after, limit=_CONVERSATIONS):
            for row in page:
                if row.kind != "direct":
                    with suppress(Problem):  # such as: the last owner of a group without anybody else
                        await self.directory.remove(user_id, row.conversation_id, user_id)
                        left += 1
            after = page[-1].conversation_id
        return left

    async def _remove_records(self, user_id: str) -> tuple[int, int]:
        """Remove what the person keeps, and what others keep of their words. Returns records and files."""
        removed = files = 0
        place, is_more = "", True
        while is_more:
            found, place = await self.tables.whole.walk("records", after=place, limit=ARCHIVE_PAGE)
            is_more = bool(place)
            for record in found:
                if record.collection == FILES:
                    files += await self._end_file(record, user_id)
                elif _is_of(record, user_id):
                    await self.tables.records.put([Put(record.owner, record.collection, record.name, None)])
                    removed += 1
        return removed, files

    async def _end_file(self, record: Record, user_id: str) -> bool:
        """Whether it is a file of the person. One that was never sent ends here; others end with their message."""
        value = value_of(record)
        if value.user_id == user_id and value.state in ("pending", "complete"):
            gone = msgspec.structs.replace(value, state="gone")
            with suppress(Conflict):  # it changes in this moment: then the sweep of uploads ends it
                put = put_of(conversation_of(record.owner), record.name, gone, record.version)
                await self.tables.records.put([msgspec.structs.replace(put, due_ms=self.clock.now_ms())])
        return value.user_id == user_id


def _is_of(record: Record, user_id: str) -> bool:
    """It belongs to the person, or holds words of theirs: a message that they are writing, or a report."""
    if record.collection == STREAMS:
        return record.name.startswith(f"{user_id}:")
    if record.collection == LOUD:
        return record.name == user_id
    if record.collection == REPORTS:
        return msgspec.json.decode(record.value, type=Report).by == user_id
    return record.owner == of_user(user_id)
