"""Overrides: checked, stored, and known to every node within seconds, whatever was refused before."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, open_faulty
from tidings import bounds
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import BadRequest, NotFound, RateLimited, TooLarge, Unavailable
from tidings.messaging.limits import overrides as module
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.limits.policy import Limits
from tidings.stores.tables.values import Override


class Rows:
    """The port in memory, which may be down."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Override] = {}
        self.changes = 0
        self.reads = 0
        self.is_down = False
        self.failed = 0

    async def put(self, override: Override) -> None:
        self.rows[override.scope, override.name, override.class_name] = override
        self.changes += 1

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        self.changes += 1
        return self.rows.pop((scope, name, class_name), None) is not None

    async def all(self) -> list[Override]:
        self.reads += 1
        return list(self.rows.values())

    async def version(self) -> str:
        if self.is_down:
            self.failed += 1
            raise Unavailable("down, says the test")
        return str(self.changes or "")


def known_to(rows: Rows) -> tuple[Overrides, list[int]]:
    changes: list[int] = []
    return Overrides(rows, Limits({"send": None}), Clock(), lambda: changes.append(1)), changes


@pytest.mark.parametrize(
    ("scope", "name", "class_name"),
    [
        ("group", "alice", "send"),
        ("user", "al ice", "send"),
        ("user", "a{b}", "send"),
        ("user", "", "send"),
        ("user", "alice", "sends"),
        ("key", "backend", "send"),
    ],
)
async def test_what_cannot_be_an_override_is_refused(scope: str, name: str, class_name: str) -> None:
    overrides, _ = known_to(Rows())
    with pytest.raises(BadRequest):
        await overrides.put(scope, name, class_name, count=5, window_s=60)
    with pytest.raises(BadRequest):
        await overrides.remove(scope, name, class_name)


async def test_they_are_read_again_only_after_a_change() -> None:
    rows = Rows()
    overrides, changes = known_to(rows)
    for _ in range(3):
        await overrides.refresh()
    assert (rows.reads, len(changes)) == (0, 0)
    await overrides.put("user", "alice", "send", count=5, window_s=60)
    for _ in range(3):
        await overrides.refresh()
    assert (rows.reads, len(changes)) == (1, 1)


async def test_one_that_is_not_there_cannot_be_taken_back() -> None:
    overrides, _ = known_to(Rows())
    with pytest.raises(NotFound):
        await overrides.remove("user", "alice", "send")


async def test_there_is_a_bound_and_those_that_are_there_can_still_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "OVERRIDES_MAX", 2)
    overrides, _ = known_to(Rows())
    for name in ("a", "b"):
        await overrides.put("user", name, "send", count=5, window_s=60)
    with pytest.raises(TooLarge):
        await overrides.put("user", "c", "send", count=5, window_s=60)
    assert (await overrides.put("user", "b", "send", count=6, window_s=60)).count == 6


async def test_while_the_tables_are_down_a_node_keeps_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERRIDES_READ_S", 0.01)
    rows = Rows()
    overrides, changes = known_to(rows)
    await overrides.put("user", "alice", "send", count=5, window_s=60)
    await overrides.start()
    rows.is_down = True
    await rows.put(Override(scope="user", name="bob", class_name="send", count=1))
    async with asyncio.timeout(60):
        while rows.failed < 2:
            await asyncio.sleep(0.01)
        assert len(changes) == 1
        rows.is_down = False
        while len(changes) < 2:
            await asyncio.sleep(0.01)
    assert [one.name for one in await overrides.all()] == ["alice", "bob"]
    await overrides.loop.stop()


async def test_a_node_that_cannot_read_them_does_not_start() -> None:
    rows = Rows()
    rows.is_down = True
    with pytest.raises(Unavailable):
        await known_to(rows)[0].start()


# --- on two nodes ---------------------------------------------------------------------------------


async def refused(node: FaultyNode, user_id: str) -> bool:
    try:
        await node.core.limiting.limiter.admit("connect", user_id)
    except RateLimited:
        return True
    return False


async def test_an_override_made_on_one_node_holds_on_the_other_after_its_next_look(
    a: FaultyNode, b: FaultyNode, settings: Settings
) -> None:
    assert bounds.OVERRIDES_READ_S <= 2
    for node in (a, b):
        await node.core.limiting.overrides.refresh()
    await a.core.limiting.overrides.put("user", "alice", "connect", count=2, window_s=60)
    assert [await refused(a, "alice") for _ in range(3)] == [False, False, True]
    assert not await refused(b, "alice")  # not yet known here
    await b.core.limiting.overrides.refresh()
    assert await refused(b, "alice")
    assert not await refused(b, "bob")


async def test_who_was_refused_under_the_old_limit_passes_at_once_under_the_new_one(a: FaultyNode) -> None:
    overrides = a.core.limiting.overrides
    await overrides.put("user", "alice", "connect", count=1, window_s=60)
    assert [await refused(a, "alice") for _ in range(2)] == [False, True]
    await overrides.put("user", "alice", "connect", count=3, window_s=60)
    assert [await refused(a, "alice") for _ in range(3)] == [False, False, True]
    await overrides.remove("user", "alice", "connect")
    assert not await refused(a, "alice")


async def test_a_limit_below_what_was_used_says_truly_when_the_next_passes(a: FaultyNode) -> None:
    for _ in range(5):
        assert not await refused(a, "alice")
    await a.core.limiting.overrides.put("user", "alice", "connect", count=2, window_s=300)
    with pytest.raises(RateLimited) as error:
        await a.core.limiting.limiter.admit("connect", "alice")
    assert error.value.limit == 2 and 299_000 < (error.value.retry_after_ms or 0) <= 300_001
    await a.core.limiting.overrides.put("user", "alice", "connect", count=0, window_s=60)
    assert await refused(a, "alice")
    assert (await a.core.limiting.limiter.budgets("alice"))["connect"].remaining == 0


async def test_sends_follow_an_override_and_name_its_limit(settings: Settings) -> None:
    async with open_faulty(settings, "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        await a.core.limiting.overrides.put("user", "alice", "send", count=2, window_s=60)
        id_ = view.head.conversation_id
        assert [await a.code("alice", id_, f"m{i}") for i in range(3)] == ["stored", "stored", "rate_limited"]
        answer = await a.submit("alice", id_, "m4")
        assert isinstance(answer, RateLimited) and answer.limit == 2
        assert await a.code("bob", id_, "b1") == "stored"


async def test_the_budgets_shown_are_those_that_hold(a: FaultyNode) -> None:
    await a.core.limiting.overrides.put("role", "bot", "read", count=7, window_s=60)
    await a.core.limiting.overrides.put("user", "alice", "typing", count=None, window_s=60)
    a.core.limiting.limiter.know("alice", "bot")
    await a.core.limiting.limiter.admit("read", "alice")
    shown = await a.core.limiting.limiter.budgets("alice")
    assert (shown["read"].limit, shown["read"].remaining) == (7, 6)
    assert "typing" not in shown
    assert (await a.core.limiting.limiter.budgets("alice"))["read"].remaining == 6  # looking is free
