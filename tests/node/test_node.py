"""How a node goes: within its time, whatever hangs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.node import node


def leaving(drain: Any, flush: Any) -> tuple[Any, Any, Any]:
    async def done() -> None:
        pass

    parts = SimpleNamespace(drain=done, stop=done, close=done, loop=SimpleNamespace(stop=done))
    core = SimpleNamespace(
        sends=SimpleNamespace(drain=drain),
        receipts=SimpleNamespace(flush=flush),
        live_status=parts,
        names=parts,
        blocks=parts,
        limiting=SimpleNamespace(overrides=parts, audit=parts, fold=parts, activity=parts, lags=parts),
        cold=SimpleNamespace(archiving=parts),
        pushing=SimpleNamespace(due=parts, notify=parts),
        integration=SimpleNamespace(hooks=parts, deliveries=parts, lag=parts, review=None),
        threading=SimpleNamespace(rebuilds=parts),
        timed=parts,
        reactions=parts,
        searching=SimpleNamespace(indexer=parts),
        heartbeat=parts,
        rebuilds=parts,
        scrubber=parts,
        streams=parts,
    )
    return core, parts, parts


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_node_that_cannot_finish_leaves_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node, "DRAIN_S", 0.1)
    await node._leave(*leaving(hangs, hangs))
    assert [vars(record)["cause"] for record in caplog.records] == ["out of time"]


async def test_receipts_are_written_also_where_the_keyspace_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    flushed = []

    async def gone() -> None:
        raise Unavailable("no keyspace")

    async def flush() -> None:
        flushed.append(True)

    await node._leave(*leaving(gone, flush))
    assert flushed == [True] and [vars(record)["cause"] for record in caplog.records] == ["no keyspace"]


class OffClock(Clock):
    """A machine that nobody has set by NTP."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    def now_ms(self) -> int:
        return super().now_ms() + round(self.off_s * 1000)


@pytest.mark.parametrize("off_s", [12, -4.5, 2])
async def test_a_node_whose_clock_is_off_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture, off_s: float
) -> None:
    async with node.open_node(settings, OffClock(off_s)):
        [record] = [record for record in caplog.records if "clock" in record.message]
        assert record.levelname == "WARNING" and abs(vars(record)["ahead_s"] - off_s) < 1


async def test_a_node_whose_clock_is_right_says_nothing_of_it(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.open_node(settings):
        assert "clock" not in caplog.text
