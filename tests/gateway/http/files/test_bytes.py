from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.sharing import PIXEL, Sharing, sharing
from tidings import bounds
from tidings.bounds import FILE_PART_BYTES


@pytest.fixture
async def shared() -> AsyncIterator[Sharing]:
    async with sharing() as made:
        yield made


@pytest.mark.parametrize(
    ("asked", "status", "start", "end"),
    [
        ("bytes=0-0", 206, 0, 1),
        ("bytes=5-", 206, 5, None),
        ("bytes=-3", 206, -3, None),
        (f"bytes={FILE_PART_BYTES - 2}-{FILE_PART_BYTES + 2}", 206, FILE_PART_BYTES - 2, FILE_PART_BYTES + 3),
        ("bytes=0-99999999999", 200, 0, None),
        ("bytes=-", 200, 0, None),
        ("lines=1-2", 200, 0, None),
        ("bytes=99999999-", 416, 0, 0),
    ],
)
async def test_a_reader_gets_the_range_that_it_asks_for(
    shared: Sharing, asked: str, status: int, start: int, end: int | None
) -> None:
    data = os.urandom(FILE_PART_BYTES + 100)
    file_id = await shared.upload(data)
    _, link = await shared.ask("GET", f"/files/{file_id}?link=1")
    answer = await shared.http.get(link["url"], headers={"Range": asked})
    assert (answer.status_code, answer.content) == (status, data[start:end])


async def test_a_head_has_the_size_and_no_bytes(shared: Sharing) -> None:
    file_id = await shared.upload()
    _, link = await shared.ask("GET", f"/files/{file_id}?link=1")
    answer = await shared.http.head(link["url"])
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, str(len(PIXEL)), b"")


async def test_a_path_that_nobody_signed_is_not_there(shared: Sharing) -> None:
    assert (await shared.http.get("/v1/downloads/abc/photo.png")).status_code == 404
    assert (await shared.http.put("/v1/uploads/abc", content=b"x")).status_code == 404


async def test_a_slow_upload_is_not_cut_while_bytes_come(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = await shared.begin(PIXEL)
    server, clock = shared.node.node.gateway, shared.core.clock
    now_s, ahead_s = clock.monotonic_s, 0.0
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s() + ahead_s, raising=False)

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal ahead_s
        for at in range(len(PIXEL)):
            yield PIXEL[at : at + 1]
            if at in (20, 40):
                await asyncio.sleep(0.2)  # the byte arrives before the clock is moved
                ahead_s += bounds.HANDSHAKE_S - 1
                server.sweep()

    headers = {"Content-Length": str(len(PIXEL))}
    answer = await shared.http.put(begun["parts"][0]["url"], content=slowly(), headers=headers)
    assert answer.status_code == 204


async def test_the_files_of_one_user_under_way_are_bounded(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(12_000_000)
    file_id = await shared.upload(data)
    _, link = await shared.ask("GET", f"/files/{file_id}?link=1")

    async def hold() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # it reads next to nothing
        own.connect(("127.0.0.1", shared.node.port))
        reader, writer = await asyncio.open_connection(sock=own, limit=1024)
        writer.write(f"GET {link['url']} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    held = [await hold() for _ in range(bounds.FILE_STREAMS_PER_USER_MAX)]
    answer = await shared.http.get(link["url"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    for _, writer in held:
        writer.transport.abort()
    async with asyncio.timeout(60):
        while (await shared.http.get(link["url"])).status_code != 200:
            await asyncio.sleep(0.01)
