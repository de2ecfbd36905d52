"""The textbook server: one message is stored, indexed and pushed, as a tutorial would do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.load.plan import Pair, Pairs, Plan, measure
from tidings_proof.bench.target.own_node import SECRET, folder
from tidings_proof.bench.target.servers import textbook


def test_a_pair_of_users_talks_over_it() -> None:
    pytest.importorskip("fastapi", reason="the textbook server needs the extra peers")
    token = Signed(SECRET).token
    with folder() as data, textbook(Path(data)) as server:
        pair = Pair(token("alice"), token("bob"), server.direct("alice", "bob"))
        found = measure(Plan(url=server.url, load=Pairs([pair], "hi", "r1"), parts=server.parts, seconds=3.0))
        assert found.units > 0
