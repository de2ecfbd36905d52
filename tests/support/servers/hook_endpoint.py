"""An endpoint of a webhook: it hears what is posted, and answers as the test says."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple


class Posted(NamedTuple):
    key: str  # the Idempotency-Key
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def seqs(self) -> list[int]:
        return [entry["seq"] for entry in self.body["entries"]]

    def is_signed_with(self, secret: str) -> bool:
        at, _, mac = self.headers["tidings-signature"].removeprefix("t=").partition(",v1=")
        expected = hmac.new(secret.encode(), f"{at}.".encode() + self.raw, hashlib.sha256).hexdigest()
        return hmac.compare_digest(mac, expected)


class Endpoint:
    def __init__(self) -> None:
        self.posts: list[Posted] = []
        self.status: int | Callable[[Posted], int] = 200
        self.answer: str | Callable[[Posted], str] = ""
        self.gate: asyncio.Event | None = None  # answers wait for it
        self.gated: Callable[[Posted], bool] = lambda post: True  # of all posts, these wait
        self.port = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Down: nobody listens. `open` comes back on the same port."""
        assert self._server is not None
        self._server.close()

    def taken(self, conversation_id: str) -> list[int]:
        """The seqs of a conversation in the order in which they first came."""
        found: list[int] = []
        for post in self.posts:
            if post.body["conversation_id"] == conversation_id:
                found += [seq for seq in post.seqs if seq not in found]
        return found

    async def until(self, is_so: Callable[[], object], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not is_so():
                await asyncio.sleep(0.01)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")[1:]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)}
                raw = await reader.readexactly(int(headers["content-length"]))
                post = Posted(headers.get("idempotency-key", ""), headers, raw)
                self.posts.append(post)
                if self.gate is not None and self.gated(post):
                    await self.gate.wait()
                status = self.status(post) if callable(self.status) else self.status
                said = (self.answer(post) if callable(self.answer) else self.answer).encode()
                writer.write(f"HTTP/1.1 {status} -\r\ncontent-length: {len(said)}\r\n\r\n".encode() + said)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def open_endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    await endpoint.open()
    try:
        yield endpoint
    finally:
        endpoint.close()
