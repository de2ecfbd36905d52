"""A node on a cluster of three shards: every use case and every script on one slot at a time, and a shard that forgets.

The same on the wheel's Valkey and on Debian's Redis, where it is installed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import Device
from tests.support.nodes.cluster_core import core_on
from tidings.bounds import RECEIPT_MEMBERS_MAX
from tidings.config.settings import Node, Settings
from tidings.model import Content, ContentPatch
from tidings.node import graph
from tidings.node.graph import Core, Stores
from tidings.pushes import MessageNew, ReceiptSummary, Resumed
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.hash_slots import slot_of
from tidings.stores.keyspace.scripts import messaging as scripts
from tidings.stores.keyspace.scripts import receipts as scripts_receipts
from tidings.stores.tables.sqlite.file import file
from tidings_proof.world.cluster import Cluster, binary_of, running_cluster
from tidings_proof.world.valkey import ValkeyProcess

USERS = [f"user{n}" for n in range(12)]
SOURCES = {**scripts.SOURCES, **scripts_receipts.SOURCES}
NAMES = {hashlib.sha1(text.encode()).hexdigest().encode(): name for name, text in SOURCES.items()}


@pytest.fixture(scope="module", params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (binary := binary_of(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    with running_cluster(tmp_path_factory.mktemp("c"), binary=binary) as cluster:
        yield cluster


class Spy:
    """A real keyspace; remembers which scripts were run, and that no call spans slots."""

    def __init__(self, keyspace: Any) -> None:
        self._keyspace = keyspace
        self.ran: set[str] = set()

    def begin(self, calls: Sequence[Call[Any]]) -> asyncio.Task[list[Any]]:
        return asyncio.get_running_loop().create_task(self.run(calls))

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        for call in calls:
            self._note(call)
        return await self._keyspace.run(calls)  # type: ignore[no-any-return]

    async def one(self, call: Call[Any]) -> Any:
        return (await self.run((call,)))[0]

    def _note(self, call: Call[Any]) -> None:
        keys: Sequence[Any] = call.words[1:2]
        if call.words[0] == b"EVALSHA":
            self.ran.add(NAMES[call.words[1]])  # type: ignore[index]
            keys = call.words[3 : 3 + int(call.words[2])]
        assert {slot_of(key) for key in keys} == {slot_of(call.key)}, call.words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keyspace, name)


@pytest.fixture
async def core(cluster: Cluster, settings: Settings) -> AsyncIterator[Core]:
    for server in cluster.servers:
        server.say("FLUSHALL")
    async with core_on(dataclasses.replace(settings, node=Node(id="n1")), cluster.url) as core:
        stores = {field.name: getattr(core, field.name) for field in dataclasses.fields(Stores)}
        yield graph.build(Stores(**{**stores, "keyspace": Spy(core.keyspace)}))


async def wrong(core: Core) -> list[Any]:
    return list((await core.verify.run(None, repair=False)).wrong)


async def unread(core: Core, user_id: str) -> int:
    return (await core.unread.totals(user_id)).total_unread


async def talk(core: Core, c: str, senders: Sequence[str], times: int, tag: str = "m") -> None:
    """Everybody sends at once, each in order."""

    async def speak(user_id: str) -> None:
        for n in range(times):
            await core.sends.send(user_id, c, f"{tag}-{user_id}-{n}", Content(f"{user_id} says {n}"))

    await asyncio.gather(*(speak(user_id) for user_id in senders))


async def group_of_all(core: Core) -> str:
    view, _ = await core.directory.create(USERS[0], kind="group", members=USERS[1:], name="all")
    for user_id in USERS:
        assert await unread(core, user_id) == 0
    return view.head.conversation_id


async def test_users_of_one_conversation_are_on_all_shards(cluster: Cluster, core: Core) -> None:
    """What the other tests rely on: a batch of the group spans the cluster."""
    owners = {cluster.serving(slot_of(core.keys.mark(user_id))) for user_id in USERS}
    assert owners == set(cluster.servers)


async def test_sends_counts_reads_and_history_are_exact(core: Core) -> None:
    c = await group_of_all(core)
    await talk(core, c, USERS[:6], 5)
    again = await core.sends.send(USERS[0], c, f"m-{USERS[0]}-0", Content(f"{USERS[0]} says 0"))
    assert again.is_duplicate
    assert [await unread(core, user_id) for user_id in USERS] == [25] * 6 + [30] * 6
    page = await core.history.page(USERS[7], c, limit=100)
    assert [entry.seq_no for entry in page.entries] == list(range(30, 0, -1))
    for number, user_id in enumerate(USERS[6:]):
        await core.unread.mark_read(user_id, c, up_to_seq=5 * number)
        assert await unread(core, user_id) == 30 - 5 * number
    await core.unread.mark_read(USERS[6], c, seqs=[3, 9])
    await core.unread.mark_unread(USERS[11], c, from_seq=21)
    assert (await unread(core, USERS[6]), await unread(core, USERS[11])) == (28, 10)
    inbox = await core.inbox.page(USERS[11], limit=20, cursor=None)
    assert [(item.row.conversation_id, item.state.unread_count) for item in inbox.items] == [(c, 10)]
    assert await wrong(core) == []


async def test_every_script_runs_on_one_slot(core: Core) -> None:
    spy: Any = core.keyspace
    c = await group_of_all(core)
    await talk(core, c, USERS[:2], 3)
    await core.rewrites.edit(USERS[0], c, (await _first_of(core, c, USERS[0])), ContentPatch("another text"))
    await core.rewrites.delete(USERS[1], c, (await _first_of(core, c, USERS[1])))
    await core.directory.add(USERS[0], c, ["late"])
    await core.directory.remove(USERS[0], c, USERS[3])
    await _lose_one_set(core, c, USERS[5])
    await _set_counter_back(core, c)
    await core.unread.mark_read(USERS[6], c, up_to_seq=2)
    await core.unread.mark_unread(USERS[6], c, from_seq=1)
    core.receipts.delivered(USERS[4], {c: 4})
    await core.receipts.flush()
    assert USERS[4] in (await core.receipts.of_message(USERS[0], c, 4))[1]
    assert len((await core.inbox.page(USERS[4], limit=20, cursor=None)).items) == 1
    device = Device(USERS[4], "1")
    await core.resume.catch_up(device, {c: 1}, since=0)
    assert [event.to_seq for event in device.events if isinstance(event, Resumed)] == [12]
    assert len([event for event in device.events if isinstance(event, MessageNew)]) == 11
    await _rebuild(core, USERS[7])
    await _sum_receipts_up(core)
    assert sorted(SOURCES.keys() - spy.ran) == []
    assert await wrong(core) == []


async def _rebuild(core: Core, user_id: str) -> None:
    """Its index is lost, and has something unread."""
    mark, before = core.keys.mark(user_id), await unread(core, user_id)
    await core.keyspace.one(plain(mark, b"UNLINK", mark))
    assert await unread(core, user_id) == before > 0


async def _sum_receipts_up(core: Core) -> None:
    """A large conversation, whose sender is connected."""
    others = [f"crowd{n}" for n in range(RECEIPT_MEMBERS_MAX)]
    view, _ = await core.directory.create("crier", kind="channel", members=others)
    channel, crier = view.head.conversation_id, Device("crier", "2")
    assert core.hub.attach(crier)
    await core.sends.send("crier", channel, "m1", Content("hear"))
    core.receipts.delivered(others[0], {channel: 1})
    await core.receipts.flush()
    summaries = [event for event in crier.events if isinstance(event, ReceiptSummary)]
    assert [(one.seq, one.delivered_count) for one in summaries] == [(1, 1)]


async def _first_of(core: Core, c: str, user_id: str) -> int:
    page = await core.history.page(user_id, c, limit=100)
    return min(entry.seq_no for entry in page.entries if entry.sender_id == user_id and entry.kind == "message")


async def _lose_one_set(core: Core, c: str, user_id: str) -> None:
    before = await unread(core, user_id)
    key = core.keys.unread(user_id, c)
    assert await core.keyspace.one(plain(key, b"UNLINK", key)) == 1
    await core.sends.send(USERS[0], c, "after the loss", Content("hello"))
    assert await unread(core, user_id) == before + 1


async def _set_counter_back(core: Core, c: str) -> None:
    key = core.keys.conv(c)
    await core.keyspace.one(plain(key, b"HINCRBY", key, b"seq", -2))
    before = (await core.history.page(USERS[0], c, limit=1)).entries[0].seq_no
    assert (await core.sends.send(USERS[0], c, "set back", Content("hello"))).entry.seq_no > before


@pytest.mark.parametrize("shard", [0, 1, 2])
async def test_a_shard_that_is_flushed_is_made_again_from_the_tables(cluster: Cluster, core: Core, shard: int) -> None:
    c = await group_of_all(core)
    await talk(core, c, USERS[:4], 3)
    cluster.servers[shard].say("FLUSHALL")
    await talk(core, c, USERS[:4], 2, tag="after")
    assert [await unread(core, user_id) for user_id in USERS] == [15] * 4 + [20] * 8
    page = await core.history.page(USERS[7], c, limit=100)
    assert [entry.seq_no for entry in page.entries] == list(range(20, 0, -1))
    assert await wrong(core) == []


async def test_counts_stay_exact_when_slots_go_to_another_server_and_come_back(cluster: Cluster, core: Core) -> None:
    """Marks that return to the server that built them are of its epoch again, and must not be believed."""
    c = await group_of_all(core)
    home, away, _ = cluster.servers
    slots = {slot_of(core.keys.mark(user_id)) for user_id in USERS} | {slot_of(core.keys.conv(c))}
    moving = [slot for slot in slots if cluster.serving(slot) is home]
    assert len(moving) > 1
    await talk(core, c, USERS[:3], 2)
    try:
        cluster.move(moving, away)
        await talk(core, c, USERS[:3], 2, tag="away")  # nobody looks: marks of the old server stay as they are
    finally:
        cluster.move(moving, home)
    assert [await unread(core, user_id) for user_id in USERS] == [8] * 3 + [12] * 9
    await talk(core, c, USERS[:3], 1, tag="back")
    assert [await unread(core, user_id) for user_id in USERS] == [10] * 3 + [15] * 9
    assert await wrong(core) == []


# --- the same on one server -----------------------------------------------------------------------


@pytest.fixture(params=["valkey", "redis"])
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ValkeyProcess]:
    if (binary := binary_of(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    (folder := tmp_path / "v").mkdir()
    server = ValkeyProcess(folder, (), binary)
    server.start()
    yield server
    server.stop()


async def pairs_talk(core: Core) -> list[int]:
    """Everybody with their neighbour: conversations whose ids are made from the users'. The counts at the end."""
    for user_id, other_id in pairwise(USERS):
        view, _ = await core.directory.create(user_id, kind="direct", members=[other_id])
        c = view.head.conversation_id
        await talk(core, c, [user_id], 3)
        await core.unread.mark_read(other_id, c, up_to_seq=1)
        core.receipts.delivered(other_id, {c: 2})
    await core.receipts.flush()
    await core.open_work.clear_closed()
    return [await unread(core, user_id) for user_id in USERS]


def shape(*servers: ValkeyProcess) -> dict[str, str]:
    """key -> its type, wherever it is. Of notes that are good for minutes the generation differs."""
    found = {}
    for server in servers:
        for key in server.command("KEYS", "*").decode().splitlines()[2::2]:
            found[key.partition("}")[0] if key.startswith("sent:") else key] = server.command("TYPE", key).decode()
    return found


def tables_with_the_secret_of(core: Core, path: Path) -> str:
    """New tables whose direct conversations get the same ids as those of the core: the ids are keyed by the secret."""
    file.prepare(path, core.clock)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'secret'", (core.tables.accounts.secret,))
    return f"sqlite://{path}"


async def test_keys_and_counts_are_those_of_one_server(
    cluster: Cluster, core: Core, alone: ValkeyProcess, settings: Settings, tmp_path: Path
) -> None:
    tables = tables_with_the_secret_of(core, tmp_path / "other.db")
    own = dataclasses.replace(settings, keyspace=alone.url, tables=tables, node=Node(id="n1"), data=tmp_path / "d")
    async with graph.open_core(own) as other:
        there, here = await pairs_talk(core), await pairs_talk(other)
        assert here == there == [0] + [2] * 11
        assert await wrong(other) == await wrong(core) == []
        assert shape(alone) == shape(*cluster.servers)
