"""`tidings search rebuild`: the index is made from the log."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tidings.config.settings import Settings
from tidings.messaging.search.search import Question
from tidings.model import Content
from tidings.node import graph


async def test_the_index_is_made_anew(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.cli.search import _index_all

    async with graph.open_core(settings) as core:
        view, _ = await core.directory.create("alice", kind="group", members=["bob"], name="g")
        await core.sends.send("alice", view.head.conversation_id, "m1", Content("hello"), None)
        assert await _index_all(core) == (1, 1)
        found = await core.searching.search.find("bob", Question(q="hello"))
        assert len(found.hits) == 1 and found.is_complete
        without = dataclasses.replace(core, tables=dataclasses.replace(core.tables, search=None))
        assert await _index_all(without) == (0, 0)
