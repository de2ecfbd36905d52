"""The last look: the stores as they are, users as they are shown things, and what is left over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_history import Story
from tests.support.waiting import eventually
from tidings.clock import Dice
from tidings.config.settings import Settings
from tidings_proof.judge.dump import _log_shown, _marked, take_dump
from tidings_proof.judge.history import History
from tidings_proof.people.workload import Workload
from tidings_proof.torture.run import unsettled
from tidings_proof.world.valkey import start_valkey
from tidings_proof.world.world import Place, open_world


async def test_what_was_said_is_in_the_tables_and_shown_to_everybody(
    tmp_path_factory: pytest.TempPathFactory, history: History
) -> None:
    place = Place(tmp_path_factory.mktemp("w"), 1, "sqlite+valkey", Settings())
    async with open_world(place, Dice(1)) as world:
        people = Workload(world.ports, world.token, history, Dice(1), users=3)
        await people.gather()
        people.is_open = False
        people.start()
        await eventually(lambda: all(one.is_live for one in people.devices))
        channel = next(c for c in people.conversations.values() if c.kind == "channel" and not c.is_churned)
        people.devices[0].compose(channel.id, "hello")
        await eventually(lambda: people.devices[0].is_settled and not unsettled(people))
        dump = await take_dump(world, people, 10.0)
        await people.stop()
    log = dump.logs[channel.id]
    assert [(entry.seq_no, entry.text) for entry in log.entries] == [(1, "hello")] and log.head.head == 1
    assert set(log.members) == set(channel.members) and (dump.left, dump.wrong, dump.unseen) == ([], [], [])
    for user_id in channel.members:
        assert [entry.text for entry in dump.shown[user_id].histories[channel.id]] == ["hello"]
        assert dump.shown[user_id].total_unread == (0 if user_id == "u0" else 1)


def test_work_of_the_living_and_nodes_of_the_dead_are_left_over(tmp_path: Path) -> None:
    server = start_valkey(tmp_path / "v")
    try:
        server.ask("SADD", "p.open:{n0-1}", "c1")
        server.ask_all([["HSET", "p.conv:{c1}", f"open:{name}", "1-1"] for name in ("n0-1", "n1-1")])
        server.ask("ZADD", "p.nodes", 1, "n0-1", 2, "n1-2")
        assert sorted(_marked(server, "p.", {"n1-1", "n1-2"})) == [
            "nodes: n0-1 is listed and dead",
            "p.conv:{c1}: open:n1-1",
            "p.open:{n0-1}: ['c1']",
        ]
    finally:
        server.stop()


def test_a_log_can_be_had_from_what_its_leader_is_shown() -> None:
    story = Story()
    story.said("u0", "a")
    story.changed("removed", "u1")
    log = _log_shown(story.conversation, [story.seen(1), story.seen(2)])
    assert [(entry.seq_no, entry.kind, entry.message_id) for entry in log.entries[:1]] == [(1, "message", "a")]
    assert log.entries[1].member is not None and log.entries[1].member.user_ids == ("u1",) and log.head.head == 2
