"""A whole examination: every family is looked at, and none can hide what the others found."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.doctor_targets import fill, make_read_only, named, settings_for, small_disk, valkey
from tidings.clock import Clock
from tidings.config.settings import Auth, tables_url
from tidings.operators.doctor import examination
from tidings.operators.doctor.examination import examine
from tidings.operators.doctor.servers import open_servers, refusal
from tidings.stores.findings import Finding
from tidings.stores.keyspace.hash_slots import slot_of
from tidings.stores.tables.sqlite.adapter import path_of
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings_proof.world.cluster import running_cluster
from tidings_proof.world.valkey import ValkeyProcess


async def test_a_good_installation_is_healthy(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        settings = settings_for(tmp_path, patient.url)
        sqlite_file.prepare(path_of(tables_url(settings)), Clock())
        report = await examine(settings, {}, Clock())
    assert report.is_healthy, report.findings
    assert {finding.family for finding in report.findings} >= {"settings", "host", "tables", "keyspace"}
    assert report.keyspace[0].is_whole
    assert not any(finding.name.endswith(".check") for finding in report.findings), report.findings


async def test_a_keyspace_that_is_down_does_not_hide_the_rest(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, "redis://127.0.0.1:1")
    report = await examine(dataclasses.replace(settings, auth=Auth(secret="a" * 40)), {}, Clock())
    wrong = {finding.name for finding in report.findings if finding.level == "wrong"}
    assert wrong == {"settings.secret", "keyspace.reachable"} and not report.is_healthy


async def test_a_full_disk_is_named_whatever_else_fails_with_it(tmp_path: Path, valkey: ValkeyProcess) -> None:
    with small_disk(tmp_path / "d") as folder:
        fill(folder)
        report = await examine(settings_for(folder, valkey.url), {}, Clock(), census_s=0)
    assert named(report.findings, "host.disk").level == named(report.findings, "host.write").level == "wrong"


@pytest.mark.parametrize("spoil", [fill, make_read_only])
async def test_an_embedded_server_that_cannot_start_there_hides_nothing(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    with small_disk(tmp_path / "d") as folder:
        (folder / "valkey").mkdir(mode=0o700)
        settings = settings_for(folder)
        spoil(folder)
        report = await examine(settings, {}, Clock())
    wrong = {finding.name for finding in report.findings if finding.level == "wrong"}
    assert {"host.disk", "host.write", "keyspace.reachable"} <= wrong, report.findings


async def test_a_check_that_hangs_or_fails_is_a_finding(
    tmp_path: Path, valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*words: object) -> Iterable[Finding]:
        await asyncio.Event().wait()
        return ()

    async def fails(*words: object) -> Iterable[Finding]:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(examination, "DOCTOR_CHECK_S", 0.5)
    monkeypatch.setattr(examination, "check_server", hangs)
    monkeypatch.setattr(examination, "check_slow", fails)
    report = await examine(settings_for(tmp_path, valkey.url), {}, Clock(), census_s=0)
    said = [finding.says for finding in report.findings if finding.name == "keyspace.check"]
    assert len(said) == 2 and "did not finish" in said[0] and "of all things" in said[1]


async def test_a_cluster_is_examined_server_by_server(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        settings = settings_for(tmp_path, f"{cluster.url}?prefix=p.")
        async with open_servers(settings, Clock()) as found:
            assert found.findings == [] and found.prefix == "p."
            assert [await server.ask("PING") for server in found.servers] == [b"PONG"] * 3
        report = await examine(settings, {}, Clock())
    assert len({census.where for census in report.keyspace}) == 3
    assert len({finding.where for finding in report.findings if finding.name == "keyspace.clock"}) == 3


async def test_a_slot_that_is_being_moved_does_not_end_the_walk(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        slot = slot_of("moving")
        source = cluster.serving(slot)
        target = next(server for server in cluster.servers if server is not source)
        cluster.begin_move(slot, target)
        settings = settings_for(tmp_path, cluster.url)
        async with open_servers(settings, Clock()) as found:
            (there,) = [server for server in found.servers if server.where.endswith(f":{target.port}")]
            assert await there.ask_all([("ASKING",), ("SET", "moving", "v")]) == [b"OK", b"OK"]
            assert refusal(await there.ask("MEMORY", "USAGE", "moving")).startswith("MOVED ")
        report = await examine(settings, {}, Clock(), census_s=5)
    assert len(report.keyspace) == 3
    assert not any(finding.name == "keyspace.check" for finding in report.findings)


async def test_keys_whose_memory_is_not_told_are_not_called_seen(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask_all([["SET", "k", "v"], ["ACL", "SETUSER", "few", "on", ">p", "~*", "&*", "+@all", "-memory"]])
        settings = settings_for(tmp_path, f"unix://few:p@{patient.socket}")
        report = await examine(settings, {}, Clock(), census_s=1)
    assert "MEMORY USAGE is refused: NOPERM" in named(report.findings, "keyspace.check").says
    assert not any(finding.name == "keyspace.keys" for finding in report.findings)
