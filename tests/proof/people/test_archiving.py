"""Archivers that race: whatever becomes of them, every text is where it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.faults.test_faults import world
from tidings.clock import Dice
from tidings.config.settings import Settings
from tidings_proof.faults.schedule import Step
from tidings_proof.people import archiving
from tidings_proof.people.wire import rest
from tidings_proof.world.keyspaces import AnyKeyspace
from tidings_proof.world.world import Place, open_world


def test_stores_that_are_not_ours_are_not_archived(tmp_path: Path) -> None:
    assert archiving.lacking(world(tmp_path, AnyKeyspace(""))) is None
    assert archiving.lacking(world(tmp_path, AnyKeyspace(""), "http://127.0.0.1:1")) == "the stores are not ours"


@pytest.mark.long
@pytest.mark.parametrize("target", [0.1, 0.9], ids=["stopped", "killed"])
async def test_a_race_loses_no_text(tmp_path_factory: pytest.TempPathFactory, target: float) -> None:
    place = Place(tmp_path_factory.mktemp("w"), 1, "sqlite+valkey", Settings())
    async with open_world(place, Dice(1)) as made:
        (port,), token = made.ports(), made.token("alice")
        body = {"kind": "group", "members": ["bob"]}
        id_ = (await rest(port, token, "POST", "/v1/conversations", body))[1]["conversation_id"]
        path = f"/v1/conversations/{id_}/messages"
        for n in range(30):
            await rest(port, token, "POST", path, {"message_id": f"m{n}", "text": f"text {n}"})
        await archiving.race(made, Step(0, "", 1, target, 0.1))
        assert await archiving.run_once(made) == 0
        messages = (await rest(port, token, "GET", f"{path}?limit=100"))[1]["messages"]
        assert [message["text"] for message in reversed(messages)] == [f"text {n}" for n in range(30)]
