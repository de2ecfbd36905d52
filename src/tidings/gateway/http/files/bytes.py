"""The bytes of files in a folder: parts come in and files go out, a chunk at a time, by signed paths.

A path needs no token, because it is the right itself. An answer is closed in a sandbox: a document in it gets an origin
of its own, runs no script, and reaches nothing of ours. Whatever is not an image, a video or a sound of a known type is
saved and not shown.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from urllib.parse import quote

from tidings.bounds import FILE_STREAMS_MAX, FILE_STREAMS_PER_USER_MAX
from tidings.errors import Missing, NotFound, StoreUnavailable
from tidings.gateway.fairness import PerUser
from tidings.gateway.http.routes import Chunks, Reply, Request, Route
from tidings.messaging.files.downloads import DOWNLOAD_PATH, Downloads, Opened
from tidings.messaging.files.thumbnails import Thumbnails
from tidings.messaging.files.uploads import UPLOAD_PATH, Uploads

_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})\Z")
_SANDBOX = b"sandbox; default-src 'none'; style-src 'unsafe-inline'"
_EVERYBODY = ""  # no user id


class ByteRoutes:
    def __init__(self, uploads: Uploads, downloads: Downloads, thumbnails: Thumbnails) -> None:
        self._thumbnails = thumbnails
        self._uploads = uploads
        self._downloads = downloads
        self._per_user = PerUser(FILE_STREAMS_PER_USER_MAX)
        self._all = PerUser(FILE_STREAMS_MAX)

    def routes(self) -> list[Route]:
        return [
            Route(
                "PUT",
                UPLOAD_PATH + "{ticket}",
                self.write,
                "Send one part of an upload, by the URL that the upload gave",
                access="open",
                is_streamed=True,
                statuses=(204,),
                errors=("not_found", "unavailable"),
            ),
            Route(
                "GET",
                DOWNLOAD_PATH + "{ticket}/{name}",
                self.read,
                "The bytes of a file, by the URL that a redirect gave",
                access="open",
                statuses=(200, 206),
                errors=("not_found", "unavailable"),
            ),
        ]

    async def write(self, request: Request) -> Reply:
        ticket = self._uploads.ticket(request.params[0])
        self._enter(ticket.user_id)
        try:
            await self._uploads.write(ticket, request.body)
        finally:
            self._leave(ticket.user_id)
        return Reply(204)

    async def read(self, request: Request) -> Reply:
        ticket = self._downloads.ticket(request.params[0])
        opened = await (self._thumbnails if ticket.thumbnail else self._downloads).open(ticket)
        start, end = range_of(request, opened.size)
        if start is None:
            return Reply(416, b"", headers=((b"content-range", b"bytes */%d" % opened.size),))
        headers = [*headers_of(opened), (b"accept-ranges", b"bytes")]
        is_part = (start, end) != (0, opened.size)
        if is_part:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, opened.size)))
        read_end = end if request.method != "HEAD" else start
        chunks = await self._started(ticket.user_id, opened.read(start, read_end))
        mime = opened.mime.encode()
        return Reply(206 if is_part else 200, Chunks(end - start, chunks), mime, tuple(headers))

    async def _started(self, user_id: str, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The chunks, once the first one is read: what cannot be read is a problem, and not half an answer."""
        self._enter(user_id)
        try:
            first = await anext(chunks, b"")
        except Missing:
            self._leave(user_id)
            raise NotFound("no such file") from None
        except BaseException:
            self._leave(user_id)
            raise
        return self._counted(user_id, first, chunks)

    async def _counted(self, user_id: str, first: bytes, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            yield first
            async for chunk in chunks:
                yield chunk
        finally:
            self._leave(user_id)

    def _enter(self, user_id: str) -> None:
        """Bound what is under way: each takes a few hundred kilobytes and a place in the queue of the disk."""
        if not self._per_user.enter(user_id):
            raise StoreUnavailable(f"you have {FILE_STREAMS_PER_USER_MAX} files under way: wait for one of them")
        if not self._all.enter(_EVERYBODY):
            self._per_user.leave(user_id)
            raise StoreUnavailable("too many files are under way on this node")

    def _leave(self, user_id: str) -> None:
        self._per_user.leave(user_id)
        self._all.leave(_EVERYBODY)


def headers_of(opened: Opened) -> list[tuple[bytes, bytes]]:
    how = "inline" if opened.is_shown else "attachment"
    return [
        (b"content-disposition", f"{how}; filename*=UTF-8''{quote(opened.name, safe='')}".encode()),
        (b"content-security-policy", _SANDBOX),
        (b"cache-control", b"private, no-store"),
    ]


def range_of(request: Request, size: int) -> tuple[int | None, int]:
    """The bytes that are asked for. (None, 0): the range is outside of the file. A range of another form is ignored."""
    asked = next((value for name, value in request.headers if name == b"range"), b"").decode("latin-1")
    found = _RANGE.match(asked)
    if found is None or found[1] == found[2] == "":
        return 0, size
    if not found[1]:
        start, end = max(size - int(found[2]), 0), size
    else:
        start, end = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    return (start, end) if start < end else (None, 0)
