"""Attacks by bytes: frames, JSON and requests that no decent client sends. Each has its answer; the node stays up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import BINARY, CLOSE, PING, TEXT, Wire, http
from tests.support.nodes.attacked_node import CANARY, Attacked

CONTINUATION, RESERVED = 0, 3


@pytest.fixture
async def wire(attack: Attacked) -> AsyncIterator[Wire]:
    """A connected attacker; afterwards the node answers somebody else."""
    wire = await attack.wire(attack.fresh("mallory"))
    yield wire
    wire.drop()
    witness = await attack.wire("witness")
    assert (await witness.ask("ping"))["type"] == "pong"
    witness.drop()
    attack.check_unharmed()


async def closed(wire: Wire, within_s: float = 60) -> int:
    return await asyncio.wait_for(wire.closed(), within_s)


async def refused(wire: Wire) -> str:
    """The code of the next error; the socket stays open."""
    told = await wire.hear()
    assert told["type"] == "error" and not told["temporary"], told
    return str(told["code"])


# --- frames ---------------------------------------------------------------------------------------


async def test_a_frame_above_64_kib_closes_with_1009(wire: Wire) -> None:
    wire.raw(TEXT, b"x" * (64 * 1024 + 1))
    assert await closed(wire) == 1009


async def test_a_frame_that_only_says_it_is_huge_is_not_waited_for(wire: Wire) -> None:
    wire.writer.write(bytes((0x81, 0xFF)) + (2**62).to_bytes(8, "big"))
    assert await closed(wire) == 1009


async def test_pieces_are_measured_together(wire: Wire) -> None:
    wire.raw(TEXT, b"x" * 40_000, fin=False)
    wire.raw(CONTINUATION, b"x" * 40_000)
    assert await closed(wire) == 1009


async def test_pieces_without_end_are_not_waited_for(wire: Wire) -> None:
    wire.raw(TEXT, b"", fin=False)
    for _ in range(300):
        wire.raw(CONTINUATION, b"", fin=False)
    assert await closed(wire) == 1009


async def test_a_frame_of_exactly_64_kib_is_read(attack: Attacked, wire: Wire) -> None:
    frame = {"id": 7, "type": "ping", "padding": ""}
    frame["padding"] = "x" * (64 * 1024 - len(json.dumps(frame)))
    wire.say_text(json.dumps(frame))
    assert (await wire.hear()) == {"type": "pong", "id": 7}


@pytest.mark.parametrize(
    ("opcode", "payload", "how", "code"),
    [
        (BINARY, b"{}", {}, 1003),
        (TEXT, b'{"type":"ping"}', {"is_masked": False}, 1002),
        (RESERVED, b"", {}, 1002),
        (11, b"", {}, 1002),
        (PING, b"x" * 126, {}, 1002),
        (PING, b"", {"fin": False}, 1002),
        (TEXT, b'{"type":"ping"}', {"rsv": 4}, 1002),
        (CONTINUATION, b"x", {}, 1002),
        (TEXT, b'{"type":"\xff\xfe"}', {}, 1007),
        (TEXT, b"\xc0\xaf", {}, 1007),
        (TEXT, b"\xed\xa0\x80", {}, 1007),
    ],
    ids=[
        "binary",
        "unmasked",
        "reserved opcode",
        "reserved control opcode",
        "control of 126 bytes",
        "control in pieces",
        "compressed",
        "a piece of nothing",
        "not UTF-8",
        "overlong UTF-8",
        "a surrogate in UTF-8",
    ],
)
async def test_what_the_standard_forbids_closes_with_its_code(
    wire: Wire, opcode: int, payload: bytes, how: dict[str, Any], code: int
) -> None:
    wire.raw(opcode, payload, **how)
    assert await closed(wire) == code


async def test_a_text_inside_another_closes_with_1002(wire: Wire) -> None:
    wire.raw(TEXT, b'{"type":', fin=False)
    wire.raw(TEXT, b'"ping"}')
    assert await closed(wire) == 1002


async def test_a_ping_between_pieces_is_answered_and_the_text_is_whole(wire: Wire) -> None:
    wire.raw(TEXT, b'{"id":5,"ty', fin=False)
    wire.raw(PING, b"between")
    wire.raw(CONTINUATION, b'pe":"ping"}')
    opcode, payload = await wire.frame()
    assert (opcode, payload) == (10, b"between")
    assert (await wire.hear()) == {"type": "pong", "id": 5}


@pytest.mark.parametrize("payload", [b"", b"\x03", b"\x03\xe8bye", b"\x03\xe8\xff", b"\x00\x00"])
async def test_any_close_frame_ends_the_socket(wire: Wire, payload: bytes) -> None:
    wire.raw(CLOSE, payload)
    async with asyncio.timeout(60):
        while await wire.reader.read(4096):
            pass


@pytest.mark.parametrize("kind", ["frames", "requests"])
async def test_a_flood_of_pings_closes_with_4013(wire: Wire, kind: str) -> None:
    for n in range(200):
        if kind == "frames":
            wire.raw(PING, b"x")
        else:
            wire.say(id=n, type="ping")
    assert await closed(wire) == 4013


async def test_half_a_frame_after_connect_holds_up_nobody(attack: Attacked, wire: Wire) -> None:
    wire.writer.write(bytes((0x81, 0x80 | 100)) + b"mask" + b"x" * 10)
    other = await attack.wire(attack.fresh("other"))
    assert (await other.ask("inbox"))["type"] == "ok"
    other.drop()


# --- JSON -----------------------------------------------------------------------------------------

DEEP = "[" * 10_000 + "]" * 10_000
BAD_JSON = {
    "nothing": "",
    "text": "hello",
    "a list": "[]",
    "a number": "7",
    "half": '{"id":1,"type":"ping"',
    "two": '{"type":"ping"}{"type":"ping"}',
    "deep": DEEP,
    "deep inside": '{"id":1,"type":"message.send","conversation_id":' + DEEP + "}",
    "deep and unknown": '{"id":1,"type":"ping","x":' + DEEP + "}",
    "NaN": '{"id":1,"type":"history","conversation_id":"c","before_seq":NaN}',
    "infinity": '{"id":1,"type":"history","conversation_id":"c","before_seq":-Infinity}',
    "1e400": '{"id":1,"type":"history","conversation_id":"c","before_seq":1e400}',
    "a fraction": '{"id":1,"type":"message.read","conversation_id":"c","up_to_seq":1.5}',
    "10,000 digits": '{"id":1,"type":"message.read","conversation_id":"c","up_to_seq":' + "9" * 10_000 + "}",
    "10,000 digits as an id": '{"id":' + "9" * 10_000 + ',"type":"ping"}',
    "below zero": '{"id":1,"type":"message.read","conversation_id":"c","up_to_seq":-1}',
    "above what is exact": '{"id":1,"type":"message.read","conversation_id":"c","up_to_seq":9007199254740993}',
    "no type": '{"id":1}',
    "unknown type": '{"id":1,"type":"message.steal"}',
    "type of another kind": '{"id":1,"type":7}',
    "id as text": '{"id":"1","type":"ping"}',
    "a lone surrogate": '{"id":1,"type":"message.send","conversation_id":"c","message_id":"m","text":"\\ud800"}',
    "a control character": '{"id":1,"type":"ping\n"}',
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
async def test_what_is_not_a_frame_is_a_bad_request(wire: Wire, text: str) -> None:
    wire.say_text(text)
    assert await refused(wire) in ("bad_request", "bad_cursor")
    assert (await wire.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
async def test_what_is_not_a_body_is_a_bad_request(attack: Attacked, text: str) -> None:
    who = attack.fresh("who")
    c = attack.group(who, messages=0)
    body = text.replace('"conversation_id":"c"', '"ignored":0').encode()
    status, answer = await attack.rest(who, "POST", f"/v1/conversations/{c}/read", body)
    assert (status, answer["error"]["code"]) == (400, "bad_request")


async def test_of_a_repeated_key_the_last_one_counts(attack: Attacked, wire: Wire) -> None:
    wire.say_text('{"id":1,"id":2,"type":"ping"}')
    assert (await wire.hear()) == {"type": "pong", "id": 2}


async def test_repeated_nonsense_closes_with_4501(wire: Wire) -> None:
    for _ in range(30):
        wire.say_text("nonsense")
    assert await closed(wire) == 4501


async def test_before_connect_nothing_is_answered_but_connect(attack: Attacked) -> None:
    wire = await Wire.open(attack.port)
    for type_ in ("inbox", "ping", "message.send"):
        wire.say(id=1, type=type_, conversation_id="c", message_id="m", text=CANARY)
        assert await refused(wire) == "unauthorized"
    assert (await wire.connect(attack.token(attack.fresh("late"))))["type"] == "hello"
    again = await wire.connect(attack.token("another"))
    assert (again["type"], again["code"]) == ("error", "bad_request")
    wire.drop()


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["x" * (16 * 1024 + 1), "ä" * (8 * 1024 + 1), "😀" * (4 * 1024 + 1)])
async def test_a_text_above_16_kib_of_utf_8_is_too_large(attack: Attacked, text: str) -> None:
    who = attack.fresh("who")
    c = attack.group(who, messages=0)
    wire = await attack.wire(who)
    answer = await wire.ask("message.send", conversation_id=c, message_id="m", text=text)
    assert (answer["type"], answer["code"], answer["temporary"]) == ("error", "too_large", False)
    path = f"/v1/conversations/{c}/messages"
    status, answer = await attack.rest(
        who, "POST", path, json.dumps({"message_id": "m", "text": text}, ensure_ascii=False).encode()
    )
    assert (status, answer["error"]["code"]) == (413, "too_large")
    whole = await wire.ask("message.send", conversation_id=c, message_id="m", text=text[: -len("x")])
    assert (whole["type"], whole["seq"]) == ("ok", 1), "one character less is a text"
    wire.drop()


async def test_a_65_kib_text_is_refused_on_both_ways(attack: Attacked, wire: Wire) -> None:
    who = attack.fresh("who")
    c = attack.group(who, messages=0)
    body = {"message_id": "m", "text": "x" * 65 * 1024}
    status, answer = await attack.rest(who, "POST", f"/v1/conversations/{c}/messages", body)
    assert (status, answer["error"]["code"]) == (413, "too_large")
    wire.say(id=1, type="message.send", conversation_id=c, **body)
    assert await closed(wire) == 1009


@pytest.mark.parametrize("text", ["a\0b", "\r\n.", "{}", "<script>alert(1)</script>", "\u202e\ufeff", "'; --"])
async def test_any_text_comes_back_as_it_was(attack: Attacked, text: str) -> None:
    who = attack.fresh("who")
    c = attack.group(who, messages=0)
    wire = await attack.wire(who)
    said = await wire.ask("message.send", conversation_id=c, message_id="m", text=text)
    assert said["type"] == "ok", said
    page = await wire.ask("history", conversation_id=c)
    assert [one["text"] for one in page["messages"]] == [text]
    wire.drop()


# --- HTTP -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://", ""])
async def test_a_page_of_another_origin_may_not_connect(attack: Attacked, origin: str) -> None:
    _, head = await Wire.handshake(attack.port, Origin=origin)
    assert b" 403 " in head.split(b"\r\n")[0]


async def test_a_page_of_our_own_may_connect(attack: Attacked) -> None:
    wire, head = await Wire.handshake(attack.port, Origin=f"http://127.0.0.1:{attack.port}")
    assert b" 101 " in head.split(b"\r\n")[0]
    wire.drop()


async def raw_http(attack: Attacked, request: bytes) -> bytes:
    """Whatever is answered to these bytes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", attack.port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_request_that_is_none_is_refused(attack: Attacked) -> None:
    for request in (
        b"hello\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ):
        assert (await raw_http(attack, request)).startswith(b"HTTP/1.1 400 "), request
    attack.check_unharmed()


async def test_an_endless_head_is_not_waited_for(attack: Attacked) -> None:
    request = b"GET /v1/inbox HTTP/1.1\r\n" + b"X-Filler: %s\r\n" % (b"x" * 1000) * 100
    answer = await raw_http(attack, request)
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""
    attack.check_unharmed()


async def test_who_begins_and_then_goes_silent_is_cut(attack: Attacked) -> None:
    """At once, because each takes its time: nothing said, half a frame, half a request."""

    async def half_a_frame() -> int:
        wire = await Wire.open(attack.port)
        wire.writer.write(bytes((0x81, 0x80 | 100)) + b"mask" + b"x" * 10)
        return await closed(wire)

    async def nothing() -> int:
        return await closed(await Wire.open(attack.port))

    half_a_request = raw_http(attack, b"GET /v1/inbox HTTP/1.1\r\nHost: x\r\nX-Half")
    ends = await asyncio.gather(nothing(), half_a_frame(), half_a_request)
    assert tuple(ends) == (4502, 4502, b"")
    attack.check_unharmed()


async def test_a_body_in_chunks_without_end_is_too_large(attack: Attacked) -> None:
    token = attack.token("alice")
    head = f"POST /v1/conversations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    chunks = b"".join(b"2000\r\n" + b"x" * 0x2000 + b"\r\n" for _ in range(12))
    answer = await raw_http(attack, head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]  # a reset may overtake the answer
    attack.check_unharmed()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/assets/..%2f..%2fcli.py", 404),
        ("GET", "/assets/../../cli.py", 404),
        ("GET", "/%2e%2e/cli.py", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/inbox", 405),
        ("GET", "/v1/inbox?limit=0", 400),
        ("GET", "/v1/inbox?limit=-1", 400),
        ("GET", "/v1/inbox?limit=1e400", 400),
        ("GET", "/v1/inbox?limit=NaN", 400),
        ("GET", "/v1/inbox?limit=" + "9" * 5_000, 400),
        ("GET", "/v1/inbox?limit=1&cursor=%ff%fe", 400),
        ("GET", "/v1/inbox?" + "a=1&" * 500, 400),
        ("GET", "/v1/conversations/c/messages?before_seq=1&after_seq=1", 400),
        ("GET", "/v1/conversations/c/messages/" + "9" * 30 + "/receipts", 400),
        ("POST", "/v1/dev/token", 404),
    ],
)
async def test_a_wrong_address_has_its_status(attack: Attacked, method: str, path: str, status: int) -> None:
    found, answer = await attack.rest("alice", method, path, {} if method == "POST" else None)
    assert found == status, answer
    assert set(answer["error"]) == {"code", "message", "temporary", "retry_after_ms"}


async def test_without_a_caller_nothing_is_said(attack: Attacked) -> None:
    for path in ("/v1/inbox", "/v1/unread", "/v1/users/alice", "/v1/conversations/c/messages", "/v1/rate_limits"):
        status, headers, answer = await http(attack.port, "GET", path)
        assert (status, answer["error"]["code"]) == (401, "unauthorized")
        assert headers["www-authenticate"] == "Bearer"
    for name, value in {"X-Api-Key": "tk_" + "0" * 64, "Authorization": "Basic YWxpY2U6eA=="}.items():
        status, _, _ = await http(attack.port, "GET", "/v1/inbox", None, {name: value, "X-User-Id": "alice"})
        assert status == 401
