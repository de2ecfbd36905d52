"""The link: which servers it accepts, how it comes back, and what it says about another life of the server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace import link as keyspace_link
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.link import Link, read_facts
from tidings.stores.keyspace.wire import ErrorReply, parse_address
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

ADD = "#!lua\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])"
Start = Callable[..., ValkeyProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers, each in a folder of its own, and ends them all."""
    started: list[ValkeyProcess] = []

    def start_one(*args: str) -> ValkeyProcess:
        started.append(start_valkey(tmp_path / str(len(started)), args=args))
        return started[-1]

    yield start_one
    for process in started:
        process.stop()


@asynccontextmanager
async def linked(url: str, *scripts: str) -> AsyncIterator[Link]:
    link = Link(parse_address(url), scripts, Clock(), lambda commands: None)
    await link.open()
    try:
        yield link
    finally:
        await link.close()


async def answers(link: Link, *calls: Call[Any]) -> list[Any]:
    return (await link.exchange(calls)).answers


async def refusal(attempt: Awaitable[Any]) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        await attempt
    assert "\n" not in str(caught.value)
    return caught.value


async def open_refusal(url: str) -> str:
    async with asyncio.timeout(60):
        error = await refusal(Link(parse_address(url), (), Clock(), lambda commands: None).open())
    assert not error.is_ambiguous
    return str(error)


def echo(text: str) -> Call[Any]:
    return plain("", "ECHO", text)


def add(amount: int) -> Call[Any]:
    sha = hashlib.sha1(ADD.encode()).hexdigest()
    return plain("k", "EVALSHA", sha, 1, "k", amount)


def test_facts_are_read_from_what_info_says() -> None:
    server = b"# Server\r\nredis_version:7.2.4\r\nredis_mode:cluster\r\nrun_id:0123456789abcdef\r\n"
    replication = b"# Replication\r\nrole:slave\r\nmaster_replid:fedcba9876543210\r\n"
    facts = read_facts(server, replication, b"maxmemory:10\r\nmaxmemory_policy:allkeys-lru\r\n")
    assert facts.epoch == "0123456789ab-fedcba987654"
    assert not facts.is_primary and facts.is_cluster and facts.evicts == "allkeys-lru"
    assert read_facts(server, replication, b"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n").evicts == ""


# which servers are accepted


async def test_the_right_password_user_and_database_are_used(start: Start) -> None:
    valkey = start()
    valkey.command("ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all")
    valkey.command("CONFIG", "SET", "requirepass", "other")
    async with linked(f"unix://bob:pw@{valkey.socket}?db=3") as link:
        assert await answers(link, plain("", "ACL", "WHOAMI"), plain("", "CLIENT", "GETNAME")) == [b"bob", b"tidings"]
        assert b" db=3 " in (await answers(link, plain("", "CLIENT", "INFO")))[0]
    async with linked(f"unix://:other@{valkey.socket}") as link:
        assert await answers(link, plain("", "ACL", "WHOAMI")) == [b"default"]


async def test_a_wrong_or_missing_password_is_said_without_repeating_it(start: Start) -> None:
    valkey = start("--requirepass", "right")
    wrong = await open_refusal(f"unix://:hunter2@{valkey.socket}")
    assert "wrong user or password" in wrong and "hunter2" not in wrong
    assert "it wants a password" in await open_refusal(valkey.url)


async def test_a_user_who_may_not_ask_for_the_epoch_is_refused(start: Start) -> None:
    valkey = start()
    valkey.command("ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all", "-info")
    assert "INFO, which tells a failover, is refused" in await open_refusal(f"unix://bob:pw@{valkey.socket}")


async def test_a_user_who_may_not_choose_the_database_is_refused_and_never_put_into_another(start: Start) -> None:
    valkey = start()
    valkey.command("ACL", "SETUSER", "bob", "on", ">pw", "~*", "&*", "+@all", "-select", "-ping", "-client")
    assert "'select' command" in await open_refusal(f"unix://bob:pw@{valkey.socket}?db=3")
    async with linked(f"unix://bob:pw@{valkey.socket}") as link:
        assert await answers(link, plain("", "ACL", "WHOAMI")) == [b"bob"]


async def test_a_server_that_evicts_is_refused_by_its_policy(start: Start) -> None:
    valkey = start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    assert "evicts keys (allkeys-lru)" in await open_refusal(valkey.url)
    valkey.command("CONFIG", "SET", "maxmemory", "0")
    async with linked(valkey.url) as link:
        assert link.is_up


async def test_a_replica_is_refused(start: Start) -> None:
    port = free_port()
    start("--port", str(port), "--bind", "127.0.0.1")
    replica = start("--replicaof", f"127.0.0.1 {port}")
    assert "it is a replica" in await open_refusal(replica.url)


async def test_a_visit_talks_to_any_server_and_a_glance_is_one_exchange_of_it(start: Start) -> None:
    server = start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--requirepass", "right")
    link = Link(parse_address(f"unix://:right@{server.socket}"), (), Clock(), lambda n: None)
    wire = await link.visit()
    assert (await wire.send([plain("", "PING")])).answers == [b"PONG"] and not link.is_up
    wire.cut("done")
    assert (await link.glance([plain("", "PING")])).answers == [b"PONG"]
    wrong = Link(parse_address(f"unix://:wrong@{server.socket}"), (), Clock(), lambda n: None)
    assert "wrong user or password" in str(await refusal(wrong.visit()))


async def test_a_visit_to_a_server_that_says_nothing_is_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_link, "KEYSPACE_CONNECT_S", 0.05)
    server = start()
    server.pause()
    link = Link(parse_address(server.url), (), Clock(), lambda n: None)
    assert "no answer within" in str(await refusal(link.visit()))
    server.resume()


async def test_a_script_that_does_not_compile_is_refused_at_the_start(start: Start) -> None:
    link = Link(parse_address(start().url), ("#!lua\nreturn (",), Clock(), lambda commands: None)
    assert "a script was refused" in str(await refusal(link.open()))


async def test_a_server_that_says_nothing_is_given_up_in_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_link, "KEYSPACE_CONNECT_S", 0.1)
    valkey = start()
    valkey.pause()
    assert "no answer within 0.1 s" in await open_refusal(valkey.url)


# scripts


async def test_scripts_are_loaded_again_and_only_what_missed_them_is_repeated(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url, ADD) as link:
        assert await answers(link, add(1)) == [1]
        valkey.command("SCRIPT", "FLUSH")
        incr = plain("n", "INCR", "n")
        run = await link.exchange([incr, add(10), incr, add(100)])
        assert run.answers == [1, 11, 2, 111] and not run.is_faulty
        assert await answers(link, plain("n", "GET", "n")) == [b"2"]


async def test_a_script_that_nobody_gave_us_stays_an_error(start: Start) -> None:
    async with linked(start().url) as link:
        run = await link.exchange([add(1)])
        assert run.is_faulty and isinstance(run.answers[0], ErrorReply) and run.answers[0].code == "NOSCRIPT"


# breaking and coming back


async def test_a_killed_server_is_unavailable_and_comes_back_as_another_life(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url, ADD) as link:
        told: list[tuple[str, str]] = []
        link.on_epoch(lambda old, new: told.append((old, new)))
        first = link.epoch
        valkey.kill()
        error = await refusal(link.exchange([echo("a")]))
        assert "is down" in str(error) or error.is_ambiguous
        await eventually(lambda: not link.is_up)
        error = await refusal(link.exchange([echo("a")]))
        assert not error.is_ambiguous
        with pytest.raises(Unavailable):
            _ = link.epoch
        valkey.start()
        await eventually(lambda: link.is_up)
        assert told == [(first, link.epoch)] and link.epoch != first
        assert await answers(link, add(5)) == [5]


async def test_answers_that_were_under_way_when_the_server_died_are_ambiguous(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url) as link:
        valkey.pause()
        asked = asyncio.ensure_future(link.exchange([plain("k", "INCR", "k")]))
        await asyncio.sleep(0)
        valkey.kill()
        assert (await refusal(asked)).is_ambiguous


async def test_a_short_break_is_waited_out_and_is_no_other_life(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url) as link:
        told: list[str] = []
        link.on_epoch(lambda old, new: told.append(new))
        first = link.epoch
        valkey.command("CLIENT", "KILL", "TYPE", "normal")
        await eventually(lambda: not link.is_up)
        assert await answers(link, echo("a")) == [b"a"]
        assert link.epoch == first and told == []


async def test_a_link_that_is_down_for_long_refuses_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_link, "KEYSPACE_WAIT_S", 0.05)
    valkey = start()
    async with linked(valkey.url) as link:
        valkey.kill()
        await eventually(lambda: not link.is_up)
        await refusal(link.exchange([echo("a")]))
        refused = asyncio.ensure_future(link.exchange([echo("a")]))
        await asyncio.sleep(0)
        assert refused.done() and isinstance(refused.exception(), Unavailable)


async def test_an_answer_that_does_not_come_in_time_cuts_the_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyspace_link, "KEYSPACE_COMMAND_S", 0.1)
    monkeypatch.setattr(keyspace_link, "EPOCH_CHECK_S", 0.05)
    valkey = start()
    async with linked(valkey.url) as link:
        valkey.pause()
        error = await refusal(link.exchange([echo("a")]))
        assert error.is_ambiguous and "no answer within 0.1 s" in str(error)
        valkey.resume()
        await eventually(lambda: link.is_up)
        assert await answers(link, echo("b")) == [b"b"]


async def test_a_closed_link_refuses_and_stays_closed(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url) as link:
        valkey.pause()  # it must not be faster than the close
        asked = asyncio.ensure_future(link.exchange([echo("a")]))
        await asyncio.sleep(0)
        await link.close()
        await refusal(asked)
        valkey.resume()
        assert "it was closed" in str(await refusal(link.exchange([echo("a")])))
        assert not link.is_up


# other lives of the same server


async def test_a_promotion_under_an_open_connection_changes_the_epoch(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url) as link:
        told: list[tuple[str, str]] = []

        def fails(old: str, new: str) -> None:
            raise RuntimeError("a listener's mistake")

        link.on_epoch(fails)
        link.on_epoch(lambda old, new: told.append((old, new)))
        first = link.epoch
        valkey.commands(["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"])
        await eventually(lambda: bool(told))
        assert told == [(first, link.epoch)] and link.epoch != first
        assert await answers(link, Call("k", ("ECHO",), bytes, epoch_at=1)) == [link.epoch.encode()]


async def test_a_primary_that_became_a_replica_is_left_until_it_is_promoted(start: Start) -> None:
    valkey = start()
    async with linked(valkey.url) as link:
        first = link.epoch
        valkey.command("REPLICAOF", "127.0.0.1", "1")
        await eventually(lambda: not link.is_up)
        error = await refusal(link.exchange([plain("k", "SET", "k", 1)]))
        assert "replica" in str(error)
        valkey.command("REPLICAOF", "NO", "ONE")
        await eventually(lambda: link.is_up)
        assert link.epoch != first


async def test_a_readonly_answer_has_the_epoch_read_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_link, "EPOCH_CHECK_S", 3600)
    valkey = start()
    async with linked(valkey.url) as link:
        valkey.command("REPLICAOF", "127.0.0.1", "1")
        run = await link.exchange([plain("k", "SET", "k", 1)])
        assert run.is_faulty and run.answers[0].code == "READONLY"
        await eventually(lambda: not link.is_up)
