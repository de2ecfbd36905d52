"""A node is found from one URL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings_client import Client, Server
from tidings_client.connection.addresses import rest_url, shown_url, socket_url


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/v1/ws"),
        ("https://chat.example.org/", "wss://chat.example.org/v1/ws"),
        ("https://example.org/chat", "wss://example.org/chat/v1/ws"),
    ],
)
def test_the_socket_is_found_from_the_url_of_the_node(url: str, socket: str) -> None:
    assert socket_url(url) == socket


def test_rest_is_found_from_it_too() -> None:
    assert rest_url("wss://example.org/chat") == rest_url("https://example.org/chat?x=1")
    assert rest_url("ws://127.0.0.1:8000") == "http://127.0.0.1:8000"


def test_a_password_in_the_url_is_not_shown() -> None:
    assert shown_url("wss://ann:p%40ss@[::1]:8000/v1/ws?x=1") == "wss://[::1]:8000/v1/ws?x=1"


async def test_a_log_names_the_node_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    client = Client("http://ann:secret@127.0.0.1:1", "t")  # nobody listens there
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: "connect failed" in caplog.text)
    await client.close()
    await asyncio.gather(connecting, return_exceptions=True)
    assert "ws://127.0.0.1:1/v1/ws" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    "url",
    ["ftp://ann:secret@example.org", "ann:secret@example.org", "http://ann:secret@h:port", b"http://ann:secret@h"],
)
def test_a_url_that_is_refused_is_named_without_the_password(url: Any) -> None:
    with pytest.raises(ValueError, match="not the URL of a node") as refused:
        Client(url, "t")
    assert "secret" not in str(refused.value)


NO_URLS: list[Any] = [
    "", "localhost:8000", "ftp://example.org", "http://", "http:///x", "http://h:port", "http://h:99999", "http://h:0",
    "http://[::1", None, b"http://h", 5,
]  # fmt: skip


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_not_a_url_of_a_node_is_said_at_once(url: Any) -> None:
    for make in (socket_url, lambda url: Client(url, "t"), lambda url: Server(url, "k")):
        with pytest.raises(ValueError, match="http://host:port"):
            make(url)
