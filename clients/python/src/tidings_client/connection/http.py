"""HTTP/1.1 with what Python itself has: requests to a node and to the store of its files, over connections kept open.

A connection is used again only after a whole answer whose end is certain, and if nothing has come since. A request is
never repeated here: rest.py and files.py know which may be. Everything that the network does is raised as
`Disconnected`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from email.message import Message
from http.client import HTTPException, parse_headers
from io import BytesIO
from typing import TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from tidings_client.bounds import CHUNK_BYTES, HTTP_ANSWER_BYTES_MAX, HTTP_CONNECTIONS_MAX, HTTP_IDLE_S, REST_S
from tidings_client.connection.addresses import rest_url
from tidings_client.connection.dialing import Streams, dial, host_of, is_secure, proxy_headers, proxy_of, tls_context
from tidings_client.errors import BadRequest, Disconnected

T = TypeVar("T")
Content = bytes | AsyncIterator[bytes]
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?\r\n")
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_IN_A_URL = "%/?:@!$&'()*+,;=-._~"


class Answer:
    """The status and the headers of an answer; the body is read from the connection by `chunks`, once."""

    def __init__(self, status: int, headers: Message, chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks
        self.content = b""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Http:
    """The connections to one node, and to the hosts that keep its files."""

    def __init__(self, url: str) -> None:
        self._origin = rest_url(url).rstrip("/")
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._room = asyncio.Semaphore(HTTP_CONNECTIONS_MAX)
        self._tls: ssl.SSLContext | None = None
        self.is_closed = False

    def address(self, url: str) -> str:
        """Make the whole URL of what a node names: a path of its own, or a URL of the store."""
        return url if "://" in url else self._origin + url

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        content: Content = b"",
        quiet_s: float = REST_S,
    ) -> Answer:
        """Make a request and read its whole answer. Raises Disconnected."""
        url = f"{url}?{urlencode(query)}" if query else url
        async with self.stream(method, url, headers=headers, content=content, quiet_s=quiet_s) as answer:
            answer.content = await _whole(answer.chunks)
        return answer

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, headers: Mapping[str, str], content: Content = b"", quiet_s: float = REST_S
    ) -> AsyncIterator[Answer]:
        """Make a request and read its answer piece by piece. `quiet_s` is the longest silence of the other side."""
        parts = _parts(self.address(url))
        async with self._room:
            connection = await self._connection(parts, quiet_s)
            try:
                yield await connection.exchange(method, parts, headers, content, quiet_s)
            finally:
                self._release(connection)

    async def close(self) -> None:
        self.is_closed = True
        for connection in list(self._all):
            connection.cut()

    async def _connection(self, parts: SplitResult, quiet_s: float) -> _Connection:
        if self.is_closed:
            raise Disconnected("the client was closed")
        origin = (parts.scheme, host_of(parts))
        while found := next((one for one in self._idle if one.origin == origin), None):
            self._idle.remove(found)
            if found.is_alive:
                return found
            self._drop(found)
        with _network(quiet_s):
            async with asyncio.timeout(quiet_s):
                made = await self._dial(parts, origin)
        self._all.add(made)
        return made

    async def _dial(self, parts: SplitResult, origin: tuple[str, str]) -> _Connection:
        proxy = proxy_of(parts)
        if self._tls is None and (is_secure(parts) or (proxy is not None and is_secure(proxy))):
            self._tls = await tls_context()
        if proxy is not None and not is_secure(parts):  # the proxy itself makes the request
            return _Connection(origin, await dial(proxy, self._tls if is_secure(proxy) else None), proxy)
        return _Connection(origin, await dial(parts, self._tls if is_secure(parts) else None, proxy))

    def _release(self, connection: _Connection) -> None:
        if not connection.is_reusable or self.is_closed:
            self._drop(connection)
            return
        self._idle.append(connection)
        asyncio.get_running_loop().call_later(HTTP_IDLE_S, self._expire, connection, connection.used_count)

    def _expire(self, connection: _Connection, used_count: int) -> None:
        if connection in self._idle and connection.used_count == used_count:
            self._idle.remove(connection)
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.cut()


class _Connection:
    """One connection: it carries one exchange at a time."""

    def __init__(self, origin: tuple[str, str], streams: Streams, forwarder: SplitResult | None = None) -> None:
        self.origin = origin
        self.is_reusable = False
        self.used_count = 0
        self._reader, self._writer = streams
        self._forwarder = forwarder  # a proxy that is told the whole URL

    @property
    def is_alive(self) -> bool:
        """Whether it can carry another request. Bytes that nobody asked for would be taken for its answer."""
        return not (self._writer.transport.is_closing() or _has_input(self._reader))

    def cut(self) -> None:
        self._writer.transport.abort()

    async def exchange(
        self, method: str, parts: SplitResult, headers: Mapping[str, str], content: Content, quiet_s: float
    ) -> Answer:
        self.is_reusable = False
        self.used_count += 1
        head = self._head(method, parts, headers, content)
        if isinstance(content, bytes):
            with _network(quiet_s):
                self._writer.write(head + content)
                status, is_kept, fields = await _quiet(self._answered(), quiet_s)
        else:
            self._writer.write(head)
            status, is_kept, fields = await self._send(content, quiet_s)
        return Answer(status, fields, self._chunks(status, is_kept, fields, quiet_s))

    def _head(self, method: str, parts: SplitResult, headers: Mapping[str, str], content: Content) -> bytes:
        path = quote(parts.path or "/", safe=_IN_A_URL) + (f"?{quote(parts.query, _IN_A_URL)}" if parts.query else "")
        sent = {"Host": host_of(parts), "Accept-Encoding": "identity", "User-Agent": "tidings-client", **headers}
        if isinstance(content, bytes) and (content or method not in ("GET", "DELETE")):
            sent["Content-Length"] = str(len(content))
        if self._forwarder is not None:
            path = f"{parts.scheme}://{host_of(parts)}{path}"
            sent |= proxy_headers(self._forwarder)
        lines = [f"{name}: {value}" for name, value in sent.items()]
        if not all(line.isascii() and line.isprintable() for line in lines):
            raise BadRequest("a header has a character that no header can carry; perhaps a line end")
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    async def _send(self, content: AsyncIterator[bytes], quiet_s: float) -> tuple[int, bool, Message]:
        """Send the content while the answer is awaited: a refusal may precede the end of a large content."""
        answered = asyncio.ensure_future(self._answered())
        sending = asyncio.ensure_future(self._pour(content, quiet_s))
        try:
            await asyncio.wait((answered, sending), return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                await sending
            with _network(quiet_s):
                status, is_kept, fields = await _quiet(answered, quiet_s)
            is_sent = sending.done() and sending.exception() is None
            return status, is_kept and is_sent, fields
        finally:
            sending.cancel()
            answered.cancel()
            await asyncio.gather(answered, sending, return_exceptions=True)

    async def _pour(self, content: AsyncIterator[bytes], quiet_s: float) -> None:
        async for chunk in content:
            with _network(quiet_s):
                self._writer.write(chunk)
                await _quiet(self._writer.drain(), quiet_s)

    async def _answered(self) -> tuple[int, bool, Message]:
        """Read a head: the status, whether the connection stays open, and the headers."""
        while True:
            head = await self._reader.readuntil(b"\r\n\r\n")
            if (found := _STATUS.match(head)) is None:
                raise HTTPException("the answer is no HTTP")
            fields = parse_headers(BytesIO(head[found.end() :]))
            status = int(found[2])
            if status >= 200:
                said = ",".join(fields.get_all("Connection") or ()).lower()
                return status, found[1] == b"1" and "close" not in said, fields

    async def _chunks(self, status: int, is_kept: bool, fields: Message, quiet_s: float) -> AsyncIterator[bytes]:
        codings, lengths = fields.get_all("Transfer-Encoding"), set(fields.get_all("Content-Length") or ())
        with _network(quiet_s):
            if status in (204, 304):
                pass
            elif codings is not None:
                if [one.strip().lower() for one in codings] != ["chunked"] or lengths:
                    raise HTTPException("the length of the answer is not certain")
                while size := await self._chunk_size(quiet_s):
                    async for chunk in self._exactly(size, quiet_s):
                        yield chunk
                    if await _quiet(self._reader.readexactly(2), quiet_s) != b"\r\n":
                        raise HTTPException("the length of the answer is not certain")
                await self._skip_trailers(quiet_s)
            elif lengths:
                async for chunk in self._exactly(_length(lengths), quiet_s):
                    yield chunk
            else:
                is_kept = False
                while chunk := await _quiet(self._reader.read(CHUNK_BYTES), quiet_s):
                    yield chunk
        self.is_reusable = is_kept

    async def _chunk_size(self, quiet_s: float) -> int:
        if (found := _CHUNK_SIZE.fullmatch(await _quiet(self._reader.readuntil(b"\r\n"), quiet_s))) is None:
            raise HTTPException("the length of the answer is not certain")
        return int(found[1], 16)

    async def _skip_trailers(self, quiet_s: float) -> None:
        left = CHUNK_BYTES
        while (line := await _quiet(self._reader.readuntil(b"\r\n"), quiet_s)) != b"\r\n":
            left -= len(line)
            if left < 0:
                raise HTTPException("the trailers of the answer are too long")

    async def _exactly(self, size: int, quiet_s: float) -> AsyncIterator[bytes]:
        while size:
            chunk = await _quiet(self._reader.read(min(CHUNK_BYTES, size)), quiet_s)
            if not chunk:
                raise EOFError("the answer ended early")
            size -= len(chunk)
            yield chunk


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host_of(parts)
    except (ValueError, KeyError) as error:
        raise BadRequest(f"not a URL: {error}") from None
    return parts


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > HTTP_ANSWER_BYTES_MAX:
            raise Disconnected(f"the answer is longer than {HTTP_ANSWER_BYTES_MAX} bytes")
    return bytes(content)


def _length(lengths: set[str]) -> int:
    (said,) = lengths if len(lengths) == 1 else ("",)
    if not _LENGTH.fullmatch(said.strip()):
        raise HTTPException("the length of the answer is not certain")
    return int(said)


def _has_input(reader: asyncio.StreamReader) -> bool:
    """Whether bytes or the end have come: then a read ends at its first step. asyncio has no other way to ask."""
    reading = reader.read(1)
    try:
        reading.send(None)
    except (StopIteration, OSError):
        return True
    reading.close()
    return False


async def _quiet(awaited: Awaitable[T], quiet_s: float) -> T:
    async with asyncio.timeout(quiet_s):
        return await awaited


@contextmanager
def _network(quiet_s: float) -> Iterator[None]:
    """Raise what the network does as Disconnected."""
    try:
        yield
    except Disconnected:
        raise
    except TimeoutError as error:
        raise Disconnected(str(error) or f"silent for {quiet_s:g} s") from None
    except (OSError, EOFError, asyncio.LimitOverrunError, HTTPException) as error:
        raise Disconnected(str(error) or type(error).__name__) from None
