"""Data that a benchmark finds there."""

from __future__ import annotations

from pathlib import Path

from tidings_proof.bench.target.seeding import Words, group, tables_in


def test_the_texts_are_the_same_with_every_run_and_differ_from_each_other() -> None:
    one, other = Words(), Words()
    texts = [one.text() for _ in range(200)]
    assert texts == [other.text() for _ in range(200)]
    assert len(set(texts)) > 190 and 40 < sum(map(len, texts)) / 200 < 90


async def test_a_group_has_its_messages_up_to_the_time_asked_for(tmp_path: Path) -> None:
    async with tables_in(tmp_path) as tables:
        await group(tables, "g1", ["a", "b"], 50, 1_000_000)
        head = (await tables.conversations.heads(["g1"]))["g1"]
    assert (head.head, head.last_ms) == (50, 1_000_000)
