"""A way to an object store, with a place where requests can be cut. Bytes pass as they come.

A connection is closed after its answer: a store closes one that is idle, perhaps just as the next request comes on it.
On the way to a store that stands for Google's, a request that Google's store does not take is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.azurite import Azurite
from tests.support.servers.moto_server import S3Server

_CHUNK_BYTES = 65_536


class Request(NamedTuple):
    raw: bytes
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", 0))


class StoreFront:
    def __init__(self, target: int) -> None:
        self._target = target
        self.url = ""

    async def talk(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_in, far_out = await asyncio.open_connection("127.0.0.1", self._target)
        answering = asyncio.ensure_future(_copy(far_in, near_out))
        try:
            while (request := await _request_of(near_in)) is not None:
                if self.url.startswith("gs:") and (refusal := refused_by_google(request)):
                    near_out.write(f"HTTP/1.1 {refusal}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
                    await near_out.drain()
                    near_out.close()
                    return
                where = self.where(request)
                if where:
                    answering.cancel()  # before the last byte: the store must not be faster than the cut
                    await asyncio.wait([answering])
                far_out.write(request.raw)
                await _pass(near_in, far_out, request.length // 2 if where == "middle" else request.length)
                if where == "answer":
                    await far_in.read()  # the store has the part: moto fails where it comes again meanwhile
                if where:
                    near_out.transport.abort()
                    return
        except (OSError, asyncio.IncompleteReadError):
            near_out.transport.abort()
        finally:
            answering.cancel()
            far_out.transport.abort()

    def where(self, request: Request) -> str:
        """The place where this request is cut, "middle" or "answer"; nothing: it passes."""
        return ""


F = TypeVar("F", bound=StoreFront)


def refused_by_google(request: Request) -> str:
    """The answer to what S3 takes and Google's store may not, by its documents or by reports; nothing: it is taken."""
    if request.method in ("PUT", "POST") and "content-length" not in request.headers:
        return "411 Length Required"
    if request.method == "POST" and "X-Amz-Signature" in request.query:
        return "403 Forbidden"  # a signed URL makes no POST but one that begins another kind of upload
    if "delete" in request.query or (request.method == "PUT" and "if-none-match" in request.headers):
        return "501 Not Implemented"
    return ""


async def _request_of(reader: asyncio.StreamReader) -> Request | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    kept = [line for line in lines if not line.lower().startswith("connection:")]
    raw = "\r\n".join([first, *kept, "Connection: close", "", ""]).encode("latin-1")
    return Request(raw, method, parts.path, query, headers)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
    while size:
        chunk = await reader.read(min(size, _CHUNK_BYTES))
        if not chunk:
            raise ConnectionResetError
        writer.write(chunk)
        await writer.drain()
        size -= len(chunk)
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def fronted(store: S3Server | Azurite, url: str, kind: type[F]) -> AsyncIterator[F]:
    """The way to the store at `url`. Its own URL is in what this yields."""
    front = kind(store.port)
    server = await asyncio.start_server(front.talk, "127.0.0.1", 0)
    front.url = url.replace(f":{store.port}", f":{server.sockets[0].getsockname()[1]}")
    try:
        yield front
    finally:
        server.close()
