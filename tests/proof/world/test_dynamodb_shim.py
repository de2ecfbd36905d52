"""The proxy in front of DynamoDB Local: its faults come from a seed. tests/stores/ has it at work."""

from __future__ import annotations

from tidings_proof.world.dynamodb_shim import FAULTS, ITEMS_OF_JAR, Faults, _chunks


def test_the_same_seed_brings_the_same_faults() -> None:
    def brought(seed: int) -> list[str | None]:
        faults = Faults(seed, throttled=0.2, lost=0.2)
        return [faults("PutItem", {}) for _ in range(50)]

    assert brought(1) == brought(1) != brought(2)
    assert {"throttled", "lost", None} == set(brought(1))


def test_a_fault_comes_only_to_what_can_have_it() -> None:
    faults = Faults(1, unprocessed=1.0)
    assert faults("PutItem", {}) is None and faults("BatchGetItem", {}) == "unprocessed"
    assert faults.injected == {"unprocessed": 1} and "unprocessed" in FAULTS


def test_a_large_transaction_is_cut_into_what_the_jar_takes() -> None:
    assert [len(part) for part in _chunks(list(range(23)))] == [ITEMS_OF_JAR, ITEMS_OF_JAR, 3]
