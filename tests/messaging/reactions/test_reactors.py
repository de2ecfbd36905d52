from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadCursor, NotFound
from tidings.messaging.reactions import reactors
from tidings.messaging.summaries import Summary, key_of, put_of


async def test_who_reacted_comes_in_pages_and_a_change_between_them_hides_nobody(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactors, "REACTORS_PAGE_MAX", 2)
    await a.send("alice", group, "m1")
    everybody = {"up": ["u3", "u1", "u2"], "down": ["u1", "u9"]}
    await a.tables.records.put([put_of(key_of(group, 1), Summary(everybody), 0)])
    page = a.core.reactors.page
    first, cursor = await page("bob", group, 1)
    assert first == {"down": ["u1", "u9"]} and cursor is not None
    await a.tables.records.put([put_of(key_of(group, 1), Summary(everybody | {"down": ["u9"]}), 1)])
    second, cursor = await page("bob", group, 1, cursor=cursor)
    assert second == {"up": ["u1", "u2"]}
    assert await page("bob", group, 1, cursor=cursor) == ({"up": ["u3"]}, None)


async def test_strangers_and_who_makes_a_cursor_up_learn_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    with pytest.raises(NotFound):
        await a.core.reactors.page("mallory", group, 1)
    with pytest.raises(NotFound):
        await a.core.reactors.page("bob", group, 2)
    for cursor in ("x", "AAAA", "W10"):
        with pytest.raises(BadCursor):
            await a.core.reactors.page("bob", group, 1, cursor=cursor)
    await a.core.rewrites.delete("alice", group, 1)
    with pytest.raises(NotFound):
        await a.core.reactors.page("bob", group, 1)
