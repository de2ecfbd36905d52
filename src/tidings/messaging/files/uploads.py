"""Uploads: a member announces a file, sends its parts, and says that all are there.

The announcement makes the record and takes the bytes from the user's day, in one commit: two uploads at the same moment
cannot both use the last of a day. Parts can be sent again, in any order. The sweep removes an
upload that is not sent with a message within a day.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import BadRequest, Conflict, Missing, NotFound, RateLimited, StoreError, StoreUnavailable, TooLarge
from tidings.messaging.access import Access
from tidings.messaging.files.record import COLLECTION, FileRecord, file_folder, put_of, value_of
from tidings.messaging.files.tickets import Ticket, Tickets
from tidings.model import File
from tidings.stores.blobs.ports import BadSize, FileBytes, Part, Signed
from tidings.stores.tables.records import Put, Record, Records, of_conversation, of_user

DAYS = "files_days"  # the collection of the bytes that a user began to upload on a day
_DAY_MS = 86_400_000
UPLOAD_PATH = "/v1/uploads/"

CountBytes = Callable[[str, int], None]  # direction, bytes
Measure = Callable[[str, FileRecord], Awaitable[tuple[int, int] | None]]  # folder, record -> width and height


class Rules(msgspec.Struct, frozen=True):
    """The operator's limits of files."""

    max_bytes: int
    per_day_bytes: int
    types: tuple[str, ...]  # patterns such as image/*


class NewFile(msgspec.Struct, frozen=True):
    """The announcement of a file, by its uploader."""

    name: str
    mime: str
    bytes: int
    sha256: str | None = None
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None


class Begun(msgspec.Struct, frozen=True):
    file_id: str
    parts: Sequence[tuple[Part, Signed]]
    expires_ms: int


class _Day(msgspec.Struct, frozen=True):
    bytes: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class Uploads:
    access: Access
    records: Records
    files: FileBytes
    tickets: Tickets
    archive_id: Callable[[], Awaitable[str]]
    rules: Rules
    clock: Clock
    measure: Measure | None
    count_bytes: CountBytes

    async def begin(self, user_id: str, conversation_id: str, asked: NewFile) -> Begun:
        """Raises NotFound, TooLarge, BadRequest, and RateLimited when the day's bytes are used up."""
        await self.access.authorize(user_id, conversation_id, "write")
        if asked.bytes > self.rules.max_bytes:
            raise TooLarge(f"`bytes`: a file has {self.rules.max_bytes} bytes at most")
        if not any(fnmatchcase(asked.mime.lower(), pattern) for pattern in self.rules.types):
            raise BadRequest(f"`mime`: only {', '.join(self.rules.types)} may be sent here")
        now_ms = self.clock.now_ms()
        file_id = f"f{now_ms:011x}{self.clock.random_id(10)}"  # in the order of their time
        parts = self.files.parts(asked.bytes)
        made = FileRecord(user_id, part_bytes=max(parts[0].size, 1), **msgspec.structs.asdict(asked))
        expires_ms = now_ms + bounds.UPLOAD_S * 1000
        await self._reserve(user_id, put_of(conversation_id, file_id, made, 0, due_ms=expires_ms), asked.bytes)
        try:
            signed = await self._sign(Ticket("write", user_id, conversation_id, file_id, expires_ms), made)
        except StoreError:  # nothing was uploaded, so the day gets its bytes back
            await self._reserve(user_id, Put(of_conversation(conversation_id), COLLECTION, file_id, None), -asked.bytes)
            raise
        return Begun(file_id, list(zip(parts, signed, strict=True)), expires_ms)

    def ticket(self, text: str) -> Ticket:
        """Raises NotFound."""
        return self.tickets.verify(text, "write")

    async def write(self, ticket: Ticket, chunks: AsyncIterator[bytes]) -> None:
        """Take one part. Raises NotFound, BadRequest."""
        value, _ = await self._uploaded(ticket.user_id, ticket.conversation_id, ticket.file_id)
        if value.state != "pending":
            raise BadRequest("this upload is complete")
        part = next(part for part in value.parts if part.start == ticket.start)
        folder = file_folder(await self.archive_id(), ticket.conversation_id, ticket.file_id)
        try:
            await self.files.write(folder, part, chunks)
        except BadSize:
            raise BadRequest(f"this part has {part.size} bytes, from {part.start} to {part.end}") from None

    async def complete(self, user_id: str, conversation_id: str, file_id: str) -> File:
        """Say that all parts are there. Twice is as once. Raises NotFound, BadRequest."""
        await self.access.authorize(user_id, conversation_id, "write")
        value, version = await self._uploaded(user_id, conversation_id, file_id)
        if value.state != "pending":
            return value.facts(file_id)
        folder = file_folder(await self.archive_id(), conversation_id, file_id)
        try:
            await self.files.finish(folder, value.parts, value.mime)
        except Missing:
            raise BadRequest("a part of the file is not there: send it, and complete again") from None
        if value.sha256 is not None:
            gone, now_ms = msgspec.structs.replace(value, state="gone"), self.clock.now_ms()
            await self._check_digest(folder, value, put_of(conversation_id, file_id, gone, version, due_ms=now_ms))
        if value.is_image and value.width is None and self.measure is not None:
            width, height = await self.measure(folder, value) or (None, None)
            value = msgspec.structs.replace(value, width=width, height=height)
        value = msgspec.structs.replace(value, state="complete")
        due_ms = self.clock.now_ms() + bounds.UPLOAD_S * 1000
        try:
            await self.records.put([put_of(conversation_id, file_id, value, version, due_ms=due_ms)])
        except Conflict:
            return (await self._uploaded(user_id, conversation_id, file_id))[0].facts(file_id)
        self.count_bytes("in", value.bytes)
        return value.facts(file_id)

    async def _check_digest(self, folder: str, value: FileRecord, gone: Put) -> None:
        """Raises BadRequest. Bytes that are not those announced go: nobody has them read and hashed again and again."""
        digest = hashlib.sha256()
        async for chunk in self.files.read(folder, value.parts, 0, value.bytes):
            digest.update(chunk)
        if digest.hexdigest() != value.sha256:
            with suppress(Conflict):
                await self.records.put([gone])
            raise BadRequest("`sha256`: the bytes that came have another one; begin a new upload")

    async def _uploaded(self, user_id: str, conversation_id: str, file_id: str) -> tuple[FileRecord, int]:
        """The user's own upload and the version of its record. Raises NotFound."""
        found = (await self.records.get(of_conversation(conversation_id), COLLECTION, [file_id])).get(file_id)
        value = value_of(found) if found is not None else None
        if found is None or value is None or value.user_id != user_id or value.state == "gone":
            raise NotFound("no such upload")
        return value, found.version

    async def _sign(self, ticket: Ticket, value: FileRecord) -> list[Signed]:
        if self.files.is_direct:
            folder = file_folder(await self.archive_id(), ticket.conversation_id, ticket.file_id)
            return await self.files.sign_parts(folder, value.parts, value.mime, expires_s=bounds.UPLOAD_S)
        tickets = [msgspec.structs.replace(ticket, start=part.start) for part in value.parts]
        return [Signed(UPLOAD_PATH + self.tickets.sign(one)) for one in tickets]

    async def _reserve(self, user_id: str, record: Put, size: int) -> None:
        """Put the record and take the bytes from the day, or give them back. Raises RateLimited."""
        for _ in range(bounds.FILE_DAY_TRIES_MAX):
            now_ms = self.clock.now_ms()
            day = str(now_ms // _DAY_MS)
            found = (await self.records.get(of_user(user_id), DAYS, [day])).get(day)
            used = max(_used(found) + size, 0)
            if size > 0 and used > self.rules.per_day_bytes:
                raise RateLimited(
                    f"you have uploaded your {self.rules.per_day_bytes} bytes of today",
                    retry_after_ms=_DAY_MS - now_ms % _DAY_MS,
                    limit=self.rules.per_day_bytes,
                    class_name="upload",
                )
            version = found.version if found is not None else 0
            after_ms = (now_ms // _DAY_MS + 2) * _DAY_MS
            value = msgspec.json.encode(_Day(used))
            try:
                await self.records.put([record, Put(of_user(user_id), DAYS, day, value, version, after_ms)])
                return
            except Conflict:
                continue
        raise StoreUnavailable("too many uploads begin at once")


def _used(found: Record | None) -> int:
    return msgspec.json.decode(found.value, type=_Day).bytes if found is not None else 0
