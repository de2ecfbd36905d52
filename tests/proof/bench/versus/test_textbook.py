"""The textbook server in the comparison: seeded data is read through its front door."""

from __future__ import annotations

import pytest

from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.versus import textbook
from tidings_proof.bench.versus.rivals import OPENER, PAGE, QUICK, TALK


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert (textbook.missing() or "").startswith("no fastapi, redis, websockets: pip install 'tidings-proof[peers]'")


def test_the_seeded_inbox_and_history_are_there() -> None:
    if lack := textbook.missing():
        pytest.skip(lack)
    with folder() as data, textbook.start(data, QUICK) as server:
        inbox = server.target.call("GET", f"/v1/inbox?limit={PAGE}", user_id=OPENER)["conversations"]
        assert [one["unread"] for one in inbox] == [QUICK.unread] * PAGE
        path = f"/v1/conversations/{TALK}/messages?before_seq={QUICK.messages + 1}"
        page = server.target.call("GET", path, user_id="reader0")["messages"]
        assert [one["seq"] for one in page] == list(range(QUICK.messages - PAGE + 1, QUICK.messages + 1))
        opens = server.inbox()
        assert opens is not None and opens.size_bytes > 1_000
