"""The raw wire: it says what it is told, hears everything, and can vanish."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.devices.plain_client import token_for
from tests.support.waiting import eventually
from tidings.node.node import Node
from tidings_proof.people.wire import Frame, Line, _parsed, rest


async def connected(node: Node, frames: list[Frame], user_id: str = "alice") -> Line:
    line = Line(1, node.port, lambda _, frame: frames.append(frame))
    await line.open()
    hello = await line.ask("connect", token=token_for(node, user_id))
    assert hello["type"] == "hello" and line.is_live
    return line


async def test_answers_find_their_questions_and_everything_is_heard(node: Node) -> None:
    frames: list[Frame] = []
    line = await connected(node, frames)
    first, second = line.ask("ping"), line.ask("inbox")
    assert (await second)["conversations"] == [] and (await first)["type"] == "pong"
    assert {"hello", "pong", "ok"} <= {frame["type"] for frame in frames}
    line.leave()
    await asyncio.wait_for(line.lost.wait(), 60)


async def test_who_vanishes_leaves_its_questions_without_an_answer(node: Node) -> None:
    line = await connected(node, [])
    asked = line.ask("inbox")
    line.cut()
    with pytest.raises(ConnectionError):
        await asked
    await asyncio.wait_for(line.lost.wait(), 60)
    with pytest.raises(ConnectionError):
        await line.ask("ping")


async def test_what_is_not_read_waits(node: Node) -> None:
    frames: list[Frame] = []
    line = await connected(node, frames)
    line.stop_reading()
    asked = line.ask("ping")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asked), 0.1)
    line.read_on()
    assert (await asyncio.wait_for(asked, 60))["type"] == "pong"
    line.cut()


async def test_a_server_that_closes_says_why(node: Node) -> None:
    line = Line(1, node.port, lambda _, frame: None)
    await line.open()
    line.say({"id": 1, "type": "connect", "token": "nonsense"})
    await eventually(line.lost.is_set)
    assert line.close_code == 4500


async def test_a_request_over_rest(node: Node) -> None:
    status, answer = await rest(node.port, token_for(node, "alice"), "GET", "/v1/inbox")
    assert (status, answer["conversations"]) == (200, [])
    body = {"kind": "group", "members": ["bob"]}
    assert (await rest(node.port, token_for(node, "alice"), "POST", "/v1/conversations", body))[0] == 201


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", (200, {})),
        (b"HTTP/1.1 204 -\r\n\r\n", (204, None)),
        (b"HTTP/1.1 500 -\r\nContent-Length: 5\r\n\r\nsorry", (500, "sorry")),
    ],
)
def test_an_answer_is_taken_as_it_is(raw: bytes, answer: tuple[int, Any]) -> None:
    assert _parsed(raw) == answer


@pytest.mark.parametrize(
    "raw", [b"", b"HTTP/1.1 200 OK\r\nDate: now\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]
)
def test_half_an_answer_is_none(raw: bytes) -> None:
    with pytest.raises(ConnectionError):
        _parsed(raw)
