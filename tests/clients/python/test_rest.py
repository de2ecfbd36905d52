from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest

from tidings_client import Clock
from tidings_client.connection.http import Http
from tidings_client.errors import BadRequest, Disconnected, NotFound, StoreUnavailable, Unauthorized
from tidings_client.rest import Rest
from tidings_client.values import Totals
from tidings_proof.world.ports import free_port

TOTALS = b'{"total_unread":1,"unread_conversations":1}'


def error(code: str) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": "", "temporary": False, "retry_after_ms": 1}})


class Answers:
    """An HTTP server that gives prepared answers, one per request."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        status, body = self.answers.pop(0)
        writer.write(b"HTTP/1.1 %d x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def rest_of(answers: Answers, renewed: list[bool] | None = None) -> AsyncIterator[Rest]:
    listening = await asyncio.start_server(answers.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]

    async def headers() -> Mapping[str, str]:
        return {"X-Api-Key": "k"}

    async def renew() -> None:
        assert renewed is not None
        renewed.append(True)

    rest = Rest(Http(f"http://127.0.0.1:{port}"), headers, Clock(), renew if renewed is not None else None)
    try:
        yield rest
    finally:
        await rest.close()
        listening.close()


async def test_an_answer_is_its_struct_and_the_caller_is_named() -> None:
    answers = Answers((200, TOTALS), (200, TOTALS))
    async with rest_of(answers) as rest:
        assert await rest.get("/v1/unread", Totals, limit=None, cursor="x y") == Totals(1, 1)
        await rest.acting("alice").get("/v1/unread", Totals)
    assert b"GET /v1/unread?cursor=x" in answers.heads[0] and b"x-api-key: k" in answers.heads[0].lower()
    assert b"x-user-id: alice" in answers.heads[1].lower()


async def test_a_temporary_refusal_is_repeated_only_where_that_is_safe() -> None:
    async with rest_of(Answers((503, error("unavailable")), (429, error("rate_limited")), (200, TOTALS))) as rest:
        assert await rest.get("/v1/unread", Totals) == Totals(1, 1)
    async with rest_of(Answers((503, error("unavailable")))) as rest:
        with pytest.raises(StoreUnavailable):
            await rest.send("POST", "/v1/conversations", Totals)


async def test_a_final_refusal_is_raised_at_once() -> None:
    async with rest_of(Answers((404, error("not_found")))) as rest:
        with pytest.raises(NotFound):
            await rest.get("/v1/unread", Totals)


async def test_a_token_that_is_not_known_is_renewed_once() -> None:
    renewed: list[bool] = []
    async with rest_of(Answers((401, error("unauthorized")), (200, TOTALS)), renewed) as rest:
        await rest.get("/v1/unread", Totals)
    async with rest_of(Answers(*[(401, error("unauthorized"))] * 2), renewed) as rest:
        with pytest.raises(Unauthorized):
            await rest.get("/v1/unread", Totals)
    assert len(renewed) == 2


async def test_an_answer_of_a_proxy_in_between_is_told_apart() -> None:
    async with rest_of(Answers((404, b"<html>"))) as rest:
        with pytest.raises(BadRequest, match="HTTP 404 from something that is not a node"):
            await rest.get("/v1/unread", Totals)
    async with rest_of(Answers((502, b"<html>"), (200, TOTALS))) as rest:
        assert await rest.get("/v1/unread", Totals) == Totals(1, 1)
    for body in (b"<html>", b'{"conversations":[]}'):
        async with rest_of(Answers((200, body))) as rest:
            with pytest.raises(BadRequest, match="HTTP 200 from something that is not a node"):
                await rest.get("/v1/unread", Totals)


async def test_a_closed_one_says_so_at_once_whether_it_was_used_or_not() -> None:
    for answers in (Answers(), Answers((200, TOTALS))):
        async with rest_of(answers) as rest:
            for _ in list(answers.answers):
                await rest.get("/v1/unread", Totals)
            await rest.close()
            async with asyncio.timeout(60):  # it is not tried again
                with pytest.raises(Disconnected, match="the client was closed"):
                    await rest.get("/v1/unread", Totals)


async def test_nobody_there_is_disconnected() -> None:
    async def headers() -> Mapping[str, str]:
        return {}

    rest = Rest(Http(f"http://127.0.0.1:{free_port()}"), headers, Clock())
    with pytest.raises(Disconnected, match="POST /v1/conversations"):
        await rest.send("POST", "/v1/conversations", Totals)
    await rest.close()
