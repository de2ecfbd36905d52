"""What the senders beside a benchmark tell of it."""

from __future__ import annotations

from tidings_proof.bench.load.senders import Ack, Witness


def test_the_witness_tells_of_what_was_sent_in_a_stretch() -> None:
    witness = Witness()
    witness.acks = [Ack(1.0, 0.5), Ack(2.0, 0.001), Ack(2.5, 0.003), Ack(3.0, 0.9)]
    assert witness.figures((2.0, 3.0)) == {"ack_p50_ms": 1.0, "ack_p99_ms": 3.0, "acks": 2}
