"""What a plan carries to the generator, and how its findings become figures."""

from __future__ import annotations

import msgspec
import pytest

from tidings_proof.bench.load.plan import Measured, Pair, Pairs, Plan, Reader, Readers

MEASURED = Measured(
    units=1_000,
    seconds=2.0,
    cpu_s={"node": 0.06, "valkey": 0.03},
    p50_ms=1.5,
    p95_ms=3.0,
    p99_ms=4.0,
    late_p99_ms=0.1,
    generator_share=0.1,
)


def test_cpu_is_per_unit_and_over_all_parts() -> None:
    assert MEASURED.per_s == 500
    assert MEASURED.cpu_us == pytest.approx(90)
    assert MEASURED.part_us("node") == pytest.approx(60)
    assert MEASURED.figures()["valkey_cpu_us"] == 30


@pytest.mark.parametrize("load", [Pairs([Pair("a", "b", "c")], "hi", "run"), Readers([Reader("a", ["/"])], "http")])
def test_a_plan_arrives_as_it_was_sent(load: Pairs | Readers) -> None:
    plan = Plan(url="http://h", parts={"node": [2]}, load=load, seconds=1.0)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
