"""The table of benchmarks agrees with the flags, the claims and the trials."""

from __future__ import annotations

from importlib import import_module

import pytest

from tidings_proof.bench.claims.growth import CURVES
from tidings_proof.bench.claims.isolation import PARTS
from tidings_proof.bench.claims.send import SERVERS
from tidings_proof.bench.names import BENCHMARKS, FLAGS, WITH_TARGETS
from tidings_proof.bench.trials.table import TRIALS
from tidings_proof.bench.trials.trials import Wanted


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_size_of_a_benchmark_has_a_flag(name: str) -> None:
    one = BENCHMARKS[name]
    assert set(one.sizes) | set(one.sizes_on_url or {}) <= set(FLAGS)
    assert set(one.quick) <= set(one.sizes)


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_every_benchmark_with_targets_is_a_claim(name: str) -> None:
    assert callable(import_module(f"tidings_proof.bench.{BENCHMARKS[name].room}.{name}").run)


def test_every_benchmark_that_takes_a_url_is_a_trial() -> None:
    assert {name for name, one in BENCHMARKS.items() if one.sizes_on_url is not None} == set(TRIALS)
    assert all(set(BENCHMARKS[name].sizes_on_url or {}) <= set(Wanted.__struct_fields__) for name in TRIALS)


def test_the_parts_that_can_be_run_alone_are_named() -> None:
    assert (BENCHMARKS["send"].only, BENCHMARKS["growth"].only) == (tuple(SERVERS), tuple(CURVES))
    assert BENCHMARKS["isolation"].only == PARTS
