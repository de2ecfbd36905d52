"""What kept a server busy is named: KEYS before all, slow scripts by their file, never what people wrote."""

from __future__ import annotations

from pathlib import Path

from tests.support.doctor_targets import named, server_of, valkey
from tidings.operators.doctor.slow_commands import check_slow, parse_commandstats, read_slowlog, script_names
from tidings.stores.findings import Finding
from tidings.stores.keyspace.scripts import LUA

SLOW = "#!lua\n-- slow_one: takes its time.\nfor i = 1, ARGV[1] do redis.call('GET', KEYS[1]) end return 1"


async def test_a_keys_found_in_slowlog_is_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", "0") as patient:
        patient.ask("KEYS", "*")
        async with server_of(patient) as server:
            findings = await check_slow(server, LUA)
    finding = named(findings, "keyspace.walks")
    assert finding.level == "wrong" and finding.says.startswith("KEYS is in SLOWLOG 1 times")
    assert "use SCAN" in finding.fix and "ACL SETUSER default -keys" in finding.fix and "SLOWLOG RESET" in finding.fix
    assert "KEYS was called 1 times" in named(findings, "keyspace.commands").says


async def test_a_slow_script_is_called_by_its_name_and_its_arguments_are_not_told(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", "10000") as patient:
        digest = str(patient.ask("SCRIPT", "LOAD", SLOW))
        patient.ask("EVALSHA", digest, 1, "inbox:{alice}", 300_000, "a text that somebody wrote")
        async with server_of(patient) as server:
            entries = await read_slowlog(server, script_names([SLOW]))
            findings = await check_slow(server, [SLOW])
    assert ("EVALSHA slow_one", "inbox:{alice}") in {(entry.command, entry.key) for entry in entries or ()}
    finding = named(findings, "keyspace.slow")
    assert finding.level == "advice" and "EVALSHA slow_one inbox:{alice}" in finding.says
    assert "somebody wrote" not in repr(findings)


async def test_a_server_with_nothing_slow_is_fine(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", "-1") as patient:
        async with server_of(patient) as server:
            findings: list[Finding] = await check_slow(server, LUA)
    assert {finding.level for finding in findings} == {"ok"}


async def test_a_server_that_hides_its_slowlog_is_unknown(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("ACL", "SETUSER", "default", "-slowlog")
        async with server_of(patient) as server:
            assert named(await check_slow(server, LUA), "keyspace.slow").level == "unknown"


def test_every_script_of_ours_has_a_name() -> None:
    names = script_names(LUA)
    assert len(names) == len(LUA) and "inbox_index" in names.values()


def test_commands_are_told_by_the_time_they_took() -> None:
    stats = parse_commandstats(
        {"cmdstat_get": "calls=4,usec=8,usec_per_call=2", "cmdstat_config|set": "calls=1,usec=9"}
    )
    assert [(busy.command, busy.us_each) for busy in stats] == [("CONFIG SET", 9.0), ("GET", 2.0)]
