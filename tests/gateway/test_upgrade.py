from __future__ import annotations

import pytest

from tidings.gateway.upgrade import LOOPBACK, Refusal, handshake_of, is_origin_allowed, refusal_of_upgrade

GOOD = {b"host": b"h:1", b"sec-websocket-version": b"13", b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ=="}


def refusal(method: str = "GET", target: bytes = b"/v1/ws", **changes: bytes | None) -> Refusal | None:
    named = GOOD | {name.replace("_", "-").encode(): value for name, value in changes.items()}
    headers = [(name, value) for name, value in named.items() if value is not None]
    return refusal_of_upgrade(method, target, headers, frozenset(("https://app.example.com",)))


def test_a_decent_request_goes_on() -> None:
    assert refusal() is None
    assert refusal(target=b"/v1/ws?client=ios") is None


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (404, {"target": b"/ws"}),
        (404, {"target": b"/v1/ws/"}),
        (400, {"method": "POST"}),
        (426, {"sec_websocket_version": b"8"}),
        (426, {"sec_websocket_version": None}),
        (400, {"sec_websocket_protocol": b"chat"}),
        (400, {"sec_websocket_key": b"short"}),
        (400, {"sec_websocket_key": None}),
        (400, {"sec_websocket_key": b"x" * 10_000}),
        (400, {"target": b"/v1/ws?token=abc"}),
        (403, {"origin": b"https://evil.example"}),
    ],
)
def test_anything_else_is_refused(status: int, changes: dict[str, object]) -> None:
    found = refusal(**changes)  # type: ignore[arg-type]
    assert found is not None and found.status == status


def test_the_origin_is_compared_exactly() -> None:
    allowed = frozenset(("https://app.example.com",))

    def may(origin: bytes | None, host: bytes | None = b"node:8000") -> bool:
        return is_origin_allowed(origin, host, allowed)

    assert may(None) and may(b"https://app.example.com") and may(b"http://node:8000") and may(b"https://node:8000")
    for origin in (
        b"null",
        b"",
        b"http://node",
        b"http://NODE:8000",
        b"http://node:8000/",
        b"ftp://node:8000",
        b"node:8000",
    ):
        assert not may(origin), origin
    assert not may(b"http://node:8000", None)


def test_the_request_handed_on_is_of_our_own_making() -> None:
    request = handshake_of([*GOOD.items(), (b"connection", b"keep-alive, Upgrade"), (b"x-odd", b"1")])
    assert b"Connection: Upgrade\r\n" in request and b"x-odd" not in request
    assert request.endswith(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        (b"http://localhost:5173", True),
        (b"http://127.0.0.1:3000", True),
        (b"https://[::1]", True),
        (b"http://localhost.example.org", False),
        (b"http://example.org:5173", False),
        (b"null", False),
    ],
)
def test_pages_of_this_machine_may_connect_where_loopback_is_listed(origin: bytes, may: bool) -> None:
    assert is_origin_allowed(origin, b"127.0.0.1:8000", frozenset((LOOPBACK,))) is may
    assert not is_origin_allowed(origin, b"127.0.0.1:8000", frozenset())
