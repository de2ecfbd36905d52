"""HTTP/1.1 over kept connections: what the protocols of AWS need and no more.

One request at a time per link, links used again newest first, each exchange with a deadline. A failure says whether
anything was sent: only then can the request have been carried out. Measured against DynamoDB Local, a call through
here costs less than half of the CPU of a general client. client.py posts through a `Pool`; credentials use
`fetch`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from tidings.clock import Clock
from tidings.stores.aws import bounds


class HttpFailed(Exception):
    """No answer. `is_sent`: the request may have reached the server all the same."""

    def __init__(self, message: str, *, is_sent: bool) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class Answer(NamedTuple):
    status: int
    body: bytes


class Origin(NamedTuple):
    """The address of the server."""

    host: str
    port: int
    is_tls: bool

    @property
    def authority(self) -> str:
        """The value of the Host header, which is signed too."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def origin_of(url: str) -> Origin:
    """Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an endpoint is http://host:port or https://host")
    is_tls = parts.scheme == "https"
    return Origin(parts.hostname, parts.port or (443 if is_tls else 80), is_tls)


class Link(asyncio.Protocol):
    """One connection. The parser calls the on_ methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []
        self.is_open = True
        self.used_s = 0.0  # when it last was, by the monotonic clock

    async def exchange(self, request: bytes) -> Answer:
        assert self._transport is not None and self._waiter is None
        if not self.is_open:
            raise ConnectionResetError("the connection was closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def abort(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by what it does, not by its class

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"not an HTTP answer: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._fail(ConnectionResetError("the connection was closed"))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        answer = Answer(self._parser.get_status_code(), b"".join(self._body))
        self._body = []
        if not self._parser.should_keep_alive():
            self.is_open = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Pool:
    """Links to one origin."""

    def __init__(self, origin: Origin, clock: Clock, links_max: int) -> None:
        self.origin = origin
        self._clock = clock
        self._tls = ssl.create_default_context() if origin.is_tls else None
        self._places = asyncio.Semaphore(links_max)
        self._idle: list[Link] = []

    @property
    def place(self) -> asyncio.Semaphore:
        """A place that the caller holds during an exchange. No deadline counts the wait for a place."""
        return self._places

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """Raises HttpFailed."""
        is_sent = False
        try:
            async with asyncio.timeout(timeout_s):
                link = self._take() or await self._connect()
                is_sent = True
                try:
                    answer = await link.exchange(request)
                except BaseException:
                    link.abort()  # an answer that still comes must not be taken for the next one's
                    raise
                self._give_back(link)
                return answer
        except TimeoutError as error:
            raise HttpFailed(f"{self.origin.authority} did not answer in time", is_sent=is_sent) from error
        except OSError as error:
            raise HttpFailed(f"{self.origin.authority}: {error.strerror or error}", is_sent=is_sent) from error

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _take(self) -> Link | None:
        """Take the link that was used last, so that the others become idle and can be closed."""
        oldest_s = self._clock.monotonic_s() - bounds.IDLE_S
        while self._idle:
            link = self._idle.pop()
            if link.is_open and link.used_s > oldest_s:
                return link
            link.abort()
        return None

    def _give_back(self, link: Link) -> None:
        if link.is_open:
            link.used_s = self._clock.monotonic_s()
            self._idle.append(link)
        else:
            link.abort()

    async def _connect(self) -> Link:
        host, port, _ = self.origin
        _, link = await asyncio.get_running_loop().create_connection(Link, host, port, ssl=self._tls)
        return link


async def fetch(
    method: str, url: str, headers: Mapping[str, str], body: bytes, *, clock: Clock, timeout_s: float
) -> Answer:
    """One request on a link of its own; raises HttpFailed."""
    pool, parts = Pool(origin_of(url), clock, 1), urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {pool.origin.authority}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    assert not any("\n" in line or "\r" in line for line in lines)
    try:
        return await pool.exchange("\r\n".join([*lines, "", ""]).encode("latin-1") + body, timeout_s)
    finally:
        pool.close()
