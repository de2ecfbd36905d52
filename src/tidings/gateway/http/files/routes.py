"""Routes of files: announce an upload, complete it, get a link, list the files of a conversation."""

from __future__ import annotations

from tidings.bounds import PAGE_MAX
from tidings.cursors import cursor_of, place_at
from tidings.errors import BadRequest
from tidings.gateway.encode import file_of
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.ids import is_message_id
from tidings.messaging.files.downloads import Downloads, Link
from tidings.messaging.files.thumbnails import Thumbnails
from tidings.messaging.files.uploads import NewFile, Uploads
from tidings.messaging.limits.limiter import Limiter
from tidings.protocol.bodies import FileBody
from tidings.protocol.file_bodies import (
    FileQuery,
    FilesBody,
    FilesQuery,
    LinkBody,
    NewUpload,
    PartBody,
    SentFileBody,
    ThumbnailQuery,
    UploadBody,
)

_CONVERSATION = "/v1/conversations/{conversation_id}"
_UPLOADS = _CONVERSATION + "/uploads"
_FILES = _CONVERSATION + "/files"


class FileRoutes:
    def __init__(self, uploads: Uploads, downloads: Downloads, thumbnails: Thumbnails, limiter: Limiter) -> None:
        self._thumbnails = thumbnails
        self._uploads = uploads
        self._downloads = downloads
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                _UPLOADS,
                self.begin,
                "Announce a file; the answer says where its parts go",
                body=NewUpload,
                answer=UploadBody,
                statuses=(201,),
                errors=("not_found", "too_large"),
            ),
            Route(
                "POST",
                _UPLOADS + "/{file_id}/complete",
                self.complete,
                "Say that all parts are there; the file can be sent now",
                answer=FileBody,
                errors=("not_found",),
            ),
            Route(
                "GET",
                _FILES,
                self.page,
                "The files of a conversation, newest first",
                query=FilesQuery,
                answer=FilesBody,
                errors=("bad_cursor", "not_found"),
            ),
            Route(
                "GET",
                _FILES + "/{file_id}",
                self.link,
                "A file: a redirect to a URL that lives a minute",
                query=FileQuery,
                answer=LinkBody,
                statuses=(302, 200),
                errors=("not_found",),
            ),
            Route(
                "GET",
                _FILES + "/{file_id}/thumbnail",
                self.thumbnail,
                "A small WebP of a picture: a redirect to a URL that lives a minute",
                query=ThumbnailQuery,
                answer=LinkBody,
                statuses=(302, 200),
                errors=("not_found",),
            ),
        ]

    async def begin(self, request: Request) -> Reply:
        asked: NewUpload = request.body
        if request.caller.role is None:
            await self._limiter.admit("upload", request.user_id)
        new = NewFile(*(getattr(asked, name) for name in NewFile.__struct_fields__))
        begun = await self._uploads.begin(request.user_id, request.id(), new)
        parts = [PartBody("PUT", one.url, one.headers, part.start, part.end) for part, one in begun.parts]
        return Reply(201, UploadBody(begun.file_id, parts, begun.expires_ms))

    async def complete(self, request: Request) -> Reply:
        file = await self._uploads.complete(request.user_id, request.id(), file_id_of(request))
        return Reply(200, file_of(file))

    async def page(self, request: Request) -> Reply:
        query: FilesQuery = request.query
        page = await self._downloads.page(
            request.user_id,
            request.id(),
            kind=query.kind,
            limit=min(query.limit, PAGE_MAX),
            before=place_at(query.cursor, str) if query.cursor else "",
        )
        files = [
            SentFileBody(
                file.file_id,
                file.name,
                file.mime,
                file.bytes,
                file.width,
                file.height,
                file.blurhash,
                seq=seq_no,
                sender_id=sender_id,
            )
            for file, seq_no, sender_id in page.files
        ]
        return Reply(200, FilesBody(files, cursor_of(page.last)))

    async def thumbnail(self, request: Request) -> Reply:
        query: ThumbnailQuery = request.query
        link = await self._thumbnails.link(request.user_id, request.id(), file_id_of(request), query.size)
        return reply_of_link(link, is_redirect=not query.link)

    async def link(self, request: Request) -> Reply:
        query: FileQuery = request.query
        link = await self._downloads.link(
            request.user_id, request.id(), file_id_of(request), is_download=bool(query.download)
        )
        return reply_of_link(link, is_redirect=not query.link)


def file_id_of(request: Request) -> str:
    text = request.params[1]
    if not is_message_id(text):
        raise BadRequest(f"`{text[:40]}` in the path is not a file_id")
    return text


def reply_of_link(link: Link, *, is_redirect: bool) -> Reply:
    if is_redirect:
        return Reply(302, headers=((b"location", link.url.encode()),))
    return Reply(200, LinkBody(link.url, link.expires_ms))
