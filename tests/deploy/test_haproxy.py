"""deploy/haproxy.cfg as the real haproxy runs it. The nodes of most tests here are stand-ins that only say who they are
and what they heard, so that each can drain, fail or vanish on command; real nodes are in tests/journeys/test_matrix.py.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.served import opened
from tests.support.servers.haproxy import CONFIG, Haproxy, binary, running_haproxy

UPGRADE = (  # with the key of RFC 6455's example, and the answer to it
    b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class StandIn(ThreadingHTTPServer):
    """A node that is ready or drains: new sockets and checks are then refused with 503, as a real one does."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.name = name
        self.is_gone = False
        self.is_draining = False
        self.is_slow_to_be_noticed = False  # drains, while its checks still pass: the seconds before haproxy knows
        self.heard: list[tuple[str, dict[str, str]]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), name=name, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: haproxy closes connections as it likes."""

    def vanish(self) -> None:
        """The port is closed, as of a process that was killed."""
        self.is_gone = True
        self.shutdown()
        self.server_close()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_GET(self) -> None:
        node = self.server
        if node.is_gone:
            self.close_connection = True
            return
        is_check = self.path == "/readyz"
        if not is_check:
            node.heard.append((f"{self.command} {self.path}", {k.lower(): v for k, v in self.headers.items()}))
        is_refused = node.is_draining and not (is_check and node.is_slow_to_be_noticed)
        if self.headers["Upgrade"] and not is_refused:
            self._echo()
            return
        body = node.name.encode()
        self.send_response(503 if is_refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _echo(self) -> None:
        """A socket: says back what it hears until the other side has enough."""
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", ACCEPT)
        self.end_headers()
        while heard := self.connection.recv(1024):
            self.connection.sendall(heard)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *words: Any) -> None:
        """Nothing: the test looks at what was heard."""


Three = tuple[Haproxy, list[StandIn]]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    with ExitStack() as stack:
        nodes = [StandIn(f"node{number}") for number in (1, 2, 3)]
        for node in nodes:
            stack.callback(node.vanish)
        yield stack.enter_context(running_haproxy(tmp_path / "h", [node.port for node in nodes])), nodes


def ask(haproxy: Haproxy, method: str = "GET", path: str = "/v1/inbox", **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection("127.0.0.1", haproxy.port, timeout=60)
    try:
        link.request(method, path, b"{}" if method == "POST" else None, headers)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def test_haproxy_takes_the_configuration_without_a_warning() -> None:
    answer = subprocess.run([binary(), "-c", "-f", str(CONFIG)], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0 and "WARNING" not in answer.stderr, answer.stderr


def test_its_admin_socket_is_in_no_folder_that_everybody_may_write() -> None:
    (place,) = re.findall(r"stats socket \"\$\{STATS-(\S+)\}\" mode 600", CONFIG.read_text("utf-8"))
    assert place.startswith("/run/haproxy/")


def test_names_that_cannot_be_found_yet_do_not_stop_it() -> None:
    """In a composition the nodes may come later than haproxy."""
    answer = subprocess.run(
        [binary(), "-c", "-f", str(CONFIG)],
        env={"PATH": "/usr/sbin:/usr/bin", "NODE1": "node1.invalid:8000"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr


def test_requests_go_to_every_node(three: Three) -> None:
    haproxy, _ = three
    assert {ask(haproxy) for _ in range(30)} == {(200, "node1"), (200, "node2"), (200, "node3")}


def test_a_node_hears_where_a_request_came_from_and_not_what_the_client_made_up(three: Three) -> None:
    haproxy, nodes = three
    ask(haproxy, **{"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "Host": "chat.example"})
    ((_, headers),) = [heard for node in nodes for heard in node.heard]
    assert (headers["x-forwarded-for"], headers["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert headers["host"] == "chat.example", "a page's origin is compared with it"


async def test_what_comes_behind_a_body_or_twice_names_nobody_through_haproxy(tmp_path: Path) -> None:
    """With a real node: haproxy forwards trailers and repeated headers as they are."""
    async with opened() as gateway:
        haproxy = Haproxy(tmp_path, [gateway.port] * 3)
        await asyncio.to_thread(haproxy.start)
        try:
            head = f"Host: x\r\nConnection: close\r\nX-Api-Key: {await gateway.api_key()}\r\nX-User-Id: alice\r\n"
            body = b'{"message_id":"m1","text":"hi"}'
            trailed = b"%x\r\n%b\r\n0\r\nX-User-Id: bob\r\n\r\n" % (len(body), body)
            lines = f"POST /v1/conversations/c1/messages HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n"
            assert b" 201 " in (await said_through(haproxy, lines.encode() + trailed)).split(b"\r\n")[0]
            assert {entry.sender_id for entry in gateway.log.entries["c1"]} == {"alice"}
            twice = f"GET /v1/inbox HTTP/1.1\r\n{head}X-User-Id: bob\r\n\r\n"
            assert b" 400 " in (await said_through(haproxy, twice.encode())).split(b"\r\n")[0]
        finally:
            await asyncio.to_thread(haproxy.stop)


async def said_through(haproxy: Haproxy, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", haproxy.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_figures_stay_inside(three: Three) -> None:
    haproxy, nodes = three
    for path in ("/metrics", "/%6detrics", "/%6D%65trics", "/metrics?x=1"):
        assert ask(haproxy, path=path)[0] == 404
    assert [heard for node in nodes for heard in node.heard] == []


def test_who_asks_in_the_moments_before_a_drain_is_noticed_reaches_another_node(three: Three) -> None:
    haproxy, nodes = three
    nodes[0].is_draining = nodes[0].is_slow_to_be_noticed = True
    answers = {ask(haproxy) for _ in range(30)}
    assert answers == {(200, "node2"), (200, "node3")}
    assert nodes[0].heard, "the draining node was asked first, and its refusal was not passed on"
    assert haproxy.marked()["node1"] == "UP"


def test_a_node_that_drains_or_vanishes_gets_nothing_more(three: Three) -> None:
    haproxy, nodes = three
    nodes[0].is_draining = True
    nodes[1].vanish()
    only_third = {(200, "node3")}  # on a slow machine its own check may come late, once
    haproxy.wait(lambda: {ask(haproxy) for _ in range(10)} == only_third)
    haproxy.wait(lambda: haproxy.marked() == {"node1": "DOWN", "node2": "DOWN", "node3": "UP"})
    nodes[0].heard.clear()
    haproxy.wait(lambda: {ask(haproxy) for _ in range(10)} == only_third)
    assert nodes[0].heard == []
    nodes[0].is_draining = False
    haproxy.wait(lambda: haproxy.marked()["node1"] == "UP")


def test_what_may_have_been_done_is_not_repeated(three: Three) -> None:
    """A POST that a node answered with 503 is the client's to repeat: it has an id for it."""
    haproxy, nodes = three
    for node in nodes:
        node.is_draining = node.is_slow_to_be_noticed = True
    assert ask(haproxy, "POST", "/v1/conversations/c1/messages")[0] == 503
    assert sum(len(node.heard) for node in nodes) == 1


def test_a_socket_outlives_the_check_that_marks_its_node_down(three: Three) -> None:
    """haproxy does not cut the tunnels of a node that drains: the node itself says goodbye."""
    haproxy, nodes = three
    with socket.create_connection(("127.0.0.1", haproxy.port), timeout=60) as tunnel:
        tunnel.sendall(UPGRADE)
        assert b" 101 " in tunnel.recv(4096)
        (node,) = [node for node in nodes if node.heard]
        node.is_draining = True
        haproxy.wait(lambda: haproxy.marked()[node.name] == "DOWN")
        tunnel.sendall(b"still here")
        assert tunnel.recv(1024) == b"still here"


def test_an_upgrade_refused_by_a_draining_node_is_served_by_another(three: Three) -> None:
    haproxy, nodes = three
    nodes[0].is_draining = nodes[0].is_slow_to_be_noticed = True
    with ExitStack() as stack:
        for _ in range(12):
            tunnel = stack.enter_context(socket.create_connection(("127.0.0.1", haproxy.port), timeout=60))
            tunnel.sendall(UPGRADE)
            assert b" 101 " in tunnel.recv(4096)
    assert nodes[0].heard, "the draining node was asked"
