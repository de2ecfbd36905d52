"""Programs beside the people do their work on a real world, and tell the judge what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tidings.clock import Clock, Dice
from tidings.config.settings import Settings
from tidings_proof.judge.dump import Dump
from tidings_proof.judge.history import History, read_history
from tidings_proof.people.agents import Agents
from tidings_proof.people.workload import Workload
from tidings_proof.world.world import Place, open_world


@pytest.mark.timeout(300)
async def test_they_write_schedule_and_are_told_of_every_entry(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("w")
    history = History(folder / "history", Clock())
    async with open_world(Place(folder, 1, "sqlite+valkey", Settings()), Dice(1)) as world:
        people = Workload(world.ports, world.token, history, Dice(1), users=3)
        agents = Agents(world, people, history, Dice(2))
        try:
            await agents.start()
            await eventually(lambda: history.counts["event", "stream"] > 0 and history.counts["event", "scheduled"] > 0)
            await agents.finish()
            await agents.look(Dump())
        finally:
            await agents.stop()
    history.close()
    found = {record.f: record.value for record in read_history(Path(folder / "history"))}
    entries, unread = found["agents-log"]
    kinds = [kind for _, kind, *_ in entries]
    assert unread == kinds.count("message") > 1
    (head,) = found["hook-heads"].values()
    assert head == len(entries)
