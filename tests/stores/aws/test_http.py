"""HTTP over kept links: reuse, deadlines, and the truth about what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from tidings.clock import Clock
from tidings.stores.aws.http import Answer, HttpFailed, Origin, Pool, fetch, origin_of
from tidings_proof.world.ports import free_port

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
Reply = Callable[[int], Awaitable[bytes | None]]  # the number of the request; None: the connection is closed


class Served:
    def __init__(self, port: int) -> None:
        self.origin = Origin("127.0.0.1", port, False)
        self.connections = 0
        self.requests: list[bytes] = []


@asynccontextmanager
async def serve(reply: Reply) -> AsyncIterator[Served]:
    served = Served(0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                served.requests.append(head)
                answer = await reply(len(served.requests))
                if answer is None:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    served.origin = Origin("127.0.0.1", server.sockets[0].getsockname()[1], False)
    try:
        yield served
    finally:
        server.close()


def answer(body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body


async def numbered(number: int) -> bytes:
    return answer(b"%d" % number)


@asynccontextmanager
async def pooled(origin: Origin, links_max: int = 8) -> AsyncIterator[Pool]:
    pool = Pool(origin, Clock(), links_max)
    try:
        yield pool
    finally:
        pool.close()


async def test_one_link_serves_requests_one_after_the_other() -> None:
    async with serve(numbered) as served, pooled(served.origin) as pool:
        answers = [await pool.exchange(REQUEST, 5) for _ in range(3)]
        assert answers == [Answer(200, b"1"), Answer(200, b"2"), Answer(200, b"3")]
        assert served.connections == 1


def test_it_is_the_same_on_uvloop() -> None:
    async def exchange() -> Answer:
        async with serve(numbered) as served, pooled(served.origin) as pool:
            await pool.exchange(REQUEST, 5)
            return await pool.exchange(REQUEST, 5)

    assert uvloop.run(exchange()) == Answer(200, b"2")


async def test_an_answer_in_chunks_is_put_together() -> None:
    async def chunked(number: int) -> bytes:
        return b"HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"

    async with serve(chunked) as served, pooled(served.origin) as pool:
        assert await pool.exchange(REQUEST, 5) == Answer(400, b"abc")


async def test_a_link_that_is_to_be_closed_is_not_used_again() -> None:
    async def last(number: int) -> bytes:
        return answer(b"x", "connection: close\r\n")

    async with serve(last) as served, pooled(served.origin) as pool:
        for _ in range(2):
            assert (await pool.exchange(REQUEST, 5)).body == b"x"
        assert served.connections == 2


async def test_nobody_listening_means_that_nothing_was_sent() -> None:
    async with pooled(Origin("127.0.0.1", free_port(), False)) as pool:
        with pytest.raises(HttpFailed) as failed:
            await pool.exchange(REQUEST, 5)
        assert not failed.value.is_sent


async def test_a_connection_that_closes_without_an_answer_may_have_carried_it_out() -> None:
    async def never(number: int) -> None:
        return None

    async with serve(never) as served, pooled(served.origin) as pool:
        with pytest.raises(HttpFailed) as failed:
            await pool.exchange(REQUEST, 5)
        assert failed.value.is_sent


async def test_a_late_answer_is_never_taken_for_the_next_ones() -> None:
    late = asyncio.Event()

    async def slow_first(number: int) -> bytes:
        if number == 1:
            await late.wait()
        return answer(b"%d" % number)

    async with serve(slow_first) as served, pooled(served.origin) as pool:
        with pytest.raises(HttpFailed) as failed:
            await pool.exchange(REQUEST, 0.05)
        assert failed.value.is_sent
        late.set()
        assert (await pool.exchange(REQUEST, 5)).body == b"2"
        assert served.connections == 2


async def test_a_cancelled_request_takes_its_link_along() -> None:
    asked = asyncio.Event()

    async def hang(number: int) -> bytes:
        asked.set()
        if number == 1:
            await asyncio.Event().wait()
        return answer(b"%d" % number)

    async with serve(hang) as served, pooled(served.origin) as pool:
        task = asyncio.ensure_future(pool.exchange(REQUEST, 5))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await pool.exchange(REQUEST, 5)).body == b"2"


async def test_what_is_not_http_is_a_failure() -> None:
    async def nonsense(number: int) -> bytes:
        return b"\x00\x01\x02 nonsense\r\n\r\n"

    async with serve(nonsense) as served, pooled(served.origin) as pool:
        with pytest.raises(HttpFailed, match="not an HTTP answer"):
            await pool.exchange(REQUEST, 5)


async def test_fetch_asks_once_with_its_headers() -> None:
    async with serve(numbered) as served:
        url = f"http://127.0.0.1:{served.origin.port}/a/b?c=d"
        assert (await fetch("PUT", url, {"x-one": "1"}, b"", clock=Clock(), timeout_s=5)).status == 200
    assert served.requests[0].startswith(b"PUT /a/b?c=d HTTP/1.1\r\n") and b"x-one: 1\r\n" in served.requests[0]


def test_an_origin_is_read_from_a_url() -> None:
    assert origin_of("https://dynamodb.eu-west-1.amazonaws.com").authority == "dynamodb.eu-west-1.amazonaws.com"
    assert origin_of("http://localhost:8000").authority == "localhost:8000"
    assert origin_of("http://[::1]:8000").authority == "[::1]:8000"
    for bad in ("localhost:8000", "ftp://x", "http://"):
        with pytest.raises(ValueError, match="endpoint"):
            origin_of(bad)
