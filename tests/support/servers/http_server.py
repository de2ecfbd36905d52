"""A small HTTP server for tests: a function answers each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple


class Heard(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: str


Answers = Callable[[Heard], tuple[int, str]]


@asynccontextmanager
async def serve(answers: Answers) -> AsyncIterator[str]:
    """The URL, with a slash at its end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                status, text = answers(await _heard(reader))
                raw = text.encode()
                writer.write(f"HTTP/1.1 {status} -\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def _heard(reader: asyncio.StreamReader) -> Heard:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    method, target, _ = first.split()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(method, target, headers, body.decode())
