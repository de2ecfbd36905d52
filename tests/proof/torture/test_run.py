"""Whole runs: without faults every promise is kept, and with all of them too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SECRET
from tidings.config.settings import Auth, Settings
from tidings.node.node import Node
from tidings_proof.faults.faults import FAULTS
from tidings_proof.judge.history import read_history
from tidings_proof.people.workload import RATE
from tidings_proof.torture.report import as_text
from tidings_proof.torture.run import Beat, Options, torture

SENT = {"I1", "I2", "I3", "I4", "I5", "I6", "I9"}  # the promises that one message, sent and received, lets be looked at


async def test_a_quiet_run_keeps_every_promise_and_leaves_nothing_but_what_is_to_be_kept(tmp_path: Path) -> None:
    beats: list[Beat] = []
    options = Options(seed=1, seconds=3, faults=(), users=4, rate=25.0)
    outcome = await torture(options, on_beat=lambda beat, counts: beats.append(beat), keep=tmp_path / "kept")
    assert outcome.is_kept, as_text(outcome)
    # Of so few people nobody blocks another. How much they do beside sending in so short a time is chance.
    assert "I22" in outcome.not_looked_at and not {*SENT, "I12", "I15", "I16"} & set(outcome.not_looked_at), as_text(
        outcome
    )
    assert outcome.counts["acknowledged"] > 0 and outcome.counts["faults"] == 0 and beats
    assert outcome.history == str(tmp_path / "kept" / "history.jsonl")
    records = list(read_history(Path(outcome.history)))
    assert {record.user_id for record in records if record.f == "send"} <= {"u0", "u1", "u2", "u3"}
    assert sum(record.f == "send" and record.type == "ok" for record in records) == outcome.counts["acknowledged"]


async def test_a_node_that_runs_already_can_be_tried_again_with_the_same_command(node: Node) -> None:
    options = Options(seed=1, seconds=2, faults=(), users=4, rate=25.0, addresses=(f"http://127.0.0.1:{node.port}",))
    for _ in range(2):
        outcome = await torture(options, Settings(auth=Auth(secret=SECRET)))
        assert outcome.is_kept and outcome.counts["acknowledged"] > 0, as_text(outcome)
        # They need the tables, the processes and the keyspace; programs need nodes of our own; and nobody blocks.
        unseen = {"I12", "I15", "I16", "I19", "I20", "I21", "I22", "I23", "I27"}
        assert unseen <= set(outcome.not_looked_at) and not SENT & set(outcome.not_looked_at), as_text(outcome)


@pytest.mark.timeout(400)
async def test_some_seconds_of_all_faults_break_no_promise() -> None:
    """Nothing here depends on how fast the machine is: how much was done is not asked, only whether it was right."""
    outcome = await torture(Options(seed=20, seconds=8, users=4, rate=15.0))
    assert outcome.is_kept and outcome.done, as_text(outcome)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_minute_of_all_faults_breaks_no_promise() -> None:
    outcome = await torture(Options(seed=20, seconds=60))
    assert outcome.is_kept, as_text(outcome)
    assert outcome.counts["acknowledged"] > 300 and len({done.fault for done in outcome.done}) > 10, as_text(outcome)
    # libfaketime may be missing, and these tables are not PostgreSQL: both are named.
    assert all("libfaketime" in why or "PostgreSQL" in why for why in outcome.left_out.values()), outcome.left_out


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("stores", ["sqlite+embedded", "sqlite+cluster", "dynamodb+cluster"])
async def test_a_minute_on_other_stores_breaks_no_promise(stores: str) -> None:
    if stores.startswith("dynamodb"):
        from tests.support.servers.dynamodb_local import start_dynamodb
        from tidings_proof.world.dynamodb import NotThere

        if isinstance(missing := start_dynamodb(), NotThere):
            pytest.skip(f"DynamoDB Local: {missing}")
    rate = 15.0 if stores.startswith("dynamodb") else RATE
    outcome = await torture(Options(seed=21, seconds=60, stores=stores, rate=rate))
    assert outcome.is_kept, as_text(outcome)
    assert {done.fault for done in outcome.done} <= FAULTS.keys() - outcome.left_out.keys()
