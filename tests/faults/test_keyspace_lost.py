"""The keyspace loses its memory, whole or in part, while a crowd sends. The tables are the truth: nobody notices."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.devices.many_senders import Crowd
from tests.support.fault_checks import check_counts, check_everything, connect, send_until
from tests.support.nodes.node_process import NodeProcess, wait_gone
from tidings_proof.world.valkey import ValkeyProcess

Loss = Callable[[NodeProcess, str], object]


def flush_all(node: NodeProcess, c: str) -> None:
    node.keyspace().flushall()


def delete_counter(node: NodeProcess, c: str) -> None:
    assert node.keyspace().delete(f"conv:{{{c}}}") == 1


def set_counter_back(node: NodeProcess, c: str) -> None:
    assert node.keyspace().hincrby(f"conv:{{{c}}}", "seq", -100) > 0


def delete_notes_and_set_back(node: NodeProcess, c: str) -> None:
    """Neither the number nor the ids that have one: only the table can tell a resend from a new message."""
    link = node.keyspace()
    link.delete(*link.scan_iter(f"sent:{{{c}}}:*"))
    set_counter_back(node, c)


def delete_unread_sets(node: NodeProcess, c: str) -> None:
    """The marks stay warm and say how many there must be."""
    link = node.keyspace()
    assert link.delete(*link.scan_iter("unread:*")) > 0


def kill_valkey(node: NodeProcess, c: str) -> None:
    """The node sees it die and starts it again."""
    pid = node.valkey_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)


@pytest.mark.parametrize(
    "lose",
    [flush_all, delete_counter, set_counter_back, delete_notes_and_set_back, delete_unread_sets, kill_valkey],
    ids=lambda lose: lose.__name__,
)
async def test_a_loss_in_the_middle_of_sends_changes_nothing_that_is_seen(tmp_path: Path, lose: Loss) -> None:
    crowd = Crowd(users=5, devices=2)
    with NodeProcess(tmp_path / "data") as node:
        c = node.start().create_group(crowd.user_ids)
        await connect(crowd, node)
        await send_until(crowd, c, count=1_000, at=400, blow=lambda: lose(node, c))
        assert crowd.acknowledged == 1_000
        await crowd.resend(c, list(crowd.told))
        await check_everything(crowd, node, c)


@pytest.mark.parametrize(
    "lose",
    [flush_all, set_counter_back, pytest.param(delete_counter, marks=pytest.mark.long)],
    ids=lambda lose: lose.__name__,
)
async def test_a_loss_together_with_a_crash_changes_nothing_that_is_seen(tmp_path: Path, lose: Loss) -> None:
    crowd = Crowd(users=5, devices=2)

    def blow() -> None:
        lose(node, c)
        node.kill_both()

    with NodeProcess(tmp_path / "data") as node:
        c = node.start().create_group(crowd.user_ids)
        await connect(crowd, node)
        await send_until(crowd, c, count=1_000, at=400, blow=blow)
        node.start()
        await connect(crowd, node)
        await check_counts(crowd, node, c)
        await crowd.resend(c, list(crowd.told))
        await crowd.send(c, 200)
        await check_everything(crowd, node, c)


def counter_in(copy: Path, folder: Path, c: str) -> object:
    """The counter that a keyspace on this copy begins with, before any node has reached it."""
    shutil.copytree(copy, folder / "appendonlydir")
    server = ValkeyProcess(folder, ("--appendonly", "yes"))
    server.start()
    try:
        return server.ask("HGET", f"conv:{{{c}}}", "seq")
    finally:
        server.stop()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(NodeProcess.stop, id="stopped"),
        pytest.param(NodeProcess.kill_both, id="killed", marks=pytest.mark.long),
    ],
)
async def test_an_older_copy_of_the_keyspace_is_warm_but_never_believed(
    tmp_path: Path, end: Callable[[NodeProcess], None]
) -> None:
    crowd = Crowd(users=5, devices=2)
    with NodeProcess(tmp_path / "data") as node:
        c = node.start().create_group(crowd.user_ids)
        await connect(crowd, node)
        await crowd.send(c, 300)
        await check_counts(crowd, node, c)  # everybody has looked: the copy is warm
        folder, copy = node.data / "valkey" / "appendonlydir", tmp_path / "copy"
        shutil.copytree(folder, copy)
        await crowd.send(c, 300)
        reader = crowd.connected["u1-d0"]
        assert (await reader.request("message.read", conversation_id=c, up_to_seq=450))["type"] == "ok"
        await asyncio.to_thread(end, node)

        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        assert counter_in(copy, tmp_path / "w", c) == "300"
        node.start()  # it may raise the counter at once, while it finishes the open work of its life in the copy
        assert node.keyspace().hget(f"conv:{{{c}}}", "seq") in (b"300", b"600")
        await connect(crowd, node)
        await check_counts(crowd, node, c, {"u1": 450})
        await crowd.resend(c, list(crowd.told))
        await crowd.send(c, 200)
        await check_everything(crowd, node, c, {"u1": 450})
