"""ejabberd in the comparison: the archive it is seeded with, and pairs, a room and pages over its streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus import ejabberd
from tidings_proof.bench.versus.rivals import PAGE, QUICK
from tidings_proof.bench.versus.works import prepared


def test_a_missing_server_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ejabberd, "binaries", lambda: tmp_path)
    monkeypatch.setattr(ejabberd, "_LIBRARIES", tmp_path)
    assert ejabberd.missing() == "not installed: apt install ejabberd erlang-p1-pgsql postgresql"


def test_everyone_who_takes_part_has_an_account() -> None:
    assert ejabberd.people(QUICK) == {"sender": 5, "recipient": 5, "reader": 2, "member": 20, "idle": 30}


def test_the_pages_of_a_reader_cover_the_archive() -> None:
    server = ejabberd.XmppServer(Target("tcp://nowhere", Signed("secret")), QUICK, 0)
    load = server.history("http")
    assert load is not None and server.history("ws") is None
    marks = {before for one in load.readers[0].requests for before in one.split("<before>")[1].split("<")[:1]}
    assert marks == {str(number * 1_000) for number in range(QUICK.messages + 1, PAGE, -PAGE)}
    assert len(server.channel(10).listeners["tcp://nowhere"]) == 9


@pytest.mark.long
def test_pairs_a_room_and_pages_work_over_it() -> None:
    if lack := ejabberd.missing():
        pytest.skip(lack)
    with folder() as data, ejabberd.start(data, QUICK) as server:
        for work in ("send", "history", "inbox", "fanout"):
            assert all(figure > 0 for turn in prepared(work, server) for figure in turn(0).values())
