from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import certificate
from tests.support.servers.http_server import Heard, serve
from tidings import testing
from tidings.config.sections import Tls
from tidings.config.settings import Settings
from tidings_client import Client, Clock
from tidings_client.bounds import CHUNK_BYTES
from tidings_client.connection.addresses import socket_url
from tidings_client.connection.dialing import host_of, proxy_of
from tidings_client.connection.http import Http
from tidings_client.connection.link import Link
from tidings_client.errors import Disconnected


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def encrypted_node(folder: Path) -> AsyncIterator[tuple[testing.TestServer, str, Path]]:
    pair = certificate(folder)
    async with testing.server(Settings(tls=Tls(cert=pair, key=pair))) as node:
        yield node, f"https://localhost:{urlsplit(node.url).port}", pair


class Tunnel:
    """A proxy that knows CONNECT alone, and writes down what it is asked for."""

    def __init__(self) -> None:
        self.heads: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        host, _, port = self.heads[-1].split(" ")[1].rpartition(":")
        if port == "1":
            writer.write(b"HTTP/1.1 403 Not from here\r\n\r\n")
            writer.close()
            return
        if port == "2":
            writer.write(b"HTTP/1.1 200 OK\r\nX: " + bytes(3 * CHUNK_BYTES))
            await reader.read()  # until the client leaves
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def tunnel(monkeypatch: pytest.MonkeyPatch, name: str) -> AsyncIterator[Tunnel]:
    made = Tunnel()
    listening = await asyncio.start_server(made.talk, "127.0.0.1", 0)
    monkeypatch.setenv(name, f"http://ann:p%40ss@127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    try:
        yield made
    finally:
        listening.close()


async def test_a_certificate_that_nobody_trusts_is_refused_by_requests_and_socket(tmp_path: Path) -> None:
    async with encrypted_node(tmp_path) as (_, url, _):
        http = Http(url)
        with pytest.raises(Disconnected, match="CERTIFICATE_VERIFY_FAILED"):
            await http.request("GET", "/healthz", headers={})
        with pytest.raises(Disconnected, match="CERTIFICATE_VERIFY_FAILED"):
            await Link.open(socket_url(url), lambda raw: None, Clock())


async def test_a_trusted_certificate_must_be_of_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with encrypted_node(tmp_path) as (_, url, pair):
        monkeypatch.setenv("SSL_CERT_FILE", str(pair))
        other = url.replace("localhost", "127.0.0.1")
        with pytest.raises(Disconnected, match="CERTIFICATE_VERIFY_FAILED"):
            await Http(other).request("GET", "/healthz", headers={})
        with pytest.raises(Disconnected, match="CERTIFICATE_VERIFY_FAILED"):
            await Link.open(socket_url(other), lambda raw: None, Clock())


@pytest.mark.parametrize("is_proxied", [False, True])
async def test_requests_files_and_the_socket_go_through_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_proxied: bool
) -> None:
    (tmp_path / "note").write_bytes(data := bytes(range(256)) * 2000)
    async with encrypted_node(tmp_path) as (node, url, pair), tunnel(monkeypatch, "HTTPS_PROXY") as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(pair))
        if not is_proxied:
            monkeypatch.setenv("NO_PROXY", "localhost")
        async with Client(url, node.token("alice")) as alice:
            conversation_id = await alice.direct("bob")
            await alice.send(conversation_id, "look", files=[tmp_path / "note"])
            (file,) = (await alice.files(conversation_id)).files
            await alice.download(conversation_id, file.file_id, tmp_path / "copy")
        assert await asyncio.to_thread((tmp_path / "copy").read_bytes) == data
    if is_proxied:
        assert {head.split("\r\n", 1)[0] for head in proxy.heads} == {f"CONNECT {urlsplit(url).netloc} HTTP/1.1"}
        assert all("Proxy-Authorization: Basic YW5uOnBAc3M=\r\n" in head for head in proxy.heads)
    else:
        assert proxy.heads == []


async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tunnel(monkeypatch, "ALL_PROXY"):
        with pytest.raises(Disconnected, match=r"the proxy 127\.0\.0\.1 refuses: HTTP/1\.1 403 Not from here"):
            await Http("https://node.example:1").request("GET", "/x", headers={})
        with pytest.raises(Disconnected, match=r"the proxy 127\.0\.0\.1 refuses: HTTP/1\.1 403 Not from here"):
            await Link.open("ws://node.example:1/v1/ws", lambda raw: None, Clock())


async def test_a_proxy_whose_answer_has_no_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tunnel(monkeypatch, "ALL_PROXY"):
        with pytest.raises(Disconnected, match=r"the answer of the proxy 127\.0\.0\.1 is too long"):
            await Http("https://node.example:2").request("GET", "/x", headers={})
        with pytest.raises(Disconnected, match=r"the answer of the proxy 127\.0\.0\.1 is too long"):
            await Link.open("ws://node.example:2/v1/ws", lambda raw: None, Clock())


async def test_a_proxy_makes_plain_requests_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Heard] = []

    def answer(asked: Heard) -> tuple[int, str]:
        heard.append(asked)
        return 200, "ok"

    async with serve(answer) as url:
        monkeypatch.setenv("HTTP_PROXY", url)
        assert (await Http("http://node.example/under").request("GET", "/x", headers={})).content == b"ok"
    assert (heard[0].target, heard[0].headers["host"]) == ("http://node.example/under/x", "node.example")


def test_a_proxy_of_another_kind_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(OSError, match="a proxy must be http:// or https://, and the environment names socks5://"):
        proxy_of(urlsplit("https://node.example"))


@pytest.mark.parametrize("url", ["http://ann:hush/x@proxy:1", "http://proxy:hush", "http://[hush", "http://:1"])
async def test_a_proxy_that_is_no_url_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ALL_PROXY", url)
    with pytest.raises(Disconnected, match="no URL: it must be http://host:port") as first:
        await Http("http://node.example:1").request("GET", "/x", headers={})
    with pytest.raises(Disconnected, match="no URL: it must be http://host:port") as second:
        await Link.open("ws://node.example:1/v1/ws", lambda raw: None, Clock())
    assert "hush" not in f"{first.value} {second.value}"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://node.example:80/x", "node.example"),
        ("https://node.example:80", "node.example:80"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_the_host_header_names_the_host_and_a_port_that_is_not_the_usual_one(url: str, host: str) -> None:
    assert host_of(urlsplit(url)) == host
