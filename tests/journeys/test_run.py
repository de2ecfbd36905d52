"""A node as an operator meets it: it starts whatever happened before, says plainly why not, and leaves in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess, is_valkey, run_tidings, wait_gone
from tests.support.waiting import eventually
from tidings_proof.world.ports import free_port

DRAIN_S = 25.0  # below the 30 s that a drain may take: nothing holds these nodes up


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as node:
        yield node


async def connected(node: NodeProcess, user_id: str) -> Client:
    return await Client(node.port, node.token(user_id)).connect()


async def send_one(node: NodeProcess, c: str, message_id: str) -> int:
    """That it works: a message goes in, and everything so far is counted for the other."""
    alice, bob = await connected(node, "alice"), await connected(node, "bob")
    said = await alice.say(c, message_id)
    assert (said["type"], said["duplicate"]) == ("ok", False), said
    assert (await bob.request("inbox"))["total_unread"] == said["seq"]
    await alice.close()
    await bob.close()
    return int(said["seq"])


def refused(node: NodeProcess, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A start that must fail: one line on stderr and nothing else."""
    port = str(free_port())
    answer = run_tidings(
        "serve", "--port", port, "--data", str(node.data), *words, env={**node.env, **env}, cwd=node.data.parent
    )
    lines = [line for line in answer.stderr.splitlines() if not line.startswith("{")]
    assert answer.returncode != 0 and len(lines) == 1 and lines[0].startswith("tidings: "), answer
    assert answer.stdout == "" and "Traceback" not in answer.stderr, answer
    return answer


# --- starting again -------------------------------------------------------------------------------


async def test_it_starts_again_on_the_same_folder_whatever_ended_it(node: NodeProcess) -> None:
    c = node.start().create_group(["alice", "bob"])
    assert await send_one(node, c, "m1") == 1
    node.interrupt()
    assert node.ended(DRAIN_S) == 0
    node.start()
    assert await send_one(node, c, "m2") == 2
    node.terminate()
    assert node.ended(DRAIN_S) == 0
    node.start()
    assert await send_one(node, c, "m3") == 3
    node.kill()
    node.start()
    assert await send_one(node, c, "m4") == 4
    node.kill_both()
    node.start()
    assert await send_one(node, c, "m5") == 5


@pytest.mark.long
async def test_an_orphan_of_a_killed_node_does_not_stop_the_next_start(node: NodeProcess) -> None:
    """A stopped orphan hears no SIGTERM, as if the kernel had told it nothing of its parent's end."""
    c = node.start().create_group(["alice", "bob"])
    await send_one(node, c, "m1")
    orphan = node.valkey_pid()
    os.kill(orphan, signal.SIGSTOP)
    node.kill()
    assert is_valkey(orphan)
    await asyncio.to_thread(node.start)
    wait_gone(orphan)
    assert node.valkey_pid() != orphan
    assert await send_one(node, c, "m2") == 2


def test_nothing_of_it_runs_after_it_left(node: NodeProcess) -> None:
    valkey = node.start().valkey_pid()
    node.stop()
    wait_gone(valkey)
    assert not node.socket.exists()


def test_its_files_are_for_its_owner_alone(node: NodeProcess) -> None:
    node.start()
    open_ones = [path for path in node.data.rglob("*") if path.lstat().st_mode & 0o077 and not path.is_symlink()]
    assert open_ones == []
    assert node.data.stat().st_mode & 0o077 == 0


def test_a_data_folder_that_somebody_made_before_becomes_private(node: NodeProcess) -> None:
    node.data.mkdir(mode=0o755)
    node.data.chmod(0o755)
    node.start()
    assert node.data.stat().st_mode & 0o777 == 0o700


# --- leaving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [NodeProcess.interrupt, NodeProcess.terminate], ids=["ctrl-c", "sigterm"])
async def test_clients_are_told_when_to_come_back_and_then_closed(
    node: NodeProcess, end: Callable[[NodeProcess], None]
) -> None:
    node.start()
    clients = [await connected(node, f"u{n}") for n in range(5)]
    end(node)
    for client in clients:
        told = await client.event(lambda frame: frame["type"] == "draining")
        assert 0 <= told["reconnect_in_ms"] <= 30_000
        await asyncio.wait_for(client.is_lost.wait(), DRAIN_S)
        assert client.close_code == 4001
    assert await asyncio.to_thread(node.ended, DRAIN_S) == 0
    assert "Traceback" not in node.said()


async def test_a_hangup_ends_nothing_and_is_logged_once(node: NodeProcess) -> None:
    """The default action of SIGHUP is death without a drain; a closed terminal sends it."""
    c = node.start().create_group(["alice", "bob"])
    os.kill(node.pid, signal.SIGHUP)
    assert await send_one(node, c, "m1") == 1
    await eventually(lambda: node.said().count("SIGHUP ignored") == 1)
    node.terminate()
    assert await asyncio.to_thread(node.ended, DRAIN_S) == 0


async def test_sends_under_way_are_answered_before_it_leaves(node: NodeProcess) -> None:
    """Each is acknowledged and stored, or refused as temporary, or cut off; what was acknowledged is there after."""
    c = node.start().create_group(["alice", "bob"])
    alice = await connected(node, "alice")
    asked = {f"m{n}": alice.ask("message.send", conversation_id=c, message_id=f"m{n}", text="hi") for n in range(500)}
    await eventually(lambda: asked["m20"].done())
    node.terminate()
    frames = dict(zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True))
    assert await asyncio.to_thread(node.ended, DRAIN_S) == 0
    answers = {id_: frame for id_, frame in frames.items() if isinstance(frame, dict)}
    assert all(frame["type"] == "ok" or frame["temporary"] for frame in answers.values())
    told = {id_: frame["seq"] for id_, frame in answers.items() if frame["type"] == "ok"}
    assert len(told) > 20

    node.start()
    alice = await connected(node, "alice")
    for id_ in asked:
        said = await alice.say(c, id_)
        assert said["type"] == "ok" and said["seq"] == told.get(id_, said["seq"]), said
        assert said["duplicate"] or id_ not in told
    await alice.close()


async def test_a_client_that_does_not_read_does_not_keep_it(node: NodeProcess) -> None:
    node.start()
    with socket.create_connection(("127.0.0.1", node.port)) as mute:
        mute.sendall(
            b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert mute.recv(4096).startswith(b"HTTP/1.1 101")
        node.terminate()
        assert await asyncio.to_thread(node.ended, 60.0) == 0


# --- saying why not -------------------------------------------------------------------------------


async def test_a_second_node_on_the_same_folder_names_the_socket_to_share(node: NodeProcess) -> None:
    c = node.start().create_group(["alice", "bob"])
    answer = refused(node)
    assert answer.returncode == 1
    assert f"unix://{node.socket}" in answer.stderr
    assert await send_one(node, c, "m1") == 1
    shared = NodeProcess(node.data, {"TIDINGS_KEYSPACE": f"unix://{node.socket}"})
    with shared:
        shared.start()
        assert await send_one(shared, c, "m2") == 2
        shared.stop()
    assert await send_one(node, c, "m3") == 3


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"TIDINGS_PROT": "1"}, ["TIDINGS_PROT", "TIDINGS_PORT"]),
        ({"TIDINGS_LIMITS_SENT": "1/60s"}, ["TIDINGS_LIMITS_SENT", "TIDINGS_LIMITS_SEND"]),
        ({"TIDINGS_LIMITS_SEND": "lots"}, ["limits.send", "lots"]),
        ({"TIDINGS_KEYSPACE": "reddis://localhost:1/0"}, ["keyspace", "redis://"]),
        ({"TIDINGS_AUTH_SECRET": ""}, ["TIDINGS_AUTH_SECRET"]),
        ({"TIDINGS_AUTH_SECRET": "short"}, ["TIDINGS_AUTH_SECRET"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_named_in_one_line(node: NodeProcess, env: dict[str, str], named: list[str]) -> None:
    answer = refused(node, **env)
    assert answer.returncode == 2
    assert all(word in answer.stderr for word in named), answer.stderr
    assert "short" not in answer.stderr, "a secret is never shown"


def test_open_sign_in_stays_on_loopback(node: NodeProcess) -> None:
    answer = refused(node, "--dev", "--host", "0.0.0.0")
    assert answer.returncode == 2
    assert "--dev" in answer.stderr and "0.0.0.0" in answer.stderr


async def test_a_port_in_use_is_named_and_harms_nobody(node: NodeProcess, tmp_path: Path) -> None:
    c = node.start().create_group(["alice", "bob"])
    other = NodeProcess(tmp_path / "other")
    answer = refused(other, "--port", str(node.port))
    assert answer.returncode == 1
    assert str(node.port) in answer.stderr
    assert await send_one(node, c, "m1") == 1
    with other:
        other.start()  # the folder is free again, and so is its Valkey
        other.stop()


def test_a_keyspace_that_is_not_there_is_named(node: NodeProcess, tmp_path: Path) -> None:
    answer = refused(node, TIDINGS_KEYSPACE=f"unix://{tmp_path}/nobody.sock")
    assert answer.returncode == 1
    assert "nobody.sock" in answer.stderr
