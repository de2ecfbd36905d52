"""Tidings in the comparison: the same pages over REST and over WebSocket."""

from __future__ import annotations

import json

import pytest

from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus.ours import OurServer, start
from tidings_proof.bench.versus.rivals import QUICK
from tidings_proof.bench.versus.works import prepared


def test_the_pages_over_websocket_are_those_over_rest(target: Target) -> None:
    server = OurServer(target, QUICK)
    rest, frames = server.history("http"), server.history("ws")
    assert rest is not None and frames is not None
    one, other = rest.readers[1].requests[0], json.loads(frames.readers[1].requests[0])
    assert f"before_seq={other['before_seq']}&" in one and other["type"] == "history"


@pytest.mark.long
def test_its_seeded_history_and_inbox_are_read() -> None:
    with folder() as data, start(data, QUICK) as server:
        for work in ("history", "inbox"):
            for turn in prepared(work, server):
                assert all(figure > 0 for figure in turn(0).values())
