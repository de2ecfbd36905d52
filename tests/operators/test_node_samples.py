"""Samples: what nodes write down, and what is made of two of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings.bounds import SAMPLES_MAX, SAMPLES_TTL_S
from tidings.node.graph import Core
from tidings.operators.figures import Latency
from tidings.operators.node_samples import STEP_MS, Sample, Samples, point_of, points
from tidings.stores.keyspace.call import plain

EDGES_S = (0.001, 0.01, 0.1)


def sample(at_ms: int, node_id: str = "a", **counts: Any) -> Sample:
    return Sample(at_ms=at_ms, node_id=node_id, version="1", **{"started_ms": 0, **counts})


async def unheard(sample: Sample) -> None: ...


def test_figures_are_what_happened_between_two_samples() -> None:
    before = sample(0, messages=10, ack=[0, 0, 0, 0], rejects={"send": 1})
    now = sample(2_000, messages=50, connections=3, ack=[50, 100, 100, 100], rejects={"send": 5, "http": 2})
    figures = point_of([(before, now)], EDGES_S, 2_000)
    assert (figures.messages, figures.rejects, figures.connections) == (20, 3, 3)
    assert figures.ack == Latency(1.0, 9.82)


def test_nodes_are_summed_up_and_their_latencies_merged() -> None:
    one = (sample(0, "a", ack=[0] * 4), sample(2_000, "a", messages=4, ack=[9, 9, 9, 9]))
    other = (sample(0, "b", ack=[0] * 4), sample(1_000, "b", messages=4, ack=[0, 0, 91, 91]))
    figures = point_of([one, other], EDGES_S, 2_000)
    assert figures.messages == 2 + 4
    assert figures.ack.p50_ms is not None and 10 < figures.ack.p50_ms <= 100


def test_nothing_observed_has_no_latency_and_the_slowest_is_told_as_the_last_edge() -> None:
    quiet = (sample(0, ack=[5] * 4), sample(2_000, ack=[5] * 4))
    assert point_of([quiet], EDGES_S, 0).ack == Latency(None, None)
    slow = (sample(0, ack=[0] * 4), sample(2_000, ack=[0, 0, 0, 7], stages={"store": [0, 0, 0, 7]}))
    figures = point_of([slow], EDGES_S, 0)
    assert figures.ack == figures.stages["store"] == Latency(100.0, 100.0)


def test_points_have_a_steady_step_though_samples_jitter() -> None:
    times = (100, 2_300, 3_900, 6_250, 8_010)
    found = {"a": [sample(at_ms, messages=at_ms // 100) for at_ms in times]}
    shown = points(found, EDGES_S, 0)
    assert [point.at_ms for point in shown] == [4_000, 6_000, 8_000]
    assert all(9 <= point.messages <= 11 for point in shown)
    assert [point.at_ms for point in points(found, EDGES_S, 4_000)] == [6_000, 8_000]


def test_a_node_that_went_silent_or_began_anew_says_nothing_for_a_moment() -> None:
    gone = [sample(0, "gone", connections=5), sample(2_000, "gone", connections=5)]
    stays = [sample(at_ms, "stays", connections=1) for at_ms in range(0, 20_000, 2_000)]
    shown = points({"gone": gone, "stays": stays}, EDGES_S, 0)
    assert (shown[0].connections, shown[-1].connections) == (6, 1)
    anew = [sample(0, messages=900), sample(2_000, messages=1, started_ms=1), sample(4_000, messages=9, started_ms=1)]
    assert [point.messages for point in points({"a": anew}, EDGES_S, 0)] == [4.0]


def test_without_samples_there_are_no_points() -> None:
    assert points({"a": []}, EDGES_S, 0) == []


def writer(core: Core, node_id: str, others: tuple[str, ...] = ()) -> Samples:
    def take() -> Sample:
        return sample(core.clock.now_ms(), node_id, messages=7)

    return Samples(core.keyspace, core.keys, core.clock, node_id, lambda: others, take, unheard)


async def test_any_node_reads_the_samples_of_all(core: Core) -> None:
    one, other = writer(core, "one", ("other", "silent")), writer(core, "other")
    await one.write()
    await other.write()
    await other.write()
    found = await one.read()
    assert {name: len(samples) for name, samples in found.items()} == {"one": 1, "other": 2, "silent": 0}
    assert found["other"][0].messages == 7
    assert (await one.read(core.clock.now_ms() + 20 * STEP_MS))["one"] == []


async def test_the_stream_is_short_and_goes_with_its_node(core: Core) -> None:
    one, key = writer(core, "one"), core.keys.samples("one")
    for _ in range(SAMPLES_MAX + 110):
        await one.write()
    assert await core.keyspace.one(plain(key, b"XLEN", key)) < SAMPLES_MAX + 101
    assert 0 < await core.keyspace.one(plain(key, b"TTL", key)) <= SAMPLES_TTL_S


async def test_a_sample_of_another_version_is_passed_over(core: Core) -> None:
    one, key = writer(core, "one"), core.keys.samples("one")
    await core.keyspace.one(plain(key, b"XADD", key, b"*", b"sample", b'{"at_ms": "noon"}'))
    await one.write()
    assert len((await one.read())["one"]) == 1


async def test_it_goes_on_when_one_sample_could_not_be_taken(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.bounds.SAMPLE_S", 0.01)
    turns = 0

    def take() -> Sample:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise ValueError("once")
        return sample(core.clock.now_ms())

    samples = Samples(core.keyspace, core.keys, core.clock, "a", tuple, take, unheard)
    samples.loop.start()
    await eventually(lambda: turns >= 3)
    await samples.loop.stop()
    assert (await samples.read())["a"]
