"""Nuisances: each kind reaches the node, is answered or cut, and says how much it did."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.support.waiting import eventually
from tidings_proof.bench.load import nuisances
from tidings_proof.bench.load.nuisances import FRAMES, KINDS, RUNS, Nuisance, Tally, masked
from tidings_proof.bench.target.target import Target


def test_every_kind_can_be_run_and_its_frames_are_frames_of_the_protocol() -> None:
    assert set(RUNS) == set(KINDS)
    for frame_of, per_s in FRAMES.values():
        first, second = json.loads(frame_of(1)), json.loads(frame_of(2))
        assert first["type"] == second["type"] and first != second and per_s > 0
    assert len(json.loads(FRAMES["receipts"][0](1))["acks"]) == nuisances.ACKS


@pytest.mark.parametrize("size", [0, 125, 126, 6_000])
def test_a_frame_carries_its_length_and_a_mask_of_zeros(size: int) -> None:
    frame = masked(b"x" * size)
    head = 2 if size < 126 else 4
    assert frame[0] == 0x81 and frame[1] & 0x80
    assert frame[head : head + 4] == bytes(4) and frame[head + 4 :] == b"x" * size


@pytest.mark.parametrize("kind", KINDS)
async def test_a_nuisance_works_on_a_node_until_it_is_told_to_end(target: Target, kind: str) -> None:
    users = ["nuisance0", "nuisance1"]
    channel = await asyncio.to_thread(target.together, "channel", users)
    order = Nuisance(kind, target.url, [target.token(one) for one in users], channel, each=3)
    tally, ended = Tally(), asyncio.Event()
    working = asyncio.ensure_future(RUNS[kind](order, tally, ended))
    is_silent = kind in ("receipts", "abandon")  # these frames ask for no answer
    await eventually(lambda: tally.sent >= 6 and (is_silent or tally.answered + tally.closed > 0))
    ended.set()
    async with asyncio.timeout(60):
        await working
    if kind == "burst":
        assert (tally.sent, tally.answered) == (6, 6)


async def test_a_socket_that_the_server_closed_is_opened_again(target: Target) -> None:
    tally = Tally()
    sockets = nuisances.Sockets(Nuisance("abandon", target.url, [target.token("nuisance2")]), tally)
    await sockets.open()
    [line] = sockets.lines
    line.write(masked(b"\xff\xfe"))  # not UTF-8: the server closes at once
    await eventually(lambda: not line.is_open)
    await sockets.open_again()
    assert sockets.lines[0].is_open and tally.closed == 1
    sockets.close()


def test_a_process_of_its_own_reports_what_it_did(target: Target) -> None:
    with nuisances.nuisance(target, "burst", ["nuisance3"], target.together("channel", ["nuisance3"]), 2) as tally:
        assert tally == Tally()
    assert (tally.sent, tally.answered) == (2, 2)


def test_nothing_is_written_to_a_server_that_does_not_read() -> None:
    transport = SimpleNamespace(get_write_buffer_size=lambda: nuisances.HELD_BYTES + 1)
    line = nuisances.Line(None, SimpleNamespace(transport=transport), Tally())  # type: ignore[arg-type]
    assert line.is_full
