"""The bytes of files in a folder: parts come in and files go out, a chunk at a time, by signed paths.

A path needs no token, because it is the right itself. An answer is closed in a sandbox: a document in it gets an origin
of its own, runs no script, and reaches nothing of ours. The browser shows images, videos and sounds of known types, and
saves all other files.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator

from tidings.bounds import FILE_STREAMS_MAX, FILE_STREAMS_PER_USER_MAX
from tidings.errors import Missing, NotFound
from tidings.gateway.fairness import UnderWay
from tidings.gateway.http.routes import Chunks, Reply, Request, Routes, route
from tidings.messaging.files.downloads import DOWNLOAD_PATH, Downloads, Opened
from tidings.messaging.files.thumbnails import Thumbnails
from tidings.messaging.files.uploads import UPLOAD_PATH, Uploads

_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})\Z")
_SANDBOX = b"sandbox; default-src 'none'; style-src 'unsafe-inline'"


class ByteRoutes(Routes):
    def __init__(self, uploads: Uploads, downloads: Downloads, thumbnails: Thumbnails) -> None:
        self._thumbnails = thumbnails
        self._uploads = uploads
        self._downloads = downloads
        # Each takes a few hundred kilobytes and a place in the queue of the disk.
        self._under_way = UnderWay("files", FILE_STREAMS_PER_USER_MAX, FILE_STREAMS_MAX)

    @route(
        "PUT",
        UPLOAD_PATH + "{ticket}",
        access="open",
        is_streamed=True,
        statuses=(204,),
        errors=("not_found", "unavailable"),
    )
    async def write(self, request: Request) -> Reply:
        """Send one part of an upload, by the URL that the upload gave."""
        ticket = self._uploads.ticket(request.params[0])
        self._under_way.enter(ticket.user_id)
        try:
            await self._uploads.write(ticket, request.body)
        finally:
            self._under_way.leave(ticket.user_id)
        return Reply(204)

    @route(
        "GET",
        DOWNLOAD_PATH + "{ticket}/{name}",
        access="open",
        statuses=(200, 206),
        errors=("not_found", "unavailable"),
    )
    async def read(self, request: Request) -> Reply:
        """Get the bytes of a file, by the URL that a redirect gave."""
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
        """Return the chunks after the first one was read, so that a file that cannot be read is an error and not half
        an answer."""
        self._under_way.enter(user_id)
        try:
            first = await anext(chunks, b"")
        except Missing:
            self._under_way.leave(user_id)
            raise NotFound("no such file") from None
        except BaseException:
            self._under_way.leave(user_id)
            raise
        return self._under_way.until_end(user_id, _joined(first, chunks))


async def _joined(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


def headers_of(opened: Opened) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-disposition", opened.disposition.encode()),
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
