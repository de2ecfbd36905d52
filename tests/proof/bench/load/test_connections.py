"""What a connection of the generator makes of an answer; on a real node."""

from __future__ import annotations

import asyncio

import pytest

from tidings_proof.bench.load.connections import Answer, Tally, connect, open_http, said
from tidings_proof.bench.target.target import Target


async def test_a_socket_is_greeted_and_may_leave(target: Target) -> None:
    tally = Tally()
    socket = await connect(target.url, target.token("sock-a"), tally, lambda answer: None)
    await socket.leave()
    assert not tally.failed.done(), "leaving is no failure"


async def test_a_bad_token_fails_the_run(target: Target) -> None:
    with pytest.raises(RuntimeError, match=r"closed a connection|refused|unexpected frame"):
        await connect(target.url, "nonsense", Tally(), lambda answer: None)


async def test_a_page_over_http_is_decoded_and_an_error_fails_the_run(target: Target) -> None:
    tally, heard = Tally(), asyncio.get_running_loop().create_future()
    link = await open_http(target.url, tally, heard.set_result)
    request = "GET {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\r\n"
    link.send(request.format("/v1/inbox", target.token("http-a")).encode())
    answer: Answer = await asyncio.wait_for(heard, 60)
    assert answer.conversations == []
    link.send(request.format("/v1/conversations/nowhere", target.token("http-a")).encode())
    with pytest.raises(RuntimeError, match="not_found"):
        await asyncio.wait_for(tally.failed, 60)


def test_a_refusal_by_the_limiter_says_what_to_do() -> None:
    assert "raise them (limits.*)" in said("rate_limited", b"{}")
    assert said("conflict", b"{}") == "the server refused: {}"
