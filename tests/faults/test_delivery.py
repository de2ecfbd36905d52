"""Every device of every member gets every entry, once and in order, while nodes are killed, stopped and drained.

Real nodes as processes on one Valkey and one SQLite file, devices that follow the protocol (followers.py), and a model
of what everybody must have in the end: entries, ticks, unread counts, nothing pending.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.many_senders import read_log
from tests.support.devices.plain_client import Client, Frame
from tests.support.devices.recording_device import Follower, Summary, text_of
from tests.support.nodes.node_process import NodeProcess
from tests.support.waiting import eventually
from tidings.bounds import (
    PAGE_MAX,
    RECEIPT_MEMBERS_MAX,
    RESUME_ENTRIES_MAX,
    SOCKET_QUEUE_BYTES_MAX,
    TEXT_BYTES_MAX,
)
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

PREFIX = "many."
WITHIN_S = 240.0  # whatever was promised has happened by then, also on a busy machine


class Site:
    """Some nodes that share everything, and which of them a load balancer would send somebody to."""

    def __init__(self, folder: Path, count: int) -> None:
        self.valkey: ValkeyProcess = start_valkey(folder / "v")
        self.db = folder / "shared.db"
        env = {
            "TIDINGS_KEYSPACE": f"{self.valkey.url}?prefix={PREFIX}",
            "TIDINGS_TABLES": f"sqlite://{self.db}",
            "TIDINGS_LIMITS_CONNECT": "off",
            "TIDINGS_LIMITS_HTTP": "off",
            "TIDINGS_PUSH_GRACE_S": "5",
        }
        self.nodes = [NodeProcess(folder / f"n{number}", env) for number in range(count)]
        self.up: list[NodeProcess] = []
        self._ids: dict[NodeProcess, str] = {}  # what each calls itself in this life
        self._ever: set[str] = set()

    def start(self) -> Site:
        for node in self.nodes:
            self._start(node)
        return self

    def _start(self, node: NodeProcess) -> None:
        node.start()
        (self._ids[node],) = self.listed() - self._ever
        self._ever.add(self._ids[node])
        self.up.append(node)

    def listed(self) -> set[str]:
        """The nodes that nobody has taken for dead yet."""
        words = self.valkey.command("ZRANGE", f"{PREFIX}nodes", "0", "-1").decode().split("\r\n")
        return set(words[2::2])

    def clean_up(self) -> None:
        for node in self.nodes:
            node.clean_up()
        self.valkey.stop()

    def ports(self) -> list[int]:
        return [node.port for node in self.up]

    # --- trouble ---

    async def kill(self, node: NodeProcess) -> None:
        self.up.remove(node)
        node.kill()
        await asyncio.to_thread(self._start, node)

    async def drain(self, node: NodeProcess) -> None:
        self.up.remove(node)
        node.terminate()
        assert await asyncio.to_thread(node.ended, 40) == 0, node.said()
        await asyncio.to_thread(self._start, node)

    async def stop(self, node: NodeProcess) -> None:
        """SIGSTOP, until the others have taken it for dead and finished its work."""
        self.up.remove(node)
        os.kill(node.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: self._ids[node] not in self.listed(), within_s=60)
        finally:
            os.kill(node.pid, signal.SIGCONT)
        await eventually(lambda: self._ids[node] in self.listed())
        self.up.append(node)

    # --- talking to it ---

    async def create(self, kind: str, users: Sequence[str]) -> str:
        body = {"kind": kind, "members": list(users[1:])}
        status, answer = await asyncio.to_thread(self.nodes[0].rest, "POST", "/v1/conversations", body, users[0])
        assert status == 201, answer
        return str(answer["conversation_id"])

    async def client(self, user_id: str, **fields: Any) -> Client:
        return await Client(self.up[0].port, self.up[0].token(user_id)).connect(**fields)

    async def ask(self, user_id: str, path: str) -> Any:
        status, answer = await asyncio.to_thread(self.up[0].rest, "GET", path, None, user_id)
        assert status == 200, answer
        return answer

    def pending(self) -> set[tuple[str, str]]:
        """(user, conversation) with something that no device has acknowledged in time."""
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as db:
            return set(db.execute("SELECT user_id, conversation_id FROM pending_deliveries"))


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, getattr(request, "param", 1))
    try:
        yield site.start()
    finally:
        site.clean_up()


class Company:
    """Users with two devices each, their conversations, and what they did."""

    def __init__(self, site: Site, users: int, channel: int, *, seed: int = 1) -> None:
        self.site = site
        self.users = [f"u{n}" for n in range(users)]
        self.idle = [f"idle{n}" for n in range(channel - users)]  # members of the channel who never connect
        self.members: dict[str, list[str]] = {}  # of each conversation
        self.followers: list[Follower] = []
        self.reads: dict[tuple[str, str], int] = {}  # (conversation, user) -> read up to, acknowledged
        self.logs: dict[str, list[Frame]] = {}
        self._random = random.Random(seed)

    async def gather(self) -> None:
        """Direct ones between neighbours, groups of four, and everybody in one channel."""
        users = self.users
        for n, user_id in enumerate(users):
            await self._create("direct", [user_id, users[(n + 1) % len(users)]])
        for n in range(0, len(users), 4):
            await self._create("group", users[n : n + 4])
        await self._create("channel", [*users, *self.idle])
        for n, user_id in enumerate(users):
            mine = [c for c, members in self.members.items() if user_id in members]
            token = self.site.nodes[0].token(user_id)
            for device in range(2):
                fields: dict[str, Any] = {"is_patient": device == 0, "seed": 2 * n + device}
                self.followers.append(Follower(user_id, f"d{device}", mine, self.site.ports, token, **fields))

    async def _create(self, kind: str, members: list[str]) -> None:
        self.members[await self.site.create(kind, members)] = members

    # --- what they do ---

    async def talk(self, follower: Follower, count: int, pause_s: float, is_over: Callable[[], bool]) -> None:
        """At least so much, and for as long as there is trouble; now and then it reads what it has."""
        said = 0
        while said < count or not is_over():
            c = self._random.choice(list(follower.have))
            follower.say(c, f"{follower.user_id}-{follower.device}-{said}")
            said += 1
            if self._random.random() < 0.1:
                await self.read(follower, c, follower.have[c])
            await asyncio.sleep(pause_s * (0.5 + self._random.random()))

    async def read(self, follower: Follower, c: str, seq: int) -> None:
        if seq > 0:
            await follower.read(c, seq)
            key = (c, follower.user_id)
            self.reads[key] = max(seq, self.reads.get(key, 0))

    async def read_some(self) -> None:
        """In the end everybody has read all of some conversations, half of others, and nothing new of the rest.

        Every second user reads all of a large one, so that there is always something to sum up."""
        for n, follower in enumerate(self.followers[::2]):
            for c, newest in follower.have.items():
                is_thorough = self._is_large(c) and n % 2 == 0
                seq = newest if is_thorough else self._random.choice((0, newest // 2, newest))
                await self.read(follower, c, seq)

    # --- what must be so in the end ---

    async def check(self) -> None:
        await until_none(lambda: [one.state for one in self.followers if not one.is_done])
        await self._read_logs()
        await until_none(self._behind)
        for follower in self.followers:
            self._check_device(follower)
        before = dict(self.reads)
        async with asyncio.timeout(WITHIN_S):
            await self.read_some()
        await until_none(lambda: self._untold(before))
        await self._check_summaries(before)
        await self._check_ticks()
        await self._check_counts()
        await until_none(lambda: [one for one in self.site.pending() if one[0] in self.users])

    async def _read_logs(self) -> None:
        for c, members in self.members.items():
            reader = await self.site.client(members[0])
            self.logs[c] = await read_log(reader, c, within_s=60)
            await reader.close()
            check_log(c, self.logs[c], self.followers)

    def _behind(self) -> list[str]:
        return [
            f"{follower.state} has {seq} of {len(self.logs[c])} in {c}"
            for follower in self.followers
            for c, seq in follower.have.items()
            if seq < len(self.logs[c])
        ]

    def _check_device(self, follower: Follower) -> None:
        assert follower.faults == [], (follower.user_id, follower.device)
        for c, entries in follower.log.items():
            assert [in_short(entry) for entry in entries] == [in_short(entry) for entry in self.logs[c]]

    def _untold(self, before: dict[tuple[str, str], int]) -> list[str]:
        """Devices whose users said something that was read since, and that were not told so."""
        untold: list[str] = []
        for (c, user_id), seq in self.reads.items():
            if self._is_large(c):
                continue  # its senders get summaries
            after = max(before.get((c, user_id), 0), seq - RESUME_ENTRIES_MAX)
            senders = {entry["sender_id"] for entry in self.logs[c][after:seq]} - {user_id}
            told = [(one, one.tick(c, user_id)) for one in self.followers if one.user_id in senders]
            untold += [f"{one.state} {c} {user_id} {seq}: {tick}" for one, tick in told if tick[1] < seq]
        return untold

    def _is_large(self, c: str) -> bool:
        return len(self.members[c]) > RECEIPT_MEMBERS_MAX

    async def _check_summaries(self, before: dict[tuple[str, str], int]) -> None:
        """In a large conversation every device of a sender whose newest message was read since is told how many others
        have it, and of no single member. In a small one there are no summaries."""
        for c in self.members:
            expected = self._summaries_due(c, before) if self._is_large(c) else {}
            assert expected or not self._is_large(c), "nothing was read that a sender could be told"
            await until_none(lambda c=c, expected=expected: self._unsummed(c, expected))  # type: ignore[misc]
            for one in self.followers:
                assert not (one.told_of(c) if self._is_large(c) else one.summary(c).seq), (one.state, c)

    def _unsummed(self, c: str, expected: dict[str, Summary]) -> list[str]:
        return [
            f"{one.state} {c}: {one.summary(c)} instead of {expected[one.user_id]}"
            for one in self.followers
            if one.user_id in expected and one.summary(c) != expected[one.user_id]
        ]

    def _summaries_due(self, c: str, before: dict[tuple[str, str], int]) -> dict[str, Summary]:
        """What each latest sender must know in the end, if others have read the sender's newest message since."""
        latest = {entry["sender_id"]: entry["seq"] for entry in self.logs[c][-PAGE_MAX:] if entry["kind"] == "message"}
        due: dict[str, Summary] = {}
        for sender_id, seq in latest.items():
            others = [user_id for user_id in self.members[c] if user_id != sender_id]
            reads = [self.reads.get((c, user_id), 0) for user_id in others]
            count = sum(read >= seq for read in reads)
            if count > sum(before.get((c, user_id), 0) >= seq for user_id in others):
                connected = len(set(others) - set(self.idle))
                delivered_all = len(self.logs[c]) if connected == len(others) else 0
                due[sender_id] = Summary(seq, connected, count, delivered_all, min(reads))
        return due

    async def _check_ticks(self) -> None:
        for c, members in self.members.items():
            head, asker = len(self.logs[c]), members[0]
            others = [user_id for user_id in members if user_id != asker]
            delivered = 0 if self.idle and len(members) > len(self.users) else head
            read = min(self.reads.get((c, user_id), 0) for user_id in others)
            await self._until_standing(c, asker, (delivered, read))
            for entry in self._some_messages(c):
                await self._check_receipts(c, entry)

    async def _until_standing(self, c: str, asker: str, expected: tuple[int, int]) -> None:
        for _ in range(100):
            page = await self.site.ask(asker, f"/v1/conversations/{c}/messages?limit=1")
            standing = page["delivered_all_seq"], page["read_all_seq"]
            if standing == expected:
                return
            await asyncio.sleep(0.05)
        assert standing == expected, c

    def _some_messages(self, c: str) -> list[Frame]:
        messages = [entry for entry in self.logs[c] if entry["kind"] == "message"]
        return self._random.sample(messages, min(3, len(messages)))

    async def _check_receipts(self, c: str, entry: Frame) -> None:
        seq, sender_id = entry["seq"], entry["sender_id"]
        states = await self.site.ask(sender_id, f"/v1/conversations/{c}/messages/{seq}/receipts")
        others = [user_id for user_id in self.members[c] if user_id != sender_id]
        read = sorted(user_id for user_id in others if self.reads.get((c, user_id), 0) >= seq)
        pending = sorted(set(others) & set(self.idle))
        delivered = sorted(set(others) - set(read) - set(pending))
        found = {name: states[name] for name in ("read", "delivered", "pending")}
        assert found == {"read": read, "delivered": delivered, "pending": pending}

    async def _check_counts(self) -> None:
        for user_id in self.users:
            inbox = await self.site.ask(user_id, "/v1/inbox?limit=100")
            counts = {row["conversation_id"]: row["unread_count"] for row in inbox["conversations"]}
            expected = {c: self._unread(c, user_id) for c in self.members if c in counts}
            assert counts == expected, user_id
            assert inbox["total_unread"] == sum(expected.values())
            missing = [c for c, members in self.members.items() if user_id in members and c not in counts]
            assert not any(self.logs[c] for c in missing)
        verdict = await asyncio.to_thread(self.site.up[0].tidings, "unread", "verify", "--json")
        assert verdict.returncode == 0 and json.loads(verdict.stdout)["wrong"] == [], verdict

    def _unread(self, c: str, user_id: str) -> int:
        cursor = self.reads.get((c, user_id), 0)
        messages = [entry for entry in self.logs[c] if entry["kind"] == "message" and entry["seq"] > cursor]
        return sum(entry["sender_id"] != user_id for entry in messages)


async def until_none(wrong: Callable[[], list[Any]]) -> None:
    """Polls until nothing is wrong; what still is in the end is shown."""
    deadline_s = time.monotonic() + WITHIN_S
    while (found := wrong()) and time.monotonic() < deadline_s:
        await asyncio.sleep(0.05)
    assert found == []


def in_short(entry: Frame) -> tuple[int, str, str | None, str | None]:
    return entry["seq"], entry["kind"], entry["message_id"], entry["text"]


def check_log(c: str, entries: Sequence[Frame], followers: Sequence[Follower]) -> None:
    """What was acknowledged is there, once, where it was said to be; each device's messages are in its order."""
    assert {entry["kind"] for entry in entries} <= {"message", "void"}
    messages = [entry for entry in entries if entry["kind"] == "message"]
    seq_of = {entry["message_id"]: entry["seq"] for entry in messages}
    assert len(seq_of) == len(messages), "an id is stored twice"
    assert [entry for entry in messages if entry["text"] != text_of(entry["message_id"])] == []
    for follower in followers:
        ids = follower.sent.get(c, [])
        assert [id_ for id_ in ids if follower.told[id_] != seq_of.get(id_)] == [], "acknowledged, and not there"
        assert all(a < b for a, b in pairwise(seq_of[id_] for id_ in ids)), "a device's order was not kept"


@asynccontextmanager
async def living(company: Company) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(follower.live(), name=follower.user_id) for follower in company.followers]
    try:
        yield
        for task in tasks:
            assert not task.done(), task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def endure(
    company: Company,
    trouble: Callable[[], Coroutine[Any, Any, None]],
    count: int,
    pause_s: float,
    within_s: float = WITHIN_S,
) -> None:
    """Everybody talks while there is trouble, and a little longer; then all is checked."""
    async with living(company):
        blow = asyncio.create_task(trouble(), name="trouble")
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(company.talk(one, count, pause_s, blow.done) for one in company.followers))
        finally:
            await blow
        await company.check()
    devices = len(company.followers)
    assert sum(follower.connects for follower in company.followers) > devices, "nobody felt any trouble"


@pytest.mark.parametrize("site", [2], indirect=True)
async def test_two_nodes_of_which_one_is_killed_and_the_other_drained(site: Site) -> None:
    company = Company(site, users=12, channel=60)
    await company.gather()

    async def trouble() -> None:
        await site.kill(site.nodes[0])
        await site.drain(site.nodes[1])
        await site.kill(site.nodes[1])

    await endure(company, trouble, count=20, pause_s=0.3)


@pytest.mark.parametrize("site", [3], indirect=True)
async def test_three_nodes_of_which_one_is_stopped_for_longer_than_its_lease(site: Site) -> None:
    company = Company(site, users=12, channel=60, seed=2)
    await company.gather()

    async def trouble() -> None:
        await asyncio.gather(site.stop(site.nodes[0]), site.kill(site.nodes[1]))
        await site.drain(site.nodes[2])

    await endure(company, trouble, count=25, pause_s=0.5)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("site", [2, 3], indirect=True)
async def test_ten_thousand_messages_while_nodes_fall_in_turn(site: Site) -> None:
    company = Company(site, users=60, channel=1_000, seed=3)
    await company.gather()
    count = len(site.nodes)

    async def trouble() -> None:
        for number in range(6):
            blow = (site.kill, site.stop, site.drain)[number % 3]
            await blow(site.nodes[(number + number // count) % count])

    await endure(company, trouble, count=10_000 // 120 + 1, pause_s=1.0, within_s=400)
    assert len(company.followers) == 120 and sum(len(one.told) for one in company.followers) >= 10_000
    assert sorted(map(len, company.members.values())) == [2] * 60 + [4] * 15 + [1_000]


# --- sockets that do not read, and sockets that are gone without a word ------------------------------


class Hush:
    """A TCP proxy that can go silent: nothing is passed on any more, and nothing is closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.is_silent = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._ways: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for way in ((reader, far_writer), (far_reader, writer)):
            self._ways.add(asyncio.create_task(self._carry(*way), name="hush"))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if not self.is_silent:
                    writer.write(data)
        finally:
            writer.close()


async def test_a_peer_that_vanished_without_a_word_gets_no_tick_and_its_messages_wait(site: Site) -> None:
    c = await site.create("direct", ["alice", "bob"])
    hush = Hush(site.nodes[0].port)
    await hush.open()
    alice = await site.client("alice", device="phone")
    bob = await Client(hush.port, site.nodes[0].token("bob")).connect(device="phone", resume={c: 0})
    await alice.say(c, "m1", "heard")
    await bob.message("heard")
    bob.send({"type": "message.delivered", "acks": {c: 1}})
    await alice.event(lambda frame: frame["type"] == "receipt" and frame["delivered_seq"] == 1)

    hush.is_silent = True
    said = [(await alice.say(c, f"m{n}"))["seq"] for n in (2, 3)]
    assert said == [2, 3]
    await eventually(lambda: site.pending() == {("bob", c)}, within_s=60)  # the grace time passed
    states = await site.ask("alice", f"/v1/conversations/{c}/messages/3/receipts")
    assert states == {"read": [], "delivered": [], "pending": ["bob"]}
    page = await alice.request("history", conversation_id=c)
    assert page["delivered_all_seq"] == 1
    assert [frame["delivered_seq"] for frame in alice.events if frame["type"] == "receipt"] == [1]
    presence = await site.ask("alice", f"/v1/presence?conversation_id={c}&user_ids=bob")
    assert presence["presence"][0]["online"], (
        "nobody knows yet that the socket is dead: that is what this test is about"
    )

    back = await site.client("bob", device="phone", resume={c: 1})
    resumed = await back.event(lambda frame: frame["type"] == "resumed")
    assert (resumed["to_seq"], [message["seq"] for message in back.messages(c)]) == (3, [2, 3])
    back.send({"type": "message.delivered", "acks": {c: 3}})
    await alice.event(lambda frame: frame["type"] == "receipt" and frame["delivered_seq"] == 3)
    await eventually(lambda: site.pending() == set())
    for client in (alice, back):
        await client.close()
    await hush.close()


async def test_a_reader_that_does_not_read_is_closed_and_resumes_without_loss(site: Site) -> None:
    c = await site.create("group", ["alice", "bob", "carol"])
    alice, quick = await site.client("alice"), await site.client("bob", resume={c: 0})
    slow = await site.client("carol", device="phone", resume={c: 0})
    assert slow._transport is not None
    slow._transport.underlying_transport.pause_reading()
    text, said = "x" * TEXT_BYTES_MAX, 0
    async with asyncio.timeout(60):
        while is_online(site, "carol"):  # until what the kernels hold, and the queue on top of it, is full
            await asyncio.gather(*(alice.say(c, f"m{said + n}", text) for n in range(16)))
            said += 16
    assert said * TEXT_BYTES_MAX > SOCKET_QUEUE_BYTES_MAX
    slow._transport.underlying_transport.resume_reading()
    await asyncio.wait_for(slow.is_lost.wait(), 60)
    assert slow.close_code == 4008
    seqs = [message["seq"] for message in slow.messages(c)]
    assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) < said

    while len(seqs) < said:
        back = await site.client("carol", device="phone", resume={c: len(seqs)})
        resumed = await back.event(lambda frame: frame["type"] == "resumed")
        seqs += [message["seq"] for message in back.messages(c)]
        assert resumed["to_seq"] == len(seqs)
        await back.close()
    assert seqs == list(range(1, said + 1))
    await eventually(lambda: len(quick.messages(c)) == said)
    for client in (alice, quick):
        assert not client.is_lost.is_set()
        await client.close()


def is_online(site: Site, user_id: str) -> bool:
    """Somebody has a lease."""
    return site.valkey.command("ZCARD", f"{PREFIX}ws:{{{user_id}}}") != b":0\r\n"


async def test_a_storm_of_reconnects_does_not_break_those_who_are_connected(site: Site) -> None:
    users = [f"u{n}" for n in range(10)]
    c = await site.create("group", users)
    connected = [await site.client(user_id, device="here", resume={c: 0}) for user_id in users]
    for n in range(50):
        await connected[0].say(c, f"before-{n}")

    async def talk(client: Client, name: str) -> None:
        for n in range(30):
            assert (await client.say(c, f"{name}-{n}"))["type"] == "ok"

    storm = [
        Client(site.nodes[0].port, site.nodes[0].token(users[n % 10])).connect(device=f"s{n}", resume={c: 10})
        for n in range(200)
    ]
    talking = asyncio.gather(*(talk(client, f"during-{n}") for n, client in enumerate(connected)))
    came = await asyncio.gather(*storm)
    await talking
    total = 50 + 300
    for client in connected[1:]:
        await eventually(lambda client=client: len(client.messages(c)) == total - 30)  # type: ignore[misc]
        assert client.close_code is None
    for client in came:
        await eventually(lambda client=client: len(client.messages(c)) == total - 10)  # type: ignore[misc]
        assert [message["seq"] for message in client.messages(c)] == list(range(11, total + 1))
    for client in (*connected, *came):
        await client.close()
