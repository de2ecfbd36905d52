"""Downloads: one `authorize` for every link, and links that live a minute.

A file is shown to whoever may read the message that carries it; before it is sent, to its uploader alone. A link is
made anew each time, so a member who is removed, or a message that is deleted, takes the file away within a minute. Only
images, videos and sounds of known types are shown in the browser. All else is saved, never run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.access import Access, MemberList, seen_by
from tidings.messaging.files.record import COLLECTION, FileRecord, file_folder, value_of
from tidings.messaging.files.tickets import Ticket, Tickets
from tidings.messaging.log import entry_at
from tidings.model import File
from tidings.stores.blobs.folder_files import object_of
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Record, Records, of_conversation

DOWNLOAD_PATH = "/v1/downloads/"
SHOWN = frozenset(
    f"{kind}/{name}"
    for kind, names in {
        "image": ("png", "jpeg", "gif", "webp", "avif", "bmp"),
        "video": ("mp4", "webm", "ogg", "quicktime"),
        "audio": ("mpeg", "mp4", "ogg", "wav", "webm", "aac", "flac"),
    }.items()
    for name in names
)  # never SVG: it is a document that can hold scripts


class FilesPage(msgspec.Struct, frozen=True):
    """Files newest first. `last`: the id of the last one, where there are more."""

    files: list[tuple[File, int, str]]  # the file, the seq_no of its message and its sender
    last: str | None


class Link(msgspec.Struct, frozen=True):
    url: str
    expires_ms: int


class Opened(msgspec.Struct, frozen=True):
    """The bytes of a file, for an answer of this node."""

    name: str
    mime: str
    size: int
    is_download: bool
    read: Callable[[int, int], AsyncIterator[bytes]]

    @property
    def disposition(self) -> str:
        return disposition_of(self.name, self.mime, is_download=self.is_download)


def disposition_of(name: str, mime: str, *, is_download: bool) -> str:
    """The Content-Disposition of a file: a browser shows what is of a safe type, and saves all else."""
    how = "inline" if mime in SHOWN and not is_download else "attachment"
    return f"{how}; filename*=UTF-8''{quote(name, safe='')}"


@dataclass(eq=False, repr=False, kw_only=True)
class Downloads:
    access: Access
    messages: Messages
    records: Records
    files: FileBytes
    tickets: Tickets
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock
    count_bytes: Callable[[str, int], None]

    async def readable(self, user_id: str, conversation_id: str, file_id: str) -> FileRecord:
        """The file, if the user may read it. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        value = await self._value(conversation_id, file_id)
        if value is None or not self._is_visible(value, user_id, member_list):
            raise NotFound("no such file")
        if value.state == "attached":
            entry = await entry_at(self.messages, conversation_id, value.seq_no)
            if entry is None or seen_by(user_id, entry, self.clock.now_ms()).is_deleted:
                raise NotFound("no such file")
        return value

    async def link(self, user_id: str, conversation_id: str, file_id: str, *, is_download: bool) -> Link:
        value = await self.readable(user_id, conversation_id, file_id)
        expires_ms = self.clock.now_ms() + bounds.FILE_LINK_S * 1000
        if self.files.is_direct:
            folder = file_folder(await self.archive_id(), conversation_id, file_id)
            url = await self.files.sign_read(
                object_of(folder, value.parts[0]),
                mime=value.mime,
                disposition=disposition_of(value.name, value.mime, is_download=is_download),
                expires_s=bounds.FILE_LINK_S,
            )
            self.count_bytes("out", value.bytes)
            return Link(url, expires_ms)
        ticket = Ticket("read", user_id, conversation_id, file_id, expires_ms, is_download=is_download)
        return Link(f"{DOWNLOAD_PATH}{self.tickets.sign(ticket)}/{quote(value.name, safe='')}", expires_ms)

    def ticket(self, text: str) -> Ticket:
        """Raises NotFound."""
        return self.tickets.verify(text, "read")

    async def open(self, ticket: Ticket) -> Opened:
        """The bytes that a ticket gives. The file may be gone since the ticket was made. Raises NotFound."""
        value = await self._value(ticket.conversation_id, ticket.file_id)
        if value is None or value.state in ("pending", "gone"):
            raise NotFound("no such file")
        folder = file_folder(await self.archive_id(), ticket.conversation_id, ticket.file_id)

        def read(start: int, end: int) -> AsyncIterator[bytes]:
            self.count_bytes("out", end - start)
            return self.files.read(folder, value.parts, start, end)

        return Opened(value.name, value.mime, value.bytes, ticket.is_download, read)

    async def page(
        self, user_id: str, conversation_id: str, *, kind: str | None, limit: int, before: str = ""
    ) -> FilesPage:
        """The files that were sent and that the user may see, newest first. A page may be short, and even empty, where
        `last` says that there is more."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        found: list[tuple[File, int, str]] = []
        owner, looked_at = of_conversation(conversation_id), 0
        while looked_at < bounds.FILES_LOOKED_MAX:
            page = await self.records.page(owner, COLLECTION, limit=bounds.PAGE_MAX, before=before, newest_first=True)
            for record in page:
                before = record.name
                value = value_of(record)
                if self._is_listed(value, member_list, user_id, kind):
                    found.append((value.facts(record.name), value.seq_no, value.user_id))
                    if len(found) == limit:
                        return FilesPage(found, before)
            if len(page) < bounds.PAGE_MAX:
                return FilesPage(found, None)
            looked_at += len(page)
        return FilesPage(found, before)

    def _is_listed(self, value: FileRecord, member_list: MemberList, user_id: str, kind: str | None) -> bool:
        return (
            value.state == "attached"
            and self._is_visible(value, user_id, member_list)
            and (kind is None or value.is_image == (kind == "image"))
        )

    def _is_visible(self, value: FileRecord, user_id: str, member_list: MemberList) -> bool:
        if value.state == "attached":
            return value.seq_no > member_list.visible_after(user_id) and value.is_shown_to(user_id)
        return value.state == "complete" and value.user_id == user_id

    async def _value(self, conversation_id: str, file_id: str) -> FileRecord | None:
        found: Record | None = (await self.records.get(of_conversation(conversation_id), COLLECTION, [file_id])).get(
            file_id
        )
        return value_of(found) if found is not None else None
