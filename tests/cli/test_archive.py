"""`tidings archive`: run, status and restore, as an operator calls them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.support.messaging.archive_node import Freezer, open_freezer
from tests.support.nodes.node_process import run_tidings
from tidings.cli import archive as cli_archive
from tidings.config.settings import Settings
from tidings.messaging.archive.mover import Archived
from tidings.messaging.archive.recheck import Rechecked
from tidings.messaging.archive.schedule import Pass
from tidings_proof.world.valkey import ValkeyProcess


def environment(settings: Settings, **more: str) -> dict[str, str]:
    return {"TIDINGS_KEYSPACE": settings.keyspace, "TIDINGS_TABLES": settings.tables, **more}


async def tidings(settings: Settings, *words: str, **more: str) -> tuple[int, str, str]:
    """In a process of its own, on the same stores."""
    data = settings.data
    done = await asyncio.to_thread(
        run_tidings, *words, "--data", str(data), env=environment(settings, **more), cwd=data.parent
    )
    return done.returncode, done.stdout, done.stderr


async def filled(freezer: Freezer) -> str:
    id_ = await freezer.create("alice", "bob")
    await freezer.fill(id_, 150)
    return id_


async def test_the_way_of_a_conversation_there_and_back(settings: Settings) -> None:
    async with open_freezer(settings) as freezer:
        id_ = await filled(freezer)
        expected = [row.text for row in await freezer.rows(id_)]
        code, out, err = await tidings(settings, "archive", "run")
        assert (code, err) == (0, "")
        assert out.startswith("archived 150 messages of 1 conversations in 1 segments") and out.count("\n") == 1
        assert await freezer.texts("bob", id_) == expected
        code, out, _ = await tidings(settings, "archive", "status", "--json")
        status = json.loads(out)
        assert code == 0 and (status["segments"], status["damaged"], status["blobs"]) == (1, [], "file")
        code, out, _ = await tidings(settings, "archive", "restore", "--conversation", id_)
        assert (code, out) == (0, f"restored 150 messages of {id_}\n")
        assert [row.text for row in await freezer.rows(id_)] == expected
        code, out, _ = await tidings(settings, "archive", "run", "--conversation", id_, "--json")
        assert code == 0 and json.loads(out)["messages"] == 150


async def test_damage_is_an_exit_code_and_a_line(settings: Settings) -> None:
    async with open_freezer(settings) as freezer:
        id_ = await filled(freezer)
        await freezer.run()
        (ref,) = map(str, await freezer.refs(id_))
        await freezer.damage(id_, ref, b"nonsense")
        await freezer.page("bob", id_)
        for words in (["archive", "status"], ["archive", "run"]):
            code, out, _ = await tidings(settings, *words)
            assert code == 1 and f"{id_} {ref}" in out


async def test_who_comes_second_is_told_who_archives(settings: Settings) -> None:
    async with open_freezer(settings, node_id="busy-node") as freezer:
        await filled(freezer)
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            reached.set()
            await go_on.wait()

        freezer.archive.before_move = wait
        running = asyncio.create_task(freezer.run())
        await reached.wait()
        code, out, err = await tidings(settings, "archive", "run")
        assert (code, out) == (1, "") and "busy-node is archiving" in err and err.count("\n") == 1
        go_on.set()
        await running


def test_a_bad_id_is_one_line_and_two(valkey: ValkeyProcess, tmp_path: Path) -> None:
    done = run_tidings("archive", "restore", "--conversation", "a b", env={}, cwd=tmp_path)
    assert done.returncode == 2 and "--conversation" in done.stderr and done.stderr.count("\n") == 1


def test_the_bar_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(os.environ, "FORCE_COLOR", "1")
    monkeypatch.setitem(os.environ, "COLUMNS", "100")
    with cli_archive._bar(7) as told:
        told(Archived(conversations=3, messages=4_200))
    shown = capfd.readouterr()
    assert "3/7 conversations, 4200 messages" in shown.err and shown.out == ""


def test_the_summary_leaves_out_what_did_not_happen() -> None:
    done = Pass(Archived(conversations=2, messages=30, segments=2, bytes=2**20), Rechecked())
    assert cli_archive._summary(done) == "archived 30 messages of 2 conversations in 2 segments (1.0 MiB)"
    done = Pass(Archived(failed=1), Rechecked(rewritten=2, deleted=3, damaged=["c1 ref"]))
    assert cli_archive._summary(done).endswith(", 2 rewritten, 3 deleted, 1 failed, 1 damaged: c1 ref")
