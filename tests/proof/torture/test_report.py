"""The verdict in words and as JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest

from tidings.cli.main import _parse
from tidings_proof.judge.checker import Finding, Violation
from tidings_proof.torture.cli import _options
from tidings_proof.torture.report import again, as_json, as_text
from tidings_proof.torture.run import Beat, Done, Options, Outcome


def outcome(*findings: Finding, **fields: Any) -> Outcome:
    options = Options(seed=7, seconds=20, faults=("node-kill",))
    made = Outcome(
        options=options,
        findings=list(findings),
        counts={"sent": 1_234, "acknowledged": 1_200},
        done=[Done("node-kill", 3.0, 5.5), Done("node-kill", 8.0, 9.0)],
        left_out={"keyspace-clock": "libfaketime is not installed"},
        beats=[Beat(1.0, 40, 0, 300, ()), Beat(2.0, 0, 9, 0, ("node-kill",)), Beat(20.0, 41, 0, 310, ())],
        took_s=31.5,
        history="",
    )
    return msgspec.structs.replace(made, **fields)


KEPT = Finding("I1", "nothing is lost", 1_200, 0, [])
UNSEEN = Finding("I12", "an inbox lists", 0, 0, [])
BROKEN = Finding("I5", "in order <always>", 90, 7, [Violation("u0 got 3 after 4", 4.25), Violation("u1 <b>", None)])


def test_a_good_run_says_so_and_how_to_play_it_again() -> None:
    text = as_text(outcome(KEPT))
    assert "VERDICT: every promise was kept." in text and "BROKEN" not in text
    assert "I1  kept   nothing is lost (1,200 looked at)" in text
    assert "node-kill x2" in text and "sent 1,234" in text
    assert "keyspace-clock: libfaketime is not installed" in text
    assert "tidings torture --seed 7 --seconds 20 --faults node-kill" in text


def test_a_bad_run_names_the_promises_and_shows_what_happened() -> None:
    text = as_text(outcome(KEPT, BROKEN))
    assert "VERDICT: BROKEN. 7 violations of I5." in text
    assert "4.25 s: u0 got 3 after 4" in text


def test_what_was_not_looked_at_is_not_claimed() -> None:
    text = as_text(outcome(KEPT, UNSEEN))
    assert "I12 -      an inbox lists (not looked at)" in text
    assert "VERDICT: every promise that was looked at was kept; not looked at: I12.\n" in text
    fields = as_json(outcome(KEPT, UNSEEN))
    assert fields["held"] is True and fields["not_looked_at"] == ["I12"]
    assert "VERDICT: BROKEN. 7 violations of I5.\n" in as_text(outcome(UNSEEN, BROKEN))


def test_the_json_has_everything() -> None:
    fields = json.loads(json.dumps(as_json(outcome(KEPT, BROKEN, UNSEEN))))
    assert fields["held"] is False and fields["options"]["seed"] == 7
    assert [finding["broken"] for finding in fields["findings"]] == [0, 7, 0]
    assert [finding["state"] for finding in fields["findings"]] == ["kept", "broken", "not looked at"]
    assert fields["done"][0] == {"fault": "node-kill", "began_s": 3.0, "ended_s": 5.5}


@pytest.mark.parametrize(
    "options",
    [
        Options(seed=1),
        Options(seed=2, seconds=5, faults=(), nodes=3, users=5, rate=12.5, stores="dynamodb+cluster"),
        Options(seed=3, faults=("node-kill", "partition"), plants=("no-holds",)),
        Options(seed=4, addresses=("http://127.0.0.1:8000", "http://127.0.0.1:8001")),
    ],
)
def test_the_command_plays_the_same_run(options: Options) -> None:
    words = shlex.split(again(options))
    assert words[:2] == ["tidings", "torture"]
    assert _options(_parse("torture", words[2:])) == options
    assert words[-2:] == ["--auth-secret", "…"] or not options.addresses
