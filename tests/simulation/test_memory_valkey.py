"""The simulation's keyspace answers what a real Valkey answers: the same calls, the same replies, the same keys.

Every script that the simulation can meet, and every plain command, in sequences that hypothesis makes up. Times of the
server are the one thing that differs: both sides show them as `time`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.clock import Clock
from tidings.messaging.reading.inbox import PARTS
from tidings.model import EVERYBODY, Entry
from tidings.stores.keyspace.call import Call
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts import LUA
from tidings.stores.keyspace.scripts import archive as scripts_archive
from tidings.stores.keyspace.scripts import messaging as scripts
from tidings.stores.keyspace.scripts import push as scripts_push
from tidings.stores.keyspace.scripts import receipts as scripts_receipts
from tidings.stores.keyspace.scripts import session as scripts_routing
from tidings.stores.keyspace.scripts import tally as scripts_tally
from tidings.stores.keyspace.scripts.answers import Place
from tidings.stores.keyspace.scripts.marks import Flags, Mark, Sums
from tidings.stores.keyspace.scripts.messaging import TOP, Scripts, filter_top
from tidings_proof.simulation.lua import Parser, Table, compiled
from tidings_proof.simulation.memory_valkey import MemoryValkey
from tidings_proof.world.valkey import ValkeyProcess

USERS, CONVERSATIONS, TOKENS = ("ann", "bob"), ("c1", "c2", "c3"), ("aa", "bb")
CAP, SCORE_MS, FUTURE_MS = 3, 1_000, 4_000_000_000_000  # a counter ahead of time: numbers are the same on both sides
_prefixes = itertools.count(1)
Words = tuple[Any, ...]

user, conversation, token = st.sampled_from(USERS), st.sampled_from(CONVERSATIONS), st.sampled_from(TOKENS)
seq, version, epoch = st.integers(1, 12), st.integers(0, 4), st.sampled_from(("e1", "e1", "e1", "e2"))
seqs = st.lists(seq, max_size=4)
mentions = st.lists(seq.map(lambda one: f"{one}@"), max_size=3)
kinds, pinned, lines = st.sampled_from(("direct", "group")), st.sampled_from((0, 5)), st.sampled_from((0, 0, 5))
flags = st.builds(Flags, kinds, *[st.booleans()] * 3, pinned, lines)
ranges = st.sampled_from([(), ((4, 5),), ((3, 3), (7, 9))])
Build = Callable[[Keys], Call[Any]]


def stub(method: str, *positional: Any, **named: Any) -> st.SearchStrategy[tuple[str, Build]]:
    """A call of `Scripts` with drawn arguments, for whatever keys there will be."""
    return _made(lambda keys: Scripts(keys, unread_cap=CAP, unread_ttl_s=1_000), method, positional, named)


def receipts(method: str, *positional: Any, **named: Any) -> st.SearchStrategy[tuple[str, Build]]:
    return _made(scripts_receipts.ReceiptScripts, method, positional, named)


def tally(method: str, *positional: Any, **named: Any) -> st.SearchStrategy[tuple[str, Build]]:
    return _made(lambda keys: scripts_tally.TallyScripts(keys, cap=CAP), method, positional, named)


def _said(seq_no: int, sender_id: str, mentions: tuple[str, ...]) -> Entry:
    return Entry("c", seq_no, "message", SCORE_MS + seq_no, sender_id=sender_id, mentions=mentions)


line, build = st.sampled_from((5, 5, 6)), st.sampled_from(TOKENS)
named = st.sampled_from(((), ("ann",), ("bob", "ann"), (EVERYBODY,)))
said = st.builds(_said, seq, user, named)


def push(method: str, *positional: Any, **named: Any) -> st.SearchStrategy[tuple[str, Build]]:
    return _made(scripts_push.PushScripts, method, positional, named)


def _made(kind: Any, method: str, positional: Any, named: Any) -> st.SearchStrategy[tuple[str, Build]]:
    def build(args: tuple[Any, ...], fields: dict[str, Any]) -> Build:
        return lambda keys: getattr(kind(keys), method)(*args, **fields)

    drawn = st.builds(build, st.tuples(*positional), st.fixed_dictionaries(named))
    return drawn.map(lambda made: (method, made))


def _together(members: dict[str, str], id_: str, score_ms: int, added: list[Any], removed: list[int]) -> Build:
    """Members of a conversation who are indexed by one call."""

    def build(keys: Keys) -> Call[Any]:
        made = Scripts(keys, unread_cap=CAP, unread_ttl_s=1_000)
        shared = made.inbox_index_args(id_, score_ms=score_ms, added=added, removed=removed, now_ms=5)
        return made.inbox_index_all(members, id_, shared)

    return build


def _mark(version: int, cursor: int, seqs: list[int], ranges: Any) -> Mark:
    return Mark(version=version, cursor=cursor, seen=cursor, count=len(seqs), first=min(seqs, default=0), floor=0)


score = seq.map(lambda one: SCORE_MS + one)
SCRIPTS = [
    stub(
        "limiter_admit",
        user,
        st.just("send"),
        window_us=st.just(60_000_000),
        limit=st.just(3),
        wanted=version,
        token=token,
    ),
    stub(
        "conversation_number",
        conversation,
        st.lists(st.sampled_from(("ann:1", "ann:2", "bob:1", "")), max_size=3),
        node_id=st.just("n1"),
        open_from=version,
        is_member_change=st.booleans(),
        has_delete=st.booleans(),
        now_ms=st.just(FUTURE_MS),
    ),
    stub(
        "conversation_seed",
        conversation,
        seq=seq,
        at=st.just(FUTURE_MS),
        members_seq=version,
        counter_id=token,
        seeding=st.just("") | token,
        now_ms=st.just(FUTURE_MS),
    ),
    stub(
        "sent_forget",
        conversation,
        st.lists(st.tuples(st.sampled_from(("ann:1", "bob:1")), seq, st.none() | st.tuples(seq, score)), max_size=2),
        now_ms=st.just(FUTURE_MS),
    ),
    stub(
        "inbox_index",
        user,
        conversation,
        score_ms=st.just(0) | score,
        added=seqs | mentions,
        removed=st.lists(seq, max_size=2, unique=True),
        now_ms=st.sampled_from((0, 5)),
    ),
    st.builds(
        _together,
        st.dictionaries(user, st.sampled_from("01"), min_size=1),
        conversation,
        score,
        seqs | mentions,
        st.lists(seq, max_size=2, unique=True),
    ).map(lambda made: ("inbox_index_all", made)),
    stub("inbox_join", user, conversation, score_ms=score, version=version, cursor=seq, flags=flags),
    stub("inbox_leave", user, conversation, gen=st.sampled_from(("", "1"))),
    stub(
        "inbox_page",
        user,
        limit=st.integers(1, 3),
        after=st.just(TOP)
        | st.builds(Place, st.sampled_from(PARTS), score, conversation)
        | st.sampled_from(PARTS).map(filter_top),
        kind=st.sampled_from((None, "direct", "group")),
    ),
    stub("inbox_begin", user, token, wait_ms=st.sampled_from((0, 60_000)), is_begun=st.booleans()),
    stub(
        "inbox_install",
        user,
        token,
        st.sampled_from((Sums(), Sums(size=1))),
    ),
    stub("inbox_place", user, token, st.just([]) | st.just(["c1"]), st.just([]) | st.just(["c1"])),
    stub("unread_state", user, conversation),
    stub(
        "unread_put", user, token, hold_ms=st.sampled_from((0, -5, 60_000)), conversation_id=st.just("") | conversation
    ),
    stub("unread_read", user, conversation, version=version, cursor=seq, seen=seq, ranges=ranges, seqs=seqs),
    stub("unread_chill", user, conversation, version=version),
    stub(
        "unread_install",
        user,
        conversation,
        token,
        gen=st.just("7"),
        mark=st.builds(_mark, version, seq, st.lists(seq, max_size=2, unique=True), ranges),
    ),
    tally("tally_add", conversation, line, st.lists(said, max_size=3), seqs, rev=build),
    tally("tally_begin", conversation, line, build),
    tally("tally_fill", conversation, line, build, st.lists(said, max_size=3), floor=version, is_end=st.booleans()),
    tally("tally_settle", conversation, line),
    tally("tally_count", conversation, line, user, seen=version, ranges=ranges, blocked=st.lists(user, max_size=1)),
    receipts("receipts_raise", conversation, user, delivered_seq=seq, read_seq=version),
    receipts("receipts_lowest", conversation, members_seq=version, but=user),
    receipts("receipts_summary", conversation, members_seq=version, but=user, seq=seq),
    receipts(
        "receipts_build", conversation, members_seq=version, marks=st.lists(st.tuples(user, seq, version), max_size=2)
    ),
    push("due_claim", st.just(1), limit=version, hold_ms=st.just(30_000)),
    push("due_settle", st.just(1), conversation, until_ms=score, next_ms=st.just(0) | score),
]
OTHERS: list[st.SearchStrategy[tuple[str, Build]]] = [
    st.tuples(st.sampled_from(TOKENS), st.sampled_from((0, 60_000))).map(
        lambda drawn: (
            "archive_lease",
            lambda keys: scripts_archive.ArchiveScripts(keys).archive_lease(drawn[0], ttl_ms=drawn[1]),
        )
    ),
    st.tuples(user, token).map(
        lambda drawn: (
            "session_release",
            lambda keys: scripts_routing.session_release(keys, drawn[0], "phone", lease=drawn[1], now_ms=5),
        )
    ),
]

# Plain commands as the code says them; `hash`, `scores`, `set` and `text` stand for keys of these kinds.
field, member, bound = (
    st.sampled_from(("f", "g", "~x")),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(["0", "1", "2", "(1", "+inf", "-inf"]),
)
number, rank = st.integers(-3, 3), st.integers(-4, 4)
word = st.sampled_from(("a 1", "a 2", "b 1"))
text_bound = st.sampled_from(("[a 1", "(a 1", "(a!", "[b 1", "(b 2"))
PLAIN: list[tuple[Any, ...]] = [
    ("GET", "text"),
    ("SET", "text", member),
    ("SET", "text", member, "NX", "EX", 100),
    ("SET", "text", member, "PX", 100_000),
    ("DEL", st.sampled_from(("hash", "scores", "set", "text"))),
    ("UNLINK", "hash", "scores"),
    ("EXISTS", "hash", "scores"),
    ("EXPIRE", "hash", 100),
    ("PEXPIRE", "scores", 100_000),
    ("HGET", "hash", field),
    ("HMGET", "hash", field, field),
    ("HSET", "hash", field, number),
    ("HSET", "hash", field, number, "h", number),
    ("HSETNX", "hash", field, number),
    ("HDEL", "hash", field, field),
    ("HLEN", "hash"),
    ("HEXISTS", "hash", field),
    ("HINCRBY", "hash", field, number),
    ("HGETALL", "hash"),
    ("HSCAN", "hash", 0, "MATCH", "~*", "COUNT", 100),
    ("SADD", "set", member, member),
    ("SREM", "set", member),
    ("SISMEMBER", "set", member),
    ("SMEMBERS", "set"),
    ("ZADD", "scores", number, member),
    ("ZADD", "scores", st.sampled_from(("GT", "LT", "XX", "NX")), number, member, number, member),
    ("ZREM", "scores", member, member),
    ("ZSCORE", "scores", member),
    ("ZCARD", "scores"),
    ("ZCOUNT", "scores", bound, bound),
    ("ZLEXCOUNT", "texts", text_bound, text_bound),
    ("ZRANGE", "texts", text_bound, text_bound, "BYLEX", "LIMIT", 0, st.integers(0, 3)),
    ("ZADD", "texts", 0, word, 0, word),
    ("ZADD", "texts", 0, word),
    ("ZRANK", "scores", member),
    ("ZREVRANK", "scores", member),
    ("ZRANGE", "scores", rank, rank),
    ("ZRANGE", "scores", rank, rank, "REV", "WITHSCORES"),
    ("ZRANGE", "scores", bound, bound, "BYSCORE", "LIMIT", 0, st.integers(0, 3)),
    ("ZRANGE", "scores", "+inf", bound, "BYSCORE", "REV", "LIMIT", 0, 2),
    ("ZREVRANGE", "scores", rank, rank),
    ("ZRANGEBYSCORE", "scores", bound, bound),
    ("ZREMRANGEBYSCORE", "scores", "-inf", bound),
    ("ZREMRANGEBYRANK", "scores", rank, rank),
]
_KINDS = frozenset(("hash", "scores", "set", "text", "texts"))


def _plain(words: tuple[Any, ...]) -> st.SearchStrategy[tuple[str, Build]]:
    parts = [word if isinstance(word, st.SearchStrategy) else st.just(word) for word in words]

    def build(drawn: tuple[Any, ...]) -> tuple[str, Build]:
        def call(keys: Keys) -> Call[Any]:
            said = tuple(f"{keys.prefix}{{k}}{word}" if word in _KINDS else word for word in drawn)
            return Call(str(said[1]), said, lambda reply: reply)

        return str(drawn[0]), call

    return st.tuples(*parts).map(build)


calls = st.lists(st.tuples(st.one_of(*SCRIPTS, *OTHERS), epoch), min_size=1, max_size=25)
commands = st.lists(st.tuples(st.one_of(*map(_plain, PLAIN)), epoch), min_size=1, max_size=30)


class Real:
    """A plain connection to the server: replies as they are."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2)
        self._connection = self._client.connection_pool.get_connection()
        for source in LUA:
            self.execute(("SCRIPT", "LOAD", source))

    def execute(self, words: Words) -> Any:
        self._connection.send_command(*words)  # type: ignore[no-untyped-call]
        return self._connection.read_response(disable_decoding=True)

    def close(self) -> None:
        self._connection.disconnect()  # type: ignore[no-untyped-call]
        self._client.close()


@pytest.fixture(scope="module")
def real(valkey: ValkeyProcess) -> Iterator[Real]:
    server = Real(valkey.url)
    yield server
    server.close()


_TIME = re.compile(
    rb"\b[12]\d{9}\.\d+|\b[12]\d{12}\b|\b[12]\d{15}\b"
)  # s, ms and us; what the tests send is below or above


def _masked(value: Any) -> Any:
    """Times of day are the one thing in which the two may differ."""
    if isinstance(value, list | tuple):
        return [_masked(one) for one in value]
    if isinstance(value, int):
        return "time" if _TIME.fullmatch(b"%d" % value) else value
    return _TIME.sub(b"time", value) if isinstance(value, bytes) else value


def _unordered(words: Words, reply: Any) -> Any:
    """A server owes no order of fields or members."""
    if words[0] == "HGETALL":
        return sorted(zip(reply[::2], reply[1::2], strict=True))
    if words[0] == "HSCAN":
        return sorted(zip(reply[1][::2], reply[1][1::2], strict=True))
    return sorted(reply) if words[0] == "SMEMBERS" else reply


def _words(call: Call[Any], epoch: str) -> Words:
    at = call.epoch_at
    return tuple(call.words) if at is None else (*call.words[:at], epoch + call.epoch_tag, *call.words[at:])


def _compare(real: Real, drawn: list[tuple[tuple[str, Build], str]]) -> None:
    keys = Keys(f"sim{next(_prefixes)}.")
    memory = MemoryValkey(lambda: Clock().now_ms() * 1000)
    for (name, build), epoch in drawn:
        words = _words(build(keys), epoch)
        expected, found = _unordered(words, real.execute(words)), _unordered(words, memory.execute(words))
        if (at := {"limiter_admit": 2, "archive_lease": 1}.get(name)) is not None:  # how long from now on
            expected[at], found[at] = expected[at] > 0, found[at] > 0
        assert _masked(found) == _masked(expected), f"{name} {words[3:]}"
    names = sorted(real.execute(("KEYS", f"{keys.prefix}*")))
    assert memory.names() == names
    for name in names:
        kind = real.execute(("TYPE", name)).decode()
        command = {"hash": ("HGETALL",), "zset": ("ZRANGE",), "set": ("SMEMBERS",), "string": ("GET",)}[kind][0]
        rest = (0, -1, "WITHSCORES") if kind == "zset" else ()
        held = [_masked(_unordered((command,), side.execute((command, name, *rest)))) for side in (real, memory)]
        if b"}:send" in name:  # in the order of their times
            held = [sorted(one) for one in held]
        assert held[0] == held[1], name
        assert (real.execute(("PTTL", name)) >= 0) == (memory.execute(("PTTL", name)) >= 0), name


@settings(max_examples=300)
@given(drawn=calls)
def test_every_script_answers_as_on_a_real_server(real: Real, drawn: list[Any]) -> None:
    _compare(real, _warmed() + drawn)


@settings(max_examples=300)
@given(drawn=commands)
def test_every_command_answers_as_on_a_real_server(real: Real, drawn: list[Any]) -> None:
    _compare(real, drawn)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(drawn=calls)
def test_every_script_answers_as_on_a_real_server_for_long(real: Real, drawn: list[Any]) -> None:
    _compare(real, _warmed() + drawn)


def _warmed() -> list[tuple[tuple[str, Build], str]]:
    """Ann has an inbox with two conversations, a counter and marks, so that scripts meet something warm."""
    kind: Callable[[Keys], Scripts] = lambda keys: Scripts(keys, unread_cap=CAP, unread_ttl_s=1_000)  # noqa: E731
    marks = scripts_receipts.ReceiptScripts
    steps: list[Build] = [
        lambda keys: kind(keys).inbox_begin("ann", "aa", wait_ms=60_000),
        lambda keys: kind(keys).inbox_install("ann", "aa", Sums()),
        lambda keys: kind(keys).inbox_join("ann", "c1", score_ms=SCORE_MS, version=0, cursor=1),
        lambda keys: kind(keys).inbox_join("ann", "c2", score_ms=SCORE_MS, version=0, cursor=0),
        lambda keys: kind(keys).conversation_seed(
            "c1", seq=3, at=FUTURE_MS, members_seq=0, counter_id="x", now_ms=FUTURE_MS
        ),
        lambda keys: marks(keys).receipts_build("c1", members_seq=0, marks=[("ann", 3, 2), ("bob", 2, 1)]),
        lambda keys: marks(keys).receipts_summary("c1", members_seq=0, but="ann", seq=2),
    ]
    return [(("warm", step), "e1") for step in steps]


def test_the_sequences_name_every_script_but_those_of_push() -> None:
    named = {
        "limiter_admit", "conversation_number", "conversation_seed", "sent_forget", "inbox_index", "inbox_join",
        "inbox_leave", "inbox_page", "inbox_begin", "inbox_place", "inbox_install", "unread_state", "unread_put",
        "unread_read", "unread_chill", "unread_install", "receipts_raise", "receipts_lowest", "receipts_build",
        "receipts_summary", "due_claim", "due_settle", "archive_lease", "session_release",
    }  # fmt: skip
    modules = (scripts, scripts_receipts, scripts_push, scripts_routing, scripts_archive)
    assert named == {name for module in modules for name in module.NAMES} - {"push_take", "push_put_off", "push_tidy"}


# --- the language -----------------------------------------------------------------------------------


def run(source: str, *args: bytes) -> Any:
    return compiled(source)(Table([]), Table(list(args)), lambda *words: False, lambda *words: False)


def test_lua_has_its_own_idea_of_truth_and_numbers() -> None:
    assert run("if 0 and '' then return 1 end return 2") == 1
    assert run("return ARGV[1] * 2 + 1", b"20") == 41
    assert run("return ARGV[1] == 20", b"20") is False
    assert run("local a, b = string.match('7:8', '^(%d+):(%d+)$') return b .. a") == b"87"
    assert run("local t = {} for i = 1, 3 do t[#t + 1] = i end return #t") == 3
    assert run("local x = 1 if true then local x = 2 end return x") == 1
    assert run("local n = 0 local function up() n = n + 1 end up() up() return n") == 2


@pytest.mark.parametrize("source", ["goto x", "return ~1", "x = 1", "return os.time()"])
def test_lua_that_the_scripts_do_not_use_is_refused(source: str) -> None:
    with pytest.raises(AssertionError):
        Parser(source).module()
