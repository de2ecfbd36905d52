"""Stores are opened as the settings name them. The data folder is for its owner alone, where it is only ours."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import pytest

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.messaging.push.job import Job
from tidings.node import graph
from tidings.node.stores import protect
from tidings.operators.doctor.servers import open_servers
from tidings.stores.keyspace.call import Keyspace, plain
from tidings_proof.world.valkey import ValkeyProcess


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize("holds", [(), ("tidings.db", "tidings.db-wal", "valkey", "blobs", "lost+found")])
def test_a_folder_with_nothing_but_our_own_becomes_private(tmp_path: Path, holds: tuple[str, ...]) -> None:
    tmp_path.chmod(0o755)
    for name in holds:
        (tmp_path / name).touch()
    protect(tmp_path)
    assert mode_of(tmp_path) == 0o700


def test_a_folder_that_holds_other_things_is_left_alone_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.txt").touch()
    protect(tmp_path)
    assert mode_of(tmp_path) == 0o755
    assert [vars(record)["folder"] for record in caplog.records] == [str(tmp_path)]


def test_a_folder_that_does_not_exist_yet_is_left_to_the_store_that_makes_it(tmp_path: Path) -> None:
    protect(tmp_path / "data")
    assert not (tmp_path / "data").exists()


# --- the keyspace of the queues -------------------------------------------------------------------


async def streams_in(keyspace: Keyspace, prefix: str) -> set[str]:
    keys: list[bytes] = await keyspace.one(plain("", b"KEYS", f"{prefix}*"))
    return {key.decode().removeprefix(prefix).partition(":")[0] for key in keys}


async def test_audit_and_push_streams_live_in_the_keyspace_that_is_named_for_them(
    settings: Settings, valkey: ValkeyProcess
) -> None:
    apart = dataclasses.replace(settings, keyspace_queues=f"{valkey.url}?db=3")
    async with graph.open_core(apart) as core:
        core.limiting.audit.rejected("send", "alice")
        while await core.limiting.audit.flush():
            pass
        while await core.limiting.fold.step():
            pass
        await core.pushing.notify._put([Job(user_id="alice", made_ms=1)])
        assert core.queues_apart is not None
        queued = await streams_in(core.queues_apart, core.keys.prefix)
        assert queued == {"audit", "audit_flush", "audit_sums", "push"}
        assert not queued & await streams_in(core.keyspace, core.keys.prefix)
        assert [entry.event is not None for entry in await core.limiting.reader.tail(count=5)] == [True]
        page = core.metrics.render().decode()
        assert 'tidings_store_up{store="queues"} 1.0' in page


async def test_jobs_that_are_lost_with_the_queues_are_made_again(settings: Settings, valkey: ValkeyProcess) -> None:
    apart = dataclasses.replace(settings, keyspace_queues=f"{valkey.url}?db=3")
    async with graph.open_core(apart) as core:
        core.pushing.due.calls([("c1", core.clock.now_ms())])
        core.events.queues_epoch_changed("old", "new")
        assert core.pushing.due._lost == {"c1"}


async def test_doctor_examines_the_keyspace_of_the_queues_too(settings: Settings, valkey: ValkeyProcess) -> None:
    apart = dataclasses.replace(settings, keyspace_queues=f"{valkey.url}?db=3")
    async with open_servers(apart, Clock()) as found:
        assert len(found.servers) == 2
