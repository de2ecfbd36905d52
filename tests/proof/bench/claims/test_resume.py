"""Resume: every client is behind in its three conversations, and the warm storm is judged."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidings_proof.bench.claims.resume import COLD, EACH, HAD, MESSAGES, WARM, checks_of, comeback, rows


def test_each_client_is_in_three_conversations_and_each_conversation_has_three_clients() -> None:
    clients = [comeback(number, 10) for number in range(10)]
    assert all(set(one.resume.values()) == {HAD} and one.entries == EACH * (MESSAGES - HAD) for one in clients)
    assert set(Counter(id_ for one in clients for id_ in one.resume).values()) == {EACH}


def test_only_the_warm_storm_has_targets() -> None:
    slow: dict[str, Any] = {"caught_up_s": 11.0, "clients_per_s": 1.0, "cpu_us_per_client": 1.0}
    slow |= {"before": {"ack_p50_ms": 1.0}, "storm": {"ack_p99_ms": 400.0}}
    found = {COLD: slow, WARM: {**slow, "caught_up_s": 9.0}}
    assert [check.is_met for check in checks_of(found)] == [True, True]
    assert [check.is_met for check in checks_of({**found, WARM: slow})] == [False, True]
    assert len(rows(found)) == 4
