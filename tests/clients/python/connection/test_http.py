from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tidings_client.bounds import CHUNK_BYTES, HTTP_CONNECTIONS_MAX
from tidings_client.connection import http as client_http
from tidings_client.connection.http import Http
from tidings_client.errors import BadRequest, Disconnected

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """A server that speaks raw HTTP: each request gets the next answer, the last one for ever."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.connections_count = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_count += 1
        while head := await _head(reader):
            self.heads.append(head)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            writer.write(answer)
            if b"close" in answer:
                break
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def http_to(talk: Talk) -> AsyncIterator[Http]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    http = Http(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/under")
    try:
        yield http
    finally:
        await http.close()
        listening.close()


async def get(http: Http, path: str = "/x") -> bytes:
    return (await http.request("GET", path, headers={})).content


async def test_a_connection_carries_one_request_after_another() -> None:
    peer = Peer(OK)
    async with http_to(peer.talk) as http:
        assert [await get(http) for _ in range(3)] == [b"ok"] * 3
    assert peer.connections_count == 1
    assert peer.heads[0].startswith(b"GET /under/x HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nServer: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nServer: close\r\n\r\nok",
    ],
    ids=["told", "old", "no length"],
)
async def test_a_connection_that_ends_is_not_used_again(answer: bytes) -> None:
    peer = Peer(answer)
    async with http_to(peer.talk) as http:
        assert [await get(http), await get(http)] == [b"ok", b"ok"]
    assert peer.connections_count == 2


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_http, "HTTP_ANSWER_BYTES_MAX", 100)
    lengths = [(100, False), (101, False), (101, True)]
    for length, is_chunked in lengths:
        body = b"%x\r\n%b\r\n" % (length, b"x" * length) if is_chunked else b"x" * length
        coding = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % length
        async with http_to(Peer(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (coding, body)).talk) as http:
            if length == 100:
                assert await get(http) == body
                continue
            with pytest.raises(Disconnected, match="longer than 100 bytes"):
                await get(http)
            assert not http._all  # the rest is no answer to the next request


async def test_an_answer_in_chunks_is_joined_and_what_follows_is_another_answer() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n"
    )
    peer = Peer(chunked, b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK, b"HTTP/1.1 204 No Content\r\n\r\n", OK)
    async with http_to(peer.talk) as http:
        assert [await get(http) for _ in range(4)] == [b"abc0123456789", b"ok", b"", b"ok"]
    assert peer.connections_count == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        b"HTTP/1.1 200 close\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 close\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)
async def test_an_answer_whose_end_is_not_certain_is_a_lost_connection(answer: bytes) -> None:
    peer = Peer(answer, OK)
    async with http_to(peer.talk) as http:
        with pytest.raises(Disconnected):
            await get(http)
        assert await get(http) == b"ok"
    assert peer.connections_count == 2


@pytest.mark.parametrize(
    "more",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["another answer", "the end of an idle connection"],
)
async def test_bytes_that_nobody_asked_for_are_no_answer(more: bytes) -> None:
    peer = Peer(OK + more, OK)
    async with http_to(peer.talk) as http:
        assert [await get(http), await get(http)] == [b"ok", b"ok"]
    assert peer.connections_count == 2


async def test_trailers_have_an_end() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
    peer = Peer(chunked + b"X: y\r\n" * CHUNK_BYTES + b"\r\n")
    async with http_to(peer.talk) as http:
        with pytest.raises(Disconnected, match="the trailers of the answer are too long"):
            await get(http)


async def test_a_server_that_says_nothing_is_left() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves

    async with http_to(silent) as http:
        with pytest.raises(Disconnected, match=r"silent for 0\.1 s"):
            await http.request("GET", "/x", headers={}, quiet_s=0.1)


async def test_a_refusal_in_the_middle_of_a_large_content_is_heard() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await reader.read(1)
        await asyncio.Event().wait()  # it reads no more, and keeps the connection

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    async with http_to(refuse) as http:
        answer = await http.request("PUT", "/x", headers={"Content-Length": str(1 << 40)}, content=endless())
    assert (answer.status, answer.content, answer.is_success) == (413, b"no!", False)


async def test_an_error_of_the_program_itself_is_its_own() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise PermissionError("the disk")

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with http_to(read) as http:
        with pytest.raises(PermissionError):
            await http.request("PUT", "/x", headers={"Content-Length": "9"}, content=broken())


async def test_an_answer_that_was_not_read_to_its_end_takes_its_connection_along() -> None:
    peer = Peer(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + bytes(300000), OK)
    async with http_to(peer.talk) as http:
        async with http.stream("GET", "/x", headers={}) as answer:
            async for chunk in answer.chunks:
                assert chunk
                break
        assert await get(http) == b"ok"
    assert peer.connections_count == 2


async def test_a_request_that_is_abandoned_takes_its_connection_along() -> None:
    heard, left = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        heard.set()
        await _head(reader)
        left.set()

    async with http_to(hold) as http:
        asking = asyncio.create_task(get(http))
        await heard.wait()
        asking.cancel()
        await asyncio.wait_for(left.wait(), 60)


async def test_requests_beyond_the_most_connections_wait_for_one() -> None:
    is_open = asyncio.Event()
    came: list[bool] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _head(reader):
            came.append(True)
            if len(came) == HTTP_CONNECTIONS_MAX:
                is_open.set()
            await is_open.wait()
            writer.write(OK)

    async with http_to(hold) as http:
        assert await asyncio.gather(*(get(http) for _ in range(HTTP_CONNECTIONS_MAX + 20))) == [b"ok"] * (
            HTTP_CONNECTIONS_MAX + 20
        )


async def test_closing_ends_what_is_under_way() -> None:
    heard = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        heard.set()
        await reader.read()

    async with http_to(hold) as http:
        asking = asyncio.create_task(get(http))
        await heard.wait()
        await http.close()
        with pytest.raises(Disconnected):
            await asking
        with pytest.raises(Disconnected, match="the client was closed"):
            await get(http)


async def test_a_header_or_an_address_cannot_smuggle_a_second_request() -> None:
    peer = Peer(OK)
    async with http_to(peer.talk) as http:
        with pytest.raises(BadRequest):
            await http.request("GET", "/x", headers={"X-User-Id": "a\r\n\r\nGET /y HTTP/1.1"})
        await get(http, "/x y\r\n\r\nGET /z?q=ä b")
        with pytest.raises(BadRequest):
            await get(http, "ftp://127.0.0.1/x")
    assert [head.split(b"\r\n", 1)[0] for head in peer.heads] == [b"GET /under/x%20yGET%20/z?q=%C3%A4%20b HTTP/1.1"]
