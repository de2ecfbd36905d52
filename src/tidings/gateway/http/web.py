"""Routes of the pages and the JavaScript client: the files of web/ and its folders, kept in memory.

All files are read once, at the start. A path names an entry of that table and never a file, so no path leads out of
web/. A browser keeps its copy and asks with the ETag whether it is current, so an upgrade shows at once. The page
itself is one script and one style sheet, whose names contain their content's hash: a browser never asks for them twice.
Scripts and styles come from this server alone. web/sdk/ is the source of clients/js: a link in the repository, a folder
in the wheel.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from tidings.errors import NotFound, StoreError
from tidings.gateway.http.page.assets import packed
from tidings.gateway.http.pictures import Pictures
from tidings.gateway.http.routes import Reply, Request, Routes, route

CONTENT_TYPES = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "ts": b"text/plain; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "ico": b"image/x-icon",
    "webmanifest": b"application/manifest+json",
}
# Pictures of people come from hosts that the operator lists, and files from the bucket, where the page exchanges them
# with it. Everything else is ours. No page may embed this one.
PAGE_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob: {pictures}{files}; "
    "connect-src 'self'{files}; media-src 'self' blob:{files}; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types tidings-worker"
)
_MISSING = ("not_found",)
_STATUSES = (200, 304)  # 304: the browser has it
_NO_CHANGES = (b"cache-control", b"no-cache")  # a browser keeps the file, but asks each time
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
_VARIES = (b"vary", b"accept-encoding")
_WORTH_PACKING_BYTES = 1024  # a smaller file fits into one packet anyway
_PACKABLE = (b"text/", b"image/svg", b"application/")


Origin = Callable[[], Awaitable[str]]


class WebFile(msgspec.Struct, frozen=True):
    content: bytes
    content_type: bytes
    etag: bytes


class WebRoutes(Routes):
    def __init__(self, pictures: Pictures, login_url: str | None = None, files_origin: Origin | None = None) -> None:
        """`files_origin`: the place with which the page exchanges files, if it is not this server."""
        self._files_origin = files_origin
        self._pictures = pictures
        self._files = read_files()
        page = packed({name: one.content for name, one in self._files.items()}, login_url)
        self._assets = {name: _web_file(name, content) for name, content in page.assets.items()}
        self._page = _web_file("index.html", page.index)
        self._gzipped: dict[bytes, bytes] = {}  # by ETag, made when first asked for
        self._csp: bytes | None = None  # known when the store of files has signed something

    @route("GET", "/assets/{name}", "open", errors=_MISSING)
    async def asset(self, request: Request) -> Reply:
        """Get a file of the pages, by the hash in its name."""
        name = request.params[0]
        if name in self._assets:
            return self._answer(self._assets[name], request, (_FOR_EVER,))
        found = self._found(name)
        return Reply(200, found.content, found.content_type)

    @route("GET", "/", "open", statuses=_STATUSES)
    async def index(self, request: Request) -> Reply:
        """Show the page."""
        return self._answer(self._page, request, (_NO_CHANGES, await self._policy()))

    @route("GET", "/worker.js", "open", statuses=_STATUSES)
    async def worker(self, request: Request) -> Reply:
        """Get the service worker of the page."""
        return await self._reply("app/worker.js", request)

    @route("GET", "/admin", "open", statuses=_STATUSES)
    async def admin(self, request: Request) -> Reply:
        """Show the page for operators."""
        return await self._reply("admin/index.html", request)

    @route("GET", "/web/{name}", "open", statuses=_STATUSES, errors=_MISSING)
    @route("GET", "/web/{folder}/{name}", "open", statuses=_STATUSES, errors=_MISSING)
    @route("GET", "/web/{folder}/{room}/{name}", "open", statuses=_STATUSES, errors=_MISSING)
    async def file(self, request: Request) -> Reply:
        """Get a file of the page."""
        return await self._reply("/".join(request.params), request)

    @route("GET", "/sdk/{name}", "open", statuses=_STATUSES, errors=_MISSING)
    async def sdk(self, request: Request) -> Reply:
        """Get a file of the JavaScript client."""
        return await self._reply(f"sdk/{request.params[0]}", request)

    async def _policy(self) -> tuple[bytes, bytes]:
        if self._csp is not None:
            return (b"content-security-policy", self._csp)
        origin, is_known = "", True
        try:
            origin = await self._files_origin() if self._files_origin is not None else ""
        except StoreError:
            is_known = False  # the page works without files; the next request asks again
        made = PAGE_CSP.format(pictures=self._pictures.sources, files=f" {origin}" if origin else "").encode()
        self._csp = made if is_known else None
        return (b"content-security-policy", made)

    def _found(self, name: str) -> WebFile:
        if name not in self._files:
            raise NotFound("no file has this name")
        return self._files[name]

    async def _reply(self, name: str, request: Request) -> Reply:
        policy = (await self._policy(),) if name.endswith(".html") else ()
        return self._answer(self._found(name), request, (_NO_CHANGES, *policy))

    def _answer(self, found: WebFile, request: Request, more: tuple[tuple[bytes, bytes], ...]) -> Reply:
        headers = ((b"etag", found.etag), _VARIES, *more)
        if _is_known(request, found.etag):
            return Reply(304, headers=headers)
        if not _is_packable(found) or not _takes_gzip(request):
            return Reply(200, found.content, found.content_type, headers)
        if found.etag not in self._gzipped:
            self._gzipped[found.etag] = gzip.compress(found.content, mtime=0)
        gzipped = (b"content-encoding", b"gzip")
        return Reply(200, self._gzipped[found.etag], found.content_type, (*headers, gzipped))


def _is_packable(found: WebFile) -> bool:
    return len(found.content) >= _WORTH_PACKING_BYTES and found.content_type.startswith(_PACKABLE)


def _takes_gzip(request: Request) -> bool:
    taken = b",".join(value for name, value in request.headers if name == b"accept-encoding")
    return any(one.strip() == b"gzip" for one in taken.split(b","))


def _is_known(request: Request, etag: bytes) -> bool:
    """Whether the browser has this content. A proxy may have made the tag weak."""
    known = b",".join(value for name, value in request.headers if name == b"if-none-match")
    return etag in {one.strip().removeprefix(b"W/") for one in known.split(b",")}


def read_files() -> dict[str, WebFile]:
    """The files by their path below web/. Hidden files and those without a known type are not served."""
    return {name: _web_file(name, entry.read_bytes()) for name, entry in _walk(files("tidings") / "web", "")}


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{above}{entry.name}/")
        elif _ending(entry.name) in CONTENT_TYPES:
            yield above + entry.name, entry


def _web_file(name: str, content: bytes) -> WebFile:
    return WebFile(content, CONTENT_TYPES[_ending(name)], b'"%b"' % sha256(content).hexdigest()[:32].encode())


def _ending(name: str) -> str:
    return name.rpartition(".")[2]
