from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from tests.sdk.scripted import message_new
from tidings import Client, Server
from tidings.bounds import FRAME_BYTES_MAX
from tidings.errors import BadRequest, NotFound, TooLarge
from tidings.gateway.protocol import Frame, Ping, Read, Send, Watch
from tidings.sdk import wire
from tidings.sdk.events import Draining, MessageNew
from tidings.sdk.values import Sent


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/v1/ws"),
        ("https://chat.example.org/", "wss://chat.example.org/v1/ws"),
        ("https://example.org/chat", "wss://example.org/chat/v1/ws"),
    ],
)
def test_the_socket_is_found_from_the_url_of_the_node(url: str, socket: str) -> None:
    assert wire.socket_url(url) == socket


def test_rest_is_found_from_it_too() -> None:
    assert wire.rest_url("wss://example.org/chat") == wire.rest_url("https://example.org/chat?x=1")
    assert wire.rest_url("ws://127.0.0.1:8000") == "http://127.0.0.1:8000"


NO_URLS: list[Any] = [
    "", "localhost:8000", "ftp://example.org", "http://", "http:///x", "http://h:port", "http://h:99999", "http://h:0",
    "http://[::1", None, b"http://h", 5,
]  # fmt: skip


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_not_a_url_of_a_node_is_said_at_once(url: Any) -> None:
    for make in (wire.socket_url, lambda url: Client(url, "t"), lambda url: Server(url, "k")):
        with pytest.raises(ValueError, match="http://host:port"):
            make(url)


MISTAKEN: Any = [
    Send(conversation_id="c1", message_id="m1", text=b"t"),  # type: ignore[arg-type]
    Send(conversation_id="c1", message_id=UUID(int=1), text="t"),  # type: ignore[arg-type]
    Send(conversation_id="c1", message_id="m1", text=datetime(2026, 1, 1)),  # type: ignore[arg-type]
    Read(conversation_id="c1", seqs=[True]),
]


@pytest.mark.parametrize("frame", MISTAKEN)
def test_what_would_become_another_text_on_the_wire_is_refused(frame: Frame) -> None:
    with pytest.raises(BadRequest, match=r"Expected `\w+`, got `\w+`"):
        wire.check(frame)


def test_a_frame_that_would_close_the_socket_is_refused_before_it_is_sent() -> None:
    assert json.loads(wire.encode(Ping(id=1))) == {"type": "ping", "id": 1}
    text = "\x01" * (FRAME_BYTES_MAX // 6)  # six bytes each on the wire
    with pytest.raises(TooLarge):
        wire.encode(Send(conversation_id="c1", message_id="m1", text=text))


@pytest.mark.parametrize(
    "frame",
    [
        Send(conversation_id="c1/..", message_id="m1", text="t"),
        Send(conversation_id="c1", message_id="m.1", text="t"),
        Send(conversation_id="c1", message_id="m1", text="\ud800"),
        Read(conversation_id="c1"),
        Watch(conversation_ids=["a b"]),
    ],
)
def test_a_frame_that_the_server_would_refuse_is_refused_before_it_is_sent(frame: Frame) -> None:
    with pytest.raises(BadRequest):
        wire.check(frame)


def test_an_event_is_decoded_and_one_of_a_newer_server_is_left_alone() -> None:
    event = wire.event_of(json.dumps({**message_new(3), "later": True}).encode())
    assert isinstance(event, MessageNew) and event.message.seq == 3
    assert wire.event_of(b'{"type":"draining","reconnect_in_ms":5}') == Draining(reconnect_in_ms=5)
    assert wire.event_of(b'{"type":"reaction.new"}') is None
    assert wire.peek(b"nonsense") is None


def test_an_answer_is_its_struct_or_the_problem_that_it_is() -> None:
    ok = {"id": 1, "type": "ok", "conversation_id": "c", "message_id": "m", "seq": 4, "sent_at": 5, "duplicate": False}
    assert wire.answer_of(json.dumps(ok).encode(), Sent).seq == 4
    error = b'{"id":1,"type":"error","code":"not_found","temporary":false,"retry_after_ms":null,"message":"no"}'
    with pytest.raises(NotFound, match="no"):
        wire.answer_of(error, Sent)
