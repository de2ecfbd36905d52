"""Trouble inside a node: told by a file, done to real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import Throttled, Unavailable
from tidings.model import User, void_at
from tidings.node import graph
from tidings.node.graph import Core
from tidings.stores.tables.values import Group
from tidings_proof.faults import trouble
from tidings_proof.faults.trouble import Trouble, TroubledPort, TroubleFile, TurnedClock, troubled


@pytest.fixture
def file(tmp_path: Path) -> TroubleFile:
    return TroubleFile(tmp_path / "trouble")


def test_without_a_file_there_is_no_trouble_and_changes_add_up(file: TroubleFile) -> None:
    assert file.read() == Trouble()
    file.change(clock_ms=5_000)
    file.change(refused=0.5)
    assert file.read() == Trouble(clock_ms=5_000, refused=0.5)
    for n in range(50):  # each a new file, which may get the number of an old one
        file.write(Trouble(clock_ms=n))
        assert file.read().clock_ms == n


def test_the_clock_jumps_and_comes_back(file: TroubleFile) -> None:
    clock = TurnedClock(file)
    file.write(Trouble(clock_ms=-3_600_000))
    assert abs(clock.now_ms() - Clock().now_ms() + 3_600_000) < 1_000
    file.write(Trouble())
    assert abs(clock.now_ms() - Clock().now_ms()) < 1_000


@pytest.mark.parametrize(
    ("harm", "error", "is_ambiguous", "is_done"),
    [
        (Trouble(refused=1), Unavailable, False, False),
        (Trouble(throttled=1), Throttled, None, False),
        (Trouble(request_lost=1), Unavailable, True, False),
        (Trouble(answer_lost=1), Unavailable, True, True),
    ],
)
async def test_a_write_meets_what_the_file_says(
    core: Core, file: TroubleFile, harm: Trouble, error: Any, is_ambiguous: bool | None, is_done: bool
) -> None:
    tables = troubled(core.tables, file, core.clock)
    await core.directory.create("alice", kind="group", members=["bob"])
    file.write(harm)
    (id_,) = [row.conversation_id for row in await core.tables.inboxes.scan("alice", after_id="", limit=5)]
    with pytest.raises(error) as caught:
        await tables.statuses.deliver([(id_, "bob", 3)])
    assert getattr(caught.value, "is_ambiguous", None) == is_ambiguous
    marks = {status.user_id: status.delivered_seq for status in await core.tables.statuses.of_conversation(id_)}
    assert marks.get("bob", 0) == (3 if is_done else 0)


async def test_what_is_not_a_message_is_left_alone(core: Core, file: TroubleFile) -> None:
    file.write(Trouble(refused=1))
    tables = troubled(core.tables, file, core.clock)
    await tables.accounts.put_user(User(user_id="alice"))
    with pytest.raises(Unavailable):
        await tables.conversations.heads(["c"])


async def test_stores_opened_afterwards_are_troubled(
    settings: Settings, file: TroubleFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "open_stores", graph.open_stores)  # type: ignore[attr-defined]
    trouble.install(file)
    file.write(Trouble(clock_ms=60_000))
    async with graph.open_core(settings) as core:
        assert core.clock.now_ms() - Clock().now_ms() > 50_000
        assert isinstance(core.tables.log, TroubledPort)


async def test_a_hot_conversation_is_throttled_and_its_neighbour_is_stored(core: Core, file: TroubleFile) -> None:
    tables = troubled(core.tables, file, core.clock)
    ids: list[str] = []
    while len(ids) < 2:
        view, _ = await core.directory.create("alice", kind="group", members=["bob"])
        if trouble.is_hot(view.head.conversation_id, 0.5) == (len(ids) == 0):
            ids.append(view.head.conversation_id)
    groups = [Group(conversation_id=id_, entries=(void_at(id_, 1, 1),)) for id_ in ids]
    file.write(Trouble(hot=0.5))
    hot, cool = await tables.log.append(groups)
    assert isinstance(hot, Throttled) and cool is None
    with pytest.raises(Throttled):
        await tables.log.append(groups[:1])
    file.write(Trouble())
    assert list(await tables.log.append(groups[:1])) == [None]
