"""The archive benchmark's own parts: its texts, which pages it asks for, and what it makes of a run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import apsw

from tidings.messaging.archive.mover import Archived
from tidings.messaging.archive.recheck import Rechecked
from tidings.messaging.archive.schedule import Pass
from tidings_proof.bench.claims import archive

GIVEN = argparse.Namespace(messages=100, conversations=6, clients=3)


def test_scrolling_asks_for_every_page_of_one_conversation() -> None:
    for reader in archive.scroll("cold", GIVEN):
        asked = [json.loads(request) for request in reader.requests]
        assert {request["conversation_id"] for request in asked} == {"cold0"}
        assert sorted(request["before_seq"] for request in asked) == [21, 41, 61, 81, 101]


def test_every_other_conversation_is_asked_for_once() -> None:
    asked = [json.loads(request) for reader in archive.first("hot", GIVEN) for request in reader.requests]
    assert sorted(request["conversation_id"] for request in asked) == [f"hot{number}" for number in range(1, 6)]


def test_a_run_is_told_per_million_messages() -> None:
    done = Pass(Archived(messages=2_000, segments=2, bytes=50_000), Rechecked())
    made = archive.Archiving(done, seconds=0.1, cpu_s=0.04, freed_bytes=100_000)
    assert (made.per_s, made.cpu_us) == (20_000, 20)
    assert (made.objects_per_million, made.bytes_per_million, made.freed_per_million) == (1_000, 25_000_000, 50_000_000)


def test_the_tables_are_measured_packed(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "tidings.db"))
    connection.execute("CREATE TABLE t (x)")
    connection.executemany("INSERT INTO t VALUES (?)", [(b"x" * 4_000,)] * 100)
    full = archive.table_bytes(tmp_path)
    connection.execute("DELETE FROM t")
    connection.close()
    assert full - archive.table_bytes(tmp_path) > 350_000
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("packed")] == []
