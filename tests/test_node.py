"""How a node goes: within its time, whatever hangs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidings import node
from tidings.clock import Clock
from tidings.config import Settings
from tidings.errors import Unavailable


def leaving(drain: Any, flush: Any) -> tuple[Any, Any, Any]:
    async def done() -> None:
        pass

    parts = SimpleNamespace(drain=done, stop=done, close=done)
    core = SimpleNamespace(
        sends=SimpleNamespace(drain=drain),
        receipts=SimpleNamespace(flush=flush),
        signals=parts,
        limiting=parts,
        cold=SimpleNamespace(archiving=parts),
        due=parts,
        notify=parts,
        tending=parts,
        tracing=parts,
    )
    return core, parts, SimpleNamespace(samples=parts)


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_node_that_cannot_finish_leaves_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node, "DRAIN_S", 0.1)
    began_s = Clock().monotonic_s()
    await node._leave(*leaving(hangs, hangs))
    assert Clock().monotonic_s() - began_s < 5
    assert "out of time" in caplog.text


async def test_receipts_are_written_also_where_the_keyspace_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    flushed = []

    async def gone() -> None:
        raise Unavailable("no keyspace")

    async def flush() -> None:
        flushed.append(True)

    await node._leave(*leaving(gone, flush))
    assert flushed == [True] and "no keyspace" in caplog.text


class OffClock(Clock):
    """A machine that nobody has set by NTP."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    def now_ms(self) -> int:
        return super().now_ms() + round(self.off_s * 1000)


@pytest.mark.parametrize(
    ("off_s", "level", "says"),
    [(12, "ERROR", "12.0 s ahead of"), (-4.5, "ERROR", "4.5 s behind"), (2, "WARNING", "2.0 s ahead of")],
)
async def test_a_node_whose_clock_is_off_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture, off_s: float, level: str, says: str
) -> None:
    async with node.open_node(settings, OffClock(off_s)):
        [record] = [record for record in caplog.records if "clock" in record.message]
        assert record.levelname == level and f"this machine's clock is {says} the keyspace's" in record.message


async def test_a_node_whose_clock_is_right_says_nothing_of_it(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.open_node(settings):
        assert "clock" not in caplog.text
