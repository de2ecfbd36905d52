from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import certificate
from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import SECRET, Gateway, opened
from tidings.config.sections import Tls
from tidings.config.settings import Auth, Settings
from tidings.gateway import server
from tidings.gateway.server import loop_factory, open_tls


async def test_http_and_websocket_share_one_port(gateway: Gateway) -> None:
    wire = await gateway.wire()
    status, _, body = await http(gateway.port, "GET", "/healthz")
    assert (status, body) == (200, {"status": "ok"})
    assert (await wire.ask("ping"))["type"] == "pong"


def test_it_serves_on_uvloop_and_on_the_plain_loop() -> None:
    async def say_hello() -> str:
        async with opened(Settings(auth=Auth(secret=SECRET))) as gateway:
            wire = await gateway.wire()
            kind: str = (await wire.ask("ping"))["type"]
            return kind

    for factory in (asyncio.new_event_loop, loop_factory()):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(say_hello()) == "pong"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://app.example.com.evil.com",
        "null",
        "https://APP.example.com",
        "https://app.example.com:8443",
        "app.example.com",
        "file://app.example.com",
    ],
)
async def test_a_foreign_origin_is_refused_before_the_upgrade(origin: str) -> None:
    settings = Settings(auth=Auth(secret=SECRET), allowed_origins=("https://app.example.com",))
    async with opened(settings) as gateway:
        wire, head = await Wire.handshake(gateway.port, Origin=origin)
        assert head.startswith(b"HTTP/1.1 403 ")
        assert b'"code":"forbidden"' in await wire.reader.read()


async def test_listed_same_and_absent_origins_may_connect() -> None:
    settings = Settings(auth=Auth(secret=SECRET), allowed_origins=("https://app.example.com",))
    async with opened(settings) as gateway:
        for headers in ({"Origin": "https://app.example.com"}, {"Origin": f"http://127.0.0.1:{gateway.port}"}, {}):
            wire = await Wire.open(gateway.port, **headers)
            wire.drop()


async def test_draining_tells_clients_when_to_come_back_and_closes_4001(gateway: Gateway) -> None:
    wire = await gateway.wire()
    draining = asyncio.create_task(gateway.server.drain(spread_ms=3000))
    told = await wire.hear()
    assert told["type"] == "draining" and 0 <= told["reconnect_in_ms"] <= 3000
    assert await wire.closed() == 4001
    await draining
    _, head = await Wire.handshake(gateway.port)
    assert head.startswith(b"HTTP/1.1 503 ")
    status, _, body = await http(gateway.port, "GET", "/readyz")
    assert status == 503 and body["status"] == "draining"


async def test_a_draining_node_answers_what_it_has_taken(gateway: Gateway) -> None:
    gateway.log.held = []
    wire = await gateway.wire()
    wire.say(id=7, type="message.send", conversation_id="c1", message_id="m1", text="hi")
    await gateway.until(lambda: gateway.log.held)
    draining = asyncio.create_task(gateway.server.drain(spread_ms=0))
    assert (await wire.hear())["type"] == "draining"
    gateway.log.answer(gateway.log.held[0])
    assert (await wire.answer_to(7))["seq"] == 1
    assert await wire.closed() == 4001
    await draining


async def test_a_request_under_way_is_answered_before_the_node_is_gone(gateway: Gateway) -> None:
    begun, opened_ = asyncio.Event(), asyncio.Event()
    plain = gateway.inbox.page

    async def page(*args: Any, **fields: Any) -> Any:
        begun.set()
        await opened_.wait()
        return await plain(*args, **fields)

    gateway.inbox.page = page  # type: ignore[method-assign]
    asked = asyncio.create_task(gateway.rest("GET", "/v1/inbox"))
    await begun.wait()
    stopping = asyncio.create_task(gateway.server.stop())
    await asyncio.sleep(0)
    opened_.set()
    status, _, body = await asked
    assert status == 200 and "conversations" in body
    await stopping


async def test_a_request_that_a_store_holds_up_is_cut_off_and_not_answered_in_other_words(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HTTP_FINISH_S", 0.05)
    begun = asyncio.Event()

    async def page(*args: Any, **fields: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    gateway.inbox.page = page  # type: ignore[method-assign]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(f"GET /v1/inbox HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token()}\r\n\r\n".encode())
    await begun.wait()
    await gateway.server.stop()
    said = b""
    with suppress(ConnectionResetError):
        said = await reader.read()
    assert said == b""
    writer.close()


async def test_a_port_with_a_certificate_speaks_https_and_upgrades_to_a_websocket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=pair)
    settings = Settings(auth=Auth(secret=SECRET), tls=Tls(cert=pair, key=pair))
    async with opened(settings) as gateway:
        plain = asyncio.open_connection

        async def encrypted(host: str, port: int, **options: Any) -> Any:
            return await plain("localhost", port, ssl=trusting, server_hostname="localhost", **options)

        monkeypatch.setattr(asyncio, "open_connection", encrypted)
        wire = await gateway.wire()
        assert (await wire.ask("ping"))["type"] == "pong"
        status, _, body = await http(gateway.port, "GET", "/healthz")
        assert (status, body) == (200, {"status": "ok"})
        wire.drop()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "cert.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"tls.cert, tls.key: cannot use .*cert.pem: (No such file|no certificate)"):
        open_tls(file, None)
