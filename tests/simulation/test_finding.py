"""Files and search in a simulated world: they happen, and a file or a word that is wrong is noticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidings.model import Content, Entry
from tidings_proof.simulation import finding
from tidings_proof.simulation.finding import _check_words
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


def test_files_are_attached_and_deleted_and_words_are_indexed() -> None:
    shared = states = named = 0
    for seed in range(6):
        world = World(seed, Plan.odd(seed, "finding"))
        assert world.play() == []
        shared += len(world.shared)
        states += len(world.object_data)
        assert world.index is not None
        named += len(list(world.index.execute("SELECT 1 FROM messages", ())))
    assert shared > states > 0 and named > 0


async def test_a_message_that_the_index_names_or_misses_wrongly_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "FOUND_S", 0.0)

    def entry(seq_no: int, **fields: Any) -> Entry:
        return Entry(conversation_id="c", seq_no=seq_no, kind="message", sent_ms=1, message_id=f"m{seq_no}", **fields)

    async def found(*asked: object) -> Any:
        return SimpleNamespace(is_complete=True)

    async def find(asked: object) -> Any:
        return [SimpleNamespace(seq_no=2)]

    entries = [entry(1, content=Content("text one")), entry(2, is_deleted=True)]
    notes: list[str] = []
    core = SimpleNamespace(
        searching=SimpleNamespace(search=SimpleNamespace(find=found)),
        tables=SimpleNamespace(search=SimpleNamespace(find=find)),
    )
    world: Any = SimpleNamespace(
        plan=SimpleNamespace(people=["ann"]),
        is_member=lambda *who: True,
        devices=[],
        texts={"m1": "text one", "m2": "text two"},
        note=notes.append,
    )
    node: Any = SimpleNamespace(core=core)
    await _check_words(world, node, "c", entries)
    assert [note.rpartition(" ")[2] for note in notes] == ["False", "True"]
