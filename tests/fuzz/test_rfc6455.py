"""RFC 6455, case by case, on a raw socket: framing, fragments, control frames, UTF-8, masking, closing.

The groups follow the standard's own sections. The service answers JSON, not echoes, so a whole text is shown by the
`pong` it is answered with, and a broken one by the close code. tests/journeys/test_attack_frames.py has the floods and
the oversized.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.gateway.raw_websocket import BINARY, CLOSE, PING, PONG, TEXT, Wire
from tests.support.nodes.attacked_node import Attacked

CONTINUATION = 0
ASK = json.dumps({"id": 1, "type": "ping", "note": "κόσμε 𝄞 𐍈"}, ensure_ascii=False).encode()


@pytest.fixture
async def wire(attack: Attacked) -> AsyncIterator[Wire]:
    wire = await attack.wire(attack.fresh("rfc"))
    yield wire
    wire.drop()


async def whole(wire: Wire) -> bool:
    return (await asyncio.wait_for(wire.hear(), 60)) == {"type": "pong", "id": 1}


async def closed(wire: Wire) -> int:
    return await asyncio.wait_for(wire.closed(), 60)


def in_pieces(wire: Wire, *pieces: bytes) -> None:
    for at, piece in enumerate(pieces):
        wire.raw(CONTINUATION if at else TEXT, piece, fin=at == len(pieces) - 1)


# --- 5.4 fragmentation ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 50])
async def test_a_text_in_pieces_of_any_size_is_whole(wire: Wire, size: int) -> None:
    in_pieces(wire, *(ASK[at : at + size] for at in range(0, len(ASK), size)))
    assert await whole(wire)


async def test_empty_pieces_at_both_ends_change_nothing(wire: Wire) -> None:
    in_pieces(wire, b"", ASK[:10], b"", ASK[10:], b"")
    assert await whole(wire)


@pytest.mark.parametrize("control", [PING, PONG])
async def test_control_frames_between_pieces_belong_to_nobody(wire: Wire, control: int) -> None:
    wire.raw(TEXT, ASK[:10], fin=False)
    wire.raw(control, b"between")
    wire.raw(CONTINUATION, ASK[10:20], fin=False)
    wire.raw(control, b"")
    wire.raw(CONTINUATION, ASK[20:])
    if control == PING:
        assert [await wire.frame(), await wire.frame()] == [(PONG, b"between"), (PONG, b"")]
    assert await whole(wire)


async def test_a_close_between_pieces_is_answered(wire: Wire) -> None:
    wire.raw(TEXT, ASK[:10], fin=False)
    wire.raw(CLOSE, (1000).to_bytes(2, "big"))
    assert await closed(wire) == 1000


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
async def test_a_new_message_inside_another_is_refused(wire: Wire, opcode: int) -> None:
    wire.raw(TEXT, ASK[:10], fin=False)
    wire.raw(opcode, ASK)
    assert await closed(wire) == (1002 if opcode == TEXT else 1003)


@pytest.mark.parametrize("fin", [True, False])
async def test_a_continuation_of_nothing_is_1002(wire: Wire, fin: bool) -> None:
    wire.raw(CONTINUATION, ASK, fin=fin)
    assert await closed(wire) == 1002


async def test_a_continuation_after_a_whole_text_is_1002(wire: Wire) -> None:
    in_pieces(wire, ASK[:10], ASK[10:])
    wire.raw(CONTINUATION, b"{}")
    assert await closed(wire) == 1002


# --- 5.2 bits and opcodes -------------------------------------------------------------------------


@pytest.mark.parametrize("rsv", range(1, 8))
@pytest.mark.parametrize("opcode", [TEXT, PING, CLOSE])
async def test_reserved_bits_are_1002(wire: Wire, rsv: int, opcode: int) -> None:
    wire.raw(opcode, b"", rsv=rsv)
    assert await closed(wire) == 1002


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
@pytest.mark.parametrize("payload", [b"", b"x" * 40])
async def test_reserved_opcodes_are_1002(wire: Wire, opcode: int, payload: bytes) -> None:
    wire.raw(opcode, payload)
    assert await closed(wire) == 1002


@pytest.mark.parametrize("opcode", [TEXT, PING, CLOSE])
async def test_a_client_that_does_not_mask_is_1002(wire: Wire, opcode: int) -> None:
    wire.raw(opcode, b"", is_masked=False)
    assert await closed(wire) == 1002


async def test_a_binary_message_is_1003(wire: Wire) -> None:
    wire.raw(BINARY, ASK)
    assert await closed(wire) == 1003


# --- 5.5 control frames ---------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"x", bytes(range(125)), b"\xff\xfe\x00"])
async def test_a_ping_is_answered_with_its_own_payload(wire: Wire, payload: bytes) -> None:
    wire.raw(PING, payload)
    assert await asyncio.wait_for(wire.frame(), 60) == (PONG, payload)


@pytest.mark.parametrize("opcode", [PING, PONG, CLOSE])
@pytest.mark.parametrize("how", ["long", "in pieces"])
async def test_a_control_frame_is_short_and_whole(wire: Wire, opcode: int, how: str) -> None:
    wire.raw(opcode, b"\x03\xe8" + b"x" * (124 if how == "long" else 0), fin=how == "long")
    assert await closed(wire) == 1002


async def test_pongs_that_nobody_asked_for_are_ignored(wire: Wire) -> None:
    for _ in range(10):
        wire.raw(PONG, b"unasked")
    wire.raw(TEXT, ASK)
    assert await whole(wire)


async def test_every_byte_may_come_alone(wire: Wire) -> None:
    sent = bytearray()
    wire.writer.write = sent.extend  # type: ignore[method-assign,assignment]
    wire.raw(PING, b"drip")
    wire.raw(TEXT, ASK)
    del wire.writer.write
    for byte in sent:
        wire.writer.write(bytes((byte,)))
        await wire.writer.drain()
    assert await wire.frame() == (PONG, b"drip")
    assert await whole(wire)


# --- 7.4 close codes ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
async def test_a_close_with_a_code_of_the_standard_is_answered_with_it(wire: Wire, code: int) -> None:
    wire.raw(CLOSE, code.to_bytes(2, "big") + "grüße".encode())
    assert await closed(wire) == code


async def test_a_close_without_a_code_is_answered(wire: Wire) -> None:
    wire.raw(CLOSE, b"")
    assert await closed(wire) in (0, 1000, 1005)


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535])
async def test_a_close_with_a_code_that_nobody_may_send_ends_the_socket(wire: Wire, code: int) -> None:
    wire.raw(CLOSE, code.to_bytes(2, "big"))
    assert await closed(wire) in (1002, code)


@pytest.mark.parametrize("payload", [b"\x03", b"\x03\xe8\xff\xfe"], ids=["one byte", "a reason that is no text"])
async def test_a_malformed_close_ends_the_socket(wire: Wire, payload: bytes) -> None:
    wire.raw(CLOSE, payload)
    assert await closed(wire) in (1000, 1002, 1007, 0x0300)


async def test_nothing_is_answered_after_a_close(wire: Wire) -> None:
    wire.raw(CLOSE, (1000).to_bytes(2, "big"))
    wire.raw(TEXT, ASK)
    assert await asyncio.wait_for(wire.frame(), 60) == (CLOSE, (1000).to_bytes(2, "big"))
    said = b""
    with suppress(ConnectionError):  # what we said last was not read: the end may be a reset
        while block := await asyncio.wait_for(wire.reader.read(1024), 60):
            said += block
    assert said == b""


# --- 8.1 UTF-8 ------------------------------------------------------------------------------------

BROKEN = {
    "a lone continuation": b"\x80",
    "an unfinished character": b"\xce",
    "an overlong slash": b"\xc0\xaf",
    "an overlong NUL": b"\xc0\x80",
    "a surrogate": b"\xed\xa0\x80",
    "a pair of surrogates": b"\xed\xa0\x80\xed\xb0\x80",
    "beyond the last character": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "a byte that never occurs": b"\xff",
}


@pytest.mark.parametrize("bad", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("how", ["at once", "split"])
async def test_a_text_that_is_not_utf_8_is_1007(wire: Wire, bad: bytes, how: str) -> None:
    pieces = [b'{"id":1,"note":"' + bad + b'","type":"ping"}']
    if how == "split":
        pieces = [b'{"id":1,"note":"', *(bad[at : at + 1] for at in range(len(bad))), b'","type":"ping"}']
    in_pieces(wire, *pieces)
    assert await closed(wire) == 1007


async def test_a_character_may_be_split_between_pieces(wire: Wire) -> None:
    at = ASK.index("𝄞".encode()) + 2
    in_pieces(wire, ASK[:at], ASK[at:])
    assert await whole(wire)


# --- all of it together -----------------------------------------------------------------------------

frame = st.tuples(
    st.integers(0, 15), st.binary(max_size=200), st.booleans(), st.sampled_from((0, 0, 0, 1, 4)), st.booleans()
)


@settings(max_examples=40)
@given(frames=st.lists(frame, max_size=12), garbage=st.binary(max_size=80))
def test_any_frames_end_in_an_answer_or_a_close(
    attack: Attacked, frames: list[tuple[int, bytes, bool, int, bool]], garbage: bytes
) -> None:
    async def play() -> None:
        wire = await attack.wire(attack.fresh("any"))
        with suppress(ConnectionError):  # closed while we were still speaking: that is an end, too
            for opcode, payload, fin, rsv, is_masked in frames:
                wire.raw(opcode, payload, fin=fin, rsv=rsv, is_masked=is_masked)
            wire.writer.write(garbage)
            wire.raw(CLOSE, (1000).to_bytes(2, "big"))
            with suppress(OSError):  # "not connected" is no ConnectionError
                wire.writer.write_eof()
            await asyncio.wait_for(wire.reader.read(), 60)  # it ends
        wire.drop()
        witness = await attack.wire("witness")
        assert (await witness.ask("ping"))["type"] == "pong"
        witness.drop()

    asyncio.run(play())
