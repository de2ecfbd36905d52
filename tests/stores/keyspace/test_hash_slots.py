"""The arithmetic of a cluster: slots as the servers compute them, topologies and redirections as they say them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.stores.keyspace.hash_slots import (
    SLOTS,
    Place,
    Redirect,
    Shard,
    parse_cluster_url,
    parse_redirect,
    parse_slots,
    slot_of,
    uncovered,
)
from tidings.stores.keyspace.keys import Keys
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


def test_the_slot_is_the_published_checksum() -> None:
    assert slot_of("123456789") == 0x31C3 & (SLOTS - 1)  # the check value of CRC-16/XMODEM
    assert slot_of("") == 0


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("a{b}c", "b"),
        ("a{b}{c}", "b"),
        ("a{{b}}c", "{b"),
        ("a}b{c}", "c"),
        ("a{}{b}", "a{}{b}"),  # an empty tag: the whole key counts
        ("a{b", "a{b"),
        ("a}b", "a}b"),
        ("ключ:{é}", "é"),
    ],
)
def test_only_the_first_tag_with_something_in_it_counts(key: str, hashed: str) -> None:
    assert slot_of(key) == slot_of(hashed)


@pytest.mark.parametrize("prefix", ["", "t1:"])
def test_all_keys_of_one_owner_share_a_slot_whatever_the_prefix(prefix: str) -> None:
    keys = Keys(prefix)
    user = [keys.inbox("u"), keys.mark("u"), keys.unread("u", "c"), keys.ws("u"), keys.session("u"), keys.acks("u")]
    assert {slot_of(key) for key in [*user, keys.rate("u", "send")]} == {slot_of("u")}
    conversation = [keys.conv("c"), keys.sent("c", 7), keys.delivered("c"), keys.readby("c"), keys.watch("c")]
    assert {slot_of(key) for key in conversation} == {slot_of("c")}
    assert {slot_of(key) for key in (keys.push(3), keys.push_later(3), keys.due(3))} == {slot_of("3")}


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> ValkeyProcess:
    folder: Path = tmp_path_factory.mktemp("slots")
    ports = ("--port", str(free_port()), "--cluster-port", str(free_port()), "--bind", "127.0.0.1")
    return start_valkey(folder, args=("--cluster-enabled", "yes", *ports))


def test_a_server_computes_the_same_slot(member: ValkeyProcess) -> None:
    @settings(max_examples=200)
    @given(st.text(alphabet=st.sampled_from("ab{}:é\x00 "), max_size=12))
    def agrees(key: str) -> None:
        assert member.command("CLUSTER", "KEYSLOT", key) == b":%d\r\n" % slot_of(key)

    try:
        agrees()
    finally:
        member.stop()


def test_a_topology_is_read_in_the_order_of_slots() -> None:
    reply = [
        [5461, 16383, [b"10.0.0.2", 6379, b"id", []]],
        [0, 5460, [b"10.0.0.1", 6379, b"id", []], [b"replica.example", 6380, b"id", [b"ip", b"10.0.0.9"]]],
    ]
    shards = parse_slots(reply, "seed")
    assert shards == (
        Shard(0, 5460, Place("10.0.0.1", 6379), (Place("replica.example", 6380),)),
        Shard(5461, 16383, Place("10.0.0.2", 6379)),
    )
    assert uncovered(shards) == 0 and uncovered(shards[:1]) == 16384 - 5461


@pytest.mark.parametrize("name", [None, b"", b"?"])
def test_a_server_without_a_name_is_the_one_that_was_asked(name: bytes | None) -> None:
    assert parse_slots([[0, 1, [name, 7000, b"id"]]], "seed")[0].primary == Place("seed", 7000)


@pytest.mark.parametrize("reply", [None, 7, [7], [[0]], [[0, 1, [b"h"]]], [[b"x", 1, [b"h", 1]]], [[0, 1, b"host"]]])
def test_another_answer_is_refused(reply: object) -> None:
    with pytest.raises(ValueError, match="CLUSTER SLOTS"):
        parse_slots(reply, "seed")


def test_redirections_are_read() -> None:
    assert parse_redirect("MOVED 3999 10.0.0.7:6381", "h") == Redirect(True, 3999, Place("10.0.0.7", 6381))
    assert parse_redirect("ASK 1 ::1:6381", "h") == Redirect(False, 1, Place("::1", 6381))
    assert parse_redirect("MOVED 1 :6381", "h") == Redirect(True, 1, Place("h", 6381))
    assert parse_redirect("MOVED 1 ?:6381", "h") == Redirect(True, 1, Place("h", 6381))


@pytest.mark.parametrize("text", ["ERR no", "MOVED", "MOVED x h:1", "MOVED 1 h", "MOVED 99999 h:1", "CLUSTERDOWN now"])
def test_what_is_no_redirection_is_none(text: str) -> None:
    assert parse_redirect(text, "h") is None


def test_a_url_names_servers_user_and_encryption() -> None:
    first, second = parse_cluster_url("redis+cluster://me:p%40ss@a:7001,[::1]:7002?prefix=t1:&tls=true")
    assert (first.host, first.port, first.user, first.password, first.is_tls) == ("a", 7001, "me", "p@ss", True)
    assert (second.host, second.port, second.user, second.password, second.is_tls) == ("::1", 7002, "me", "p@ss", True)
    (plain,) = parse_cluster_url("redis+cluster://a")
    assert (plain.host, plain.port, plain.user, plain.is_tls) == ("a", 6379, "", False)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://a:1", "starts with redis"),
        ("redis+cluster://a:1?db=1", "no option 'db'"),
        ("redis+cluster://a:1/2", "no databases but 0"),
        ("redis+cluster://", "names the servers"),
        ("redis+cluster://a:1,", "names the servers"),
        ("redis+cluster://a:1?tls=perhaps", "true or false"),
        ("redis+cluster://me:hunter2@a:x", "port"),
        ("redis+cluster://me:hunter2/x@a:1", "percent-encoded"),
    ],
)
def test_a_bad_url_is_explained_without_repeating_it(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_cluster_url(url)
    assert "hunter2" not in str(caught.value)
