"""The inbox and unread scripts, one by one on a real server, and their invariants after thousands of random calls."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import pytest

from tidings.clock import Clock
from tidings.model import ConversationKind
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.answers import Indexed, Page, Place, ReadAnswer
from tidings.stores.keyspace.scripts.marks import Flags, Mark, Sums, unpack_mark
from tidings.stores.keyspace.scripts.messaging import SOURCES, TOP, Scripts, filter_top, mentions_of
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

CAP = 5
OWN = {b":epoch", b"*", b":gen", b":unread", b":convs", b":cold", b":more"}
FILTERS = ("unread", "mentions", "muted", "archived", "pinned")
_prefixes = itertools.count(1)


class Board:
    """One user's keys, and the scripts on them."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self.keyspace = keyspace
        self.keys = Keys(f"lua{next(_prefixes)}.")
        self.scripts = Scripts(self.keys, unread_cap=CAP, unread_ttl_s=3_600)
        self.inbox, self.mark = self.keys.inbox("u"), self.keys.mark("u")

    async def call(self, call: Call[Any]) -> Any:
        return await self.keyspace.one(call)

    async def say(self, *words: str | int) -> Any:
        return await self.call(plain("", *words))

    async def warm(self, **marks: Mark) -> None:
        """Installs these conversations; each mark's unread are the last `count` seqs below 100, and its mentions the
        last of those. A pinned one was pinned at its place."""
        assert await self.begin("t") == 0
        calls: list[Call[Any]] = []
        unread_ids = [id_ for id_, mark in marks.items() if mark.count]
        for place, (id_, mark) in enumerate(marks.items(), 1):
            for name in _sets_of(mark):
                calls.append(plain("", "ZADD", f"{self.inbox}:t{name}", -place if name == ":pinned" else place, id_))
            calls.append(plain("", "HSET", f"{self.mark}:t", id_, mark.packed()))
            for seq in range(100 - mark.count, 100):
                calls.append(plain("", "ZADD", self.scripts.aside("u", id_, "t"), seq, seq))
            for seq in range(100 - mark.mentions, 100):
                calls.append(plain("", "ZADD", mentions_of(self.scripts.aside("u", id_, "t")), seq, seq))
        await self.keyspace.run(calls)
        mention_ids = [id_ for id_, mark in marks.items() if mark.mentions]
        assert await self.install(list(marks.values()), unread_ids, mention_ids=mention_ids)

    async def begin(self, token: str, wait_ms: int = 3_000) -> int:
        return int(await self.call(self.scripts.inbox_begin("u", token, wait_ms=wait_ms)))

    async def install(
        self, marks: list[Mark], ids: list[str], token: str = "t", mention_ids: Sequence[str] = ()
    ) -> bool:
        place = self.scripts.inbox_place("u", token, ids, mention_ids)
        install = self.scripts.inbox_install("u", token, sums_of(*marks))
        is_placed, is_installed = await self.keyspace.run([place, install])
        return bool(is_placed and is_installed)

    async def index(
        self,
        id_: str,
        *seqs: int,
        removed: tuple[int, ...] = (),
        score_ms: int | None = None,
        mentions: Collection[int] = (),
    ) -> Indexed:
        score = max(seqs, default=0) if score_ms is None else score_ms
        added = [f"{seq}@" if seq in mentions else seq for seq in seqs]
        call = self.scripts.inbox_index("u", id_, score_ms=score, added=added, removed=removed, now_ms=0)
        return await self.call(call)  # type: ignore[no-any-return]

    async def read(self, id_: str, version: int, seen: int, seqs: tuple[int, ...] = ()) -> ReadAnswer:
        call = self.scripts.unread_read(
            "u", id_, version=version, cursor=seen, seen=seen, ranges=tuple((seq, seq) for seq in seqs), seqs=seqs
        )
        return await self.call(call)  # type: ignore[no-any-return]

    async def page(self, limit: int = 10, after: Place = TOP, kind: ConversationKind | None = None) -> Page | None:
        call = self.scripts.inbox_page("u", limit=limit, after=after, kind=kind)
        return await self.call(call)  # type: ignore[no-any-return]

    async def look(self, how: str) -> object | None:
        return await self.page() if how == "page" else await self.call(self.scripts.unread_state("u"))

    async def ids_of(self, name: str) -> list[str]:
        page = await self.page(after=filter_top(name))
        assert page is not None
        return [one.conversation_id for one in page.listed]

    async def fields(self) -> dict[bytes, bytes]:
        flat = await self.say("HGETALL", self.mark)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def mark_of(self, id_: str) -> Mark | None:
        packed = await self.say("HGET", self.mark, id_)
        return unpack_mark(packed) if packed else None

    async def check(self) -> None:
        """What always holds of a warm user."""
        fields = await self.fields()
        inbox = set(await self.say("ZRANGE", self.inbox, 0, -1))
        filters = {name: set(await self.say("ZRANGE", f"{self.inbox}:{name}", 0, -1)) for name in FILTERS}
        marks = {name: unpack_mark(value) for name, value in fields.items() if name[:1] not in b":*~+"}
        cold = {name[1:] for name in fields if name[:1] == b"~"}
        shown = [mark.shown(CAP) for mark in marks.values()]
        assert fields.keys() - {b":put"} == OWN | marks.keys() | {b"~" + id_ for id_ in cold}
        assert not inbox & filters["archived"]
        assert marks.keys() | cold == inbox | filters["archived"] and not marks.keys() & cold
        assert int(fields[b"*"]) == len(inbox) and int(fields[b":cold"]) == len(cold)
        assert int(fields[b":unread"]) == sum(shown)
        assert int(fields[b":convs"]) == sum(one > 0 for one in shown)
        for name in FILTERS:
            wanted = {id_ for id_, mark in marks.items() if f":{name}" in _sets_of(mark)}
            assert filters[name] - cold == wanted, name
            if name not in ("unread", "mentions"):
                continue
            assert filters[name] == wanted
        sums = sums_of(*marks.values())
        quiet, mentions, *sizes, large = map(int, fields[b":more"].split())
        assert large == 0
        assert (quiet, mentions) == (sums.quiet, sums.mentions)
        assert sizes == [len(filters[name]) for name in FILTERS[1:]]
        for id_, mark in marks.items():
            held = [int(seq) for seq in await self.say("ZRANGE", self.keys.unread("u", id_.decode()), 0, -1)]
            assert len(held) == mark.count <= CAP and held == sorted(held)
            key = mentions_of(self.keys.unread("u", id_.decode()))
            mentioned = [int(seq) for seq in await self.say("ZRANGE", key, 0, -1)]
            assert len(mentioned) == mark.mentions and set(mentioned) <= set(held)
            assert mark.first_mention == (mentioned[0] if mentioned else 0)
            assert all(seq > max(mark.seen, mark.floor) for seq in held)
            assert not mark.is_capped or mark.count == CAP
            assert mark.is_capped or mark.first == (held[0] if held else 0)


def blank(**fields: int) -> Mark:
    given = {"version": 0, "cursor": 0, "seen": 0, "count": 0, "first": 0, "floor": 0, **fields}
    return Mark(**given)  # type: ignore[arg-type]


def sums_of(*marks: Mark) -> Sums:
    sums = Sums()
    for mark in marks:
        sums.add(mark, CAP)
    return sums


def _sets_of(mark: Mark) -> list[str]:
    """The inbox ('') and the filters that must hold a conversation with this mark."""
    found = [":large" if mark.is_large else ":archived" if mark.is_archived else ""]
    found += [":unread"] if mark.count else []
    found += [":mentions"] if mark.mentions else []
    found += [":muted"] if mark.is_muted else []
    return found + ([":pinned"] if mark.is_pinned else [])


@pytest.fixture
async def board(valkey: ValkeyProcess) -> AsyncIterator[Board]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Board(keyspace)
    await keyspace.close()


# --- COLD -------------------------------------------------------------------------------------------


async def test_nothing_is_counted_for_a_cold_user_and_what_changed_is_noted(board: Board) -> None:
    assert (await board.index("c", 7)).is_user_cold
    assert not await board.call(board.scripts.inbox_join("u", "d", score_ms=9, version=0, cursor=0))
    assert not await board.call(board.scripts.inbox_leave("u", "e"))
    assert (await board.read("f", 1, 1)).is_cold
    assert await board.page() is None
    assert await board.call(board.scripts.unread_state("u", "c")) is None
    assert (await board.call(board.scripts.unread_chill("u", "c", version=0))).is_user_cold
    assert await board.fields() == {b"+c": b"7", b"+d": b"9", b"+e": b"0", b"+f": b"0"}
    assert await board.say("EXISTS", board.inbox) == 0


async def test_the_newest_score_of_a_cold_conversation_is_kept(board: Board) -> None:
    for score in (7, 5, 0, 9, 8):
        await board.index("c", score_ms=score)
    await board.call(board.scripts.inbox_leave("u", "c"))
    assert (await board.fields())[b"+c"] == b"9"


async def test_a_mark_of_another_epoch_is_cold(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98))
    await board.say("HSET", board.mark, ":epoch", "another life")
    assert await board.page() is None
    assert (await board.index("c", 100)).is_user_cold
    assert await board.begin("new") == 0
    assert b"*" not in await board.fields()


@pytest.mark.parametrize("field", ["*", ":unread", ":convs", ":cold", ":epoch", ":gen", ":more", "c"])
async def test_a_lost_field_makes_the_user_cold_and_no_script_fails(board: Board, field: str) -> None:
    for look in ("page", "state", "index", "join", "read", "chill", "leave"):
        await board.say("DEL", board.mark, board.inbox)
        await board.warm(c=blank(count=2, first=98), d=blank())
        await board.say("HDEL", board.mark, field)
        if look == "index":
            await board.index("c", 100)
        elif look == "join":
            await board.call(board.scripts.inbox_join("u", "c", score_ms=1, version=0, cursor=0))
        elif look == "read":
            await board.read("c", 1, 99)
        elif look == "chill":
            await board.call(board.scripts.unread_chill("u", "c", version=0))
        elif look == "leave":
            await board.call(board.scripts.inbox_leave("u", "d"))
        assert await board.call(board.scripts.unread_state("u", "d")) is None
        assert await board.page() is None


async def test_a_message_for_a_conversation_whose_mark_was_lost_gives_no_total(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98), d=blank())
    await board.say("HDEL", board.mark, "c")
    assert (await board.index("c", 100)).is_user_cold
    assert (await board.index("d", 100)).total_unread is None


async def test_leaving_a_conversation_whose_mark_was_lost_leaves_no_count_behind(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98))
    await board.say("HDEL", board.mark, "c")
    assert not await board.call(board.scripts.inbox_leave("u", "c"))
    assert await board.page() is None


async def test_a_lost_inbox_makes_the_user_cold(board: Board) -> None:
    for is_indexed_first in (True, False):
        await board.say("DEL", board.mark)
        await board.warm(c=blank(), d=blank())
        await board.say("DEL", board.inbox)
        if is_indexed_first:
            assert (await board.index("c", 5)).is_user_cold
        assert await board.page() is None


# --- index ------------------------------------------------------------------------------------------


async def test_index_counts_each_seq_once_in_any_order(board: Board) -> None:
    await board.warm(c=blank())
    for seqs in ((3,), (1, 2), (3, 1), (2,), ()):
        answer = await board.index("c", *seqs)
    assert (answer.unread_count, answer.total_unread) == (3, 3)
    mark = await board.mark_of("c")
    assert mark is not None and (mark.count, mark.first) == (3, 1)
    await board.check()


async def test_index_refuses_what_was_read(board: Board) -> None:
    await board.warm(c=Mark(version=1, cursor=4, seen=4, count=0, first=0, floor=0, ranges=((6, 7),)))
    assert (await board.index("c", 3, 4, 5, 6, 7, 8)).unread_count == 2
    mark = await board.mark_of("c")
    assert mark is not None and (mark.first, mark.ranges) == (5, ((6, 7),))


async def test_index_moves_a_conversation_up_and_never_back(board: Board) -> None:
    await board.warm(c=blank(), d=blank())
    await board.index("c", 50)
    await board.index("c", 40)
    page = await board.page()
    assert page is not None and [(one.conversation_id, one.score_ms) for one in page.listed] == [("c", 50), ("d", 2)]


async def test_a_conversation_that_is_new_to_the_inbox_is_cold(board: Board) -> None:
    await board.warm()
    answer = await board.index("c", 5)
    assert answer.is_cold and not answer.is_user_cold and answer.total_unread is None
    assert await board.say("TTL", board.inbox) > 0
    assert (await board.index("d", removed=(4,))).is_cold  # a delete does not bring it into the inbox
    page = await board.page()
    assert page is not None and (page.cold, [one.conversation_id for one in page.listed]) == (1, ["c"])
    await board.check()


async def test_above_the_cap_the_oldest_are_trimmed_and_the_first_is_still_known(board: Board) -> None:
    await board.warm(c=blank())
    answer = await board.index("c", *range(1, 9))
    assert (answer.unread_count, answer.unread_capped, answer.total_unread) == (CAP, True, CAP)
    mark = await board.mark_of("c")
    assert mark is not None and (mark.first, mark.floor, mark.count) == (1, 3, CAP)
    await board.check()


async def test_reading_all_that_was_trimmed_ends_the_cap_even_below_the_rest(board: Board) -> None:
    """Between what was trimmed and what is kept lie seqs that do not count, such as the member's own."""
    await board.warm(c=blank())
    await board.index("c", 1, 4, 5, 6, 7, 8)
    answer = await board.read("c", 1, 1)
    assert (answer.unread_count, answer.unread_capped, answer.first) == (CAP, False, 4)


async def test_one_that_comes_after_the_trim_may_be_the_first(board: Board) -> None:
    await board.warm(c=blank())
    await board.index("c", *range(2, 9))
    await board.index("c", 1)
    mark = await board.mark_of("c")
    assert mark is not None and (mark.first, mark.floor, mark.count) == (1, 3, CAP)


async def test_a_delete_above_the_cap_makes_the_conversation_cold(board: Board) -> None:
    await board.warm(c=blank(), d=blank(count=1, first=99))
    await board.index("c", *range(1, 8))
    assert (await board.index("c", removed=(4,))).is_cold
    fields = await board.fields()
    assert (fields[b":unread"], fields[b":convs"], fields[b":cold"]) == (b"1", b"1", b"1")
    assert b"~c" in fields


async def test_a_set_that_is_not_what_its_mark_says_is_cold(board: Board) -> None:
    for act in ("add", "remove", "read"):
        await board.say("DEL", board.mark, board.inbox)
        await board.warm(c=blank(count=2, first=98))
        await board.say("DEL", board.keys.unread("u", "c"))
        if act == "add":
            assert (await board.index("c", 100)).is_cold
        elif act == "remove":
            assert (await board.index("c", removed=(98,))).is_cold
        else:
            assert (await board.read("c", 1, 98)).is_cold
        assert await board.mark_of("c") is None
        page = await board.page()
        assert page is not None and (page.cold, page.total_unread) == (1, 0)


async def test_leases_come_with_the_index(board: Board) -> None:
    await board.say("ZADD", board.keys.ws("u"), 100, "n:1", 200, "n:2")
    call = board.scripts.inbox_index("u", "c", score_ms=0, added=(), removed=(), now_ms=150)
    assert (await board.call(call)).leases == ("n:2",)


async def test_the_members_of_one_call_are_indexed_as_each_would_be_alone(board: Board) -> None:
    """The index of each member is of its own: a sender counts nothing, a cold one is recorded, the others count."""
    await board.warm(c=blank())
    for user_id in ("v", "w"):  # as warm as u
        for key in ("inbox", "mark"):
            await board.say("COPY", getattr(board.keys, key)("u"), getattr(board.keys, key)(user_id))
    await board.say("ZADD", board.keys.ws("w"), 200, "n:1")
    shared = board.scripts.inbox_index_args("c", score_ms=7, added=(6, "7@"), removed=(), now_ms=150)
    call = board.scripts.inbox_index_all({"u": "1", "v": "0", "cold": "1", "w": "1"}, "c", shared)
    u, v, cold, w = await board.call(call)
    assert (u.unread_count, u.mention_count, u.leases) == (2, 1, ())
    assert (v.unread_count, v.mention_count) == (0, 0)
    assert cold.is_user_cold and cold.unread_count is None
    assert (w.unread_count, w.mention_count, w.leases) == (2, 1, ("n:1",))
    again = await board.call(board.scripts.inbox_index_all({"w": "1", "u": "1"}, "c", shared))
    assert [one.unread_count for one in again] == [2, 2]


# --- read -------------------------------------------------------------------------------------------


async def test_reading_removes_up_to_and_one_by_one(board: Board) -> None:
    await board.warm(c=blank(count=5, first=95))
    answer = await board.read("c", 1, 96)
    assert (answer.unread_count, answer.first, answer.read_seq, answer.total_unread) == (3, 97, 96, 3)
    answer = await board.read("c", 2, 96, (98,))
    assert (answer.unread_count, answer.first) == (2, 97)
    answer = await board.read("c", 3, 99)
    assert (answer.unread_count, answer.first, answer.total_unread) == (0, 0, 0)
    assert await board.say("EXISTS", board.keys.unread("u", "c")) == 0
    await board.check()


async def test_an_older_version_does_nothing_and_a_skipped_one_makes_it_cold(board: Board) -> None:
    await board.warm(c=blank(version=3, count=2, first=98))
    answer = await board.read("c", 3, 99)  # of the same version: only what was delivered may rise
    assert not answer.is_cold
    await board.say("DEL", board.mark, board.inbox)
    await board.warm(c=blank(version=3, count=2, first=98))
    answer = await board.read("c", 2, 99)
    assert (answer.unread_count, answer.read_seq) == (2, 0)
    assert (await board.read("c", 5, 99)).is_cold


async def test_what_was_delivered_rises_without_a_version(board: Board) -> None:
    await board.warm(c=Mark(version=3, cursor=1, seen=1, count=4, first=96, floor=0, ranges=((97, 97),)))
    call = board.scripts.unread_read("u", "c", version=0, cursor=0, seen=97, ranges=(), seqs=())
    await board.call(call)
    mark = await board.mark_of("c")
    assert mark is not None
    assert (mark.version, mark.cursor, mark.seen, mark.count, mark.ranges) == (3, 1, 97, 2, ((97, 97),))
    await board.check()


async def test_reading_below_the_trim_stays_capped_and_at_it_is_exact(board: Board) -> None:
    await board.warm(c=blank())
    await board.index("c", *range(1, 9))
    answer = await board.read("c", 1, 2)
    assert (answer.unread_count, answer.unread_capped, answer.first) == (CAP, True, 0)
    answer = await board.read("c", 2, 3)
    assert (answer.unread_count, answer.unread_capped, answer.first) == (CAP, False, 4)
    await board.check()


async def test_a_sparse_read_above_the_cap_makes_it_cold(board: Board) -> None:
    await board.warm(c=blank())
    await board.index("c", *range(1, 9))
    assert (await board.read("c", 1, 0, (6,))).is_cold


# --- join and leave -----------------------------------------------------------------------------------


async def test_who_joins_has_nothing_unread_and_being_told_twice_changes_nothing(board: Board) -> None:
    await board.warm()
    join = board.scripts.inbox_join("u", "c", score_ms=50, version=2, cursor=10)
    assert await board.call(join)
    assert await board.say("TTL", board.inbox) > 0
    await board.index("c", 9, 10, 11)
    assert await board.call(join)
    mark = await board.mark_of("c")
    assert mark is not None and (mark.version, mark.cursor, mark.count, mark.first) == (2, 10, 1, 11)
    await board.check()


@pytest.mark.parametrize(
    "mark", [blank(version=1, cursor=3, seen=3, count=2, first=98), blank(version=5, count=1, first=99)]
)
async def test_a_join_that_meets_another_state_leaves_it_to_the_tables(board: Board, mark: Mark) -> None:
    """An earlier membership, or a cursor that was lowered since: either way the tables know."""
    await board.warm(c=mark)
    assert not await board.call(board.scripts.inbox_join("u", "c", score_ms=50, version=1, cursor=10))
    fields = await board.fields()
    assert b"~c" in fields and (fields[b":unread"], fields[b":cold"]) == (b"0", b"1")


async def test_a_join_after_the_first_message_stays_cold(board: Board) -> None:
    await board.warm()
    await board.index("c", 11)
    before = (await board.fields())[b"~c"]
    assert not await board.call(board.scripts.inbox_join("u", "c", score_ms=5, version=0, cursor=10))
    assert (await board.fields())[b"~c"] != before
    await board.check()


async def test_who_leaves_takes_the_count_along(board: Board) -> None:
    await board.warm(c=blank(count=3, first=97), d=blank(count=1, first=99))
    await board.index("e", 100)  # COLD
    for id_ in ("c", "e", "never there"):
        assert await board.call(board.scripts.inbox_leave("u", id_))
        await board.check()
    page = await board.page()
    assert page is not None and (page.total_unread, page.unread_conversations, page.cold) == (1, 1, 0)
    assert await board.say("EXISTS", board.keys.unread("u", "c")) == 0


async def test_a_conditional_leave_yields_to_any_change(board: Board) -> None:
    await board.warm(c=blank())
    chilled = await board.call(board.scripts.unread_chill("u", "c", version=1))
    await board.index("c", 5)
    assert not await board.call(board.scripts.inbox_leave("u", "c", gen=chilled.gen))
    again = await board.call(board.scripts.unread_chill("u", "c", version=1))
    assert await board.call(board.scripts.inbox_leave("u", "c", gen=again.gen))
    await board.check()


# --- one conversation rebuilt -------------------------------------------------------------------------


async def test_chill_spares_a_mark_that_is_new_enough(board: Board) -> None:
    await board.warm(c=blank(version=4, count=1, first=99))
    assert (await board.call(board.scripts.unread_chill("u", "c", version=4))).mark is not None
    chilled = await board.call(board.scripts.unread_chill("u", "c", version=5))
    assert chilled.mark is None and chilled.gen is not None
    again = await board.call(board.scripts.unread_chill("u", "c", version=5))
    assert again.gen == chilled.gen  # two who rebuild it do not get into each other's way
    nowhere = await board.call(board.scripts.unread_chill("u", "x", version=0))
    assert (nowhere.mark, nowhere.gen, nowhere.is_user_cold) == (None, None, False)
    await board.check()


async def test_install_puts_set_mark_and_totals_in_place_once(board: Board) -> None:
    await board.warm(c=blank(), d=blank(count=1, first=99))
    gen = (await board.call(board.scripts.unread_chill("u", "c", version=1))).gen
    mark = blank(version=1, count=2, first=6)
    install = board.scripts.unread_install("u", "c", "t", gen=gen, mark=mark)
    assert not await board.call(install)  # what was built aside is lost
    await board.say("ZADD", board.scripts.aside("u", "c", "t"), 6, 6, 7, 7)
    assert await board.call(install)
    assert await board.mark_of("c") == mark
    await board.check()
    await board.say("ZADD", board.scripts.aside("u", "c", "t"), 6, 6, 7, 7)
    assert not await board.call(install)
    assert await board.say("EXISTS", board.scripts.aside("u", "c", "t")) == 0
    await board.check()


async def test_install_is_refused_after_any_change(board: Board) -> None:
    await board.warm(c=blank())
    scripts = board.scripts
    changes: list[Call[Any]] = [
        board.scripts.inbox_index("u", "c", score_ms=5, added=(5, 5), removed=(), now_ms=0),
        scripts.inbox_join("u", "c", score_ms=5, version=0, cursor=5),
        scripts.unread_read("u", "c", version=1, cursor=1, seen=1, ranges=(), seqs=()),
        scripts.inbox_leave("u", "c"),
    ]
    for change in changes:
        gen = (await board.call(scripts.unread_chill("u", "c", version=9))).gen
        await board.call(change)
        assert not await board.call(scripts.unread_install("u", "c", "t", gen=gen, mark=blank()))
    await board.check()


# --- a whole user rebuilt ------------------------------------------------------------------------------


async def test_only_one_has_a_rebuild_in_hand_until_it_falls_silent(board: Board) -> None:
    assert (await board.begin("one"), await board.begin("two"), await board.begin("one")) == (0, -1, 0)
    await board.say("HSET", board.mark, ":beat", 1)
    assert (await board.begin("two"), await board.begin("one")) == (0, -1)
    assert not await board.install([], [], token="one")
    assert await board.install([], [], token="two")
    assert await board.begin("three") == 1
    await board.check()


async def test_a_rebuild_that_was_lost_is_not_begun_anew_by_a_sign_of_life(board: Board) -> None:
    """What changed between the loss and the sign of life may not have been noted."""
    await board.begin("t")
    await board.say("DEL", board.mark)
    await board.index("c", 200)
    alive = board.scripts.inbox_begin("u", "t", wait_ms=3_000, is_begun=True)
    assert await board.call(alive) == -1
    assert not await board.install([], [])
    assert (await board.begin("t"), await board.call(alive)) == (0, 0)


async def test_a_beat_from_before_the_clock_was_set_back_holds_up_no_rebuild(board: Board) -> None:
    await board.begin("t")
    assert await board.begin("other") == -1
    beat = int(await board.say("HGET", board.mark, ":beat"))
    await board.say("HSET", board.mark, ":beat", beat + 3_600_000_000)
    assert await board.begin("other") == 0


async def test_what_changed_since_the_beginning_is_installed_cold(board: Board) -> None:
    await board.begin("t")
    await board.index("c", 200)
    await board.index("x", 300)
    await board.call(board.scripts.inbox_leave("u", "d"))
    await board.call(board.scripts.inbox_leave("u", "y"))
    await board.warm(c=blank(count=2, first=98), d=blank(count=1, first=99), e=blank(count=3, first=97))
    page = await board.page()
    assert page is not None
    assert [(one.conversation_id, one.score_ms, one.mark is None) for one in page.listed] == [
        ("x", 300, True),
        ("c", 200, True),
        ("e", 3, False),
        ("d", 2, True),
    ]
    assert (page.total_unread, page.unread_conversations, page.cold) == (3, 1, 3)
    fields = await board.fields()
    assert not any(name[:1] == b"+" for name in fields)


async def test_what_was_noted_before_the_beginning_is_forgotten(board: Board) -> None:
    await board.index("c", 200)
    await board.warm(c=blank(count=2, first=98))
    page = await board.page()
    assert page is not None and page.cold == 0
    await board.check()


async def test_an_install_without_all_that_was_built_is_refused_and_cleans_up(board: Board) -> None:
    for lost in ("inbox", "mark", "unread", "begun"):
        await board.begin("t")
        aside = board.scripts.aside("u", "c", "t")
        await board.say("ZADD", f"{board.inbox}:t", 1, "c")
        await board.say("HSET", f"{board.mark}:t", "c", blank(count=1, first=9).packed())
        await board.say("ZADD", aside, 9, 9)
        key = {"inbox": f"{board.inbox}:t", "mark": f"{board.mark}:t", "unread": aside, "begun": board.mark}[lost]
        await board.say("DEL", key)
        is_placed = await board.call(board.scripts.inbox_place("u", "t", ["c"]))
        assert is_placed == (lost in ("inbox", "mark"))
        install = board.scripts.inbox_install("u", "t", sums_of(blank(count=1, first=9)))
        assert not (is_placed and await board.call(install))
        assert is_placed is False or await board.say("EXISTS", f"{board.inbox}:t", f"{board.mark}:t") == 0
        assert await board.page() is None


async def test_a_rebuild_that_another_node_took_over_touches_no_set_of_a_warm_user(board: Board) -> None:
    await board.begin("late")
    await board.say("ZADD", board.scripts.aside("u", "c", "late"), 7, 7)
    assert await board.begin("t", wait_ms=0) == 0
    await board.say("ZADD", f"{board.inbox}:t", 1, "c")
    await board.say("HSET", f"{board.mark}:t", "c", blank(count=1, first=9).packed())
    await board.say("ZADD", f"{board.inbox}:t:unread", 1, "c")
    await board.say("ZADD", board.scripts.aside("u", "c", "t"), 9, 9)
    assert await board.install([blank(count=1, first=9)], ["c"])
    assert not await board.call(board.scripts.inbox_place("u", "late", ["c"]))
    assert await board.say("ZRANGE", board.keys.unread("u", "c"), 0, -1) == [b"9"]
    await board.check()


async def test_the_install_of_a_user_names_no_unread_set(board: Board) -> None:
    """It costs the same for any number of unread conversations: the sets are put in place before, in slices."""
    assert board.scripts.inbox_install("u", "t", Sums(size=9, unread=9, conversations=9)).words[2] == 4


async def test_an_unread_set_that_is_made_again_is_not_left_without_an_expiry(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98))
    unread = board.keys.unread("u", "c")
    await board.say("DEL", unread)
    assert (await board.index("c", 100)).is_cold
    assert await board.say("TTL", unread) != -1
    await board.check()


async def test_keys_that_are_built_together_do_not_expire_together(board: Board) -> None:
    times = set()
    for _ in range(20):
        await board.warm(c=blank(count=2, first=98))
        times |= {await board.say("TTL", key) for key in (board.inbox, board.mark)}
        await board.say("DEL", board.mark, board.inbox)
    assert len(times) > 5 and min(times) >= 3_590 and max(times) <= 3_960


async def test_times_that_repeat_and_go_back_change_no_count(board: Board) -> None:
    await board.warm(c=blank())
    for seq, score_ms in ((1, 9), (2, 6_001), (3, 25), (4, 25)):
        await board.index("c", seq, score_ms=score_ms)
    answer = await board.read("c", 1, 2)
    assert (answer.unread_count, answer.first) == (2, 3)
    await board.check()


async def test_a_mark_of_another_cap_policy_or_form_is_cold(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98))
    for other in ({"unread_cap": CAP + 1}, {"unread_cap": CAP, "unread_policy": "when_offline"}):
        scripts = Scripts(board.keys, unread_ttl_s=3_600, **other)
        assert await board.call(scripts.inbox_page("u", limit=5)) is None
    assert await board.page() is not None


async def test_a_note_that_is_over_makes_its_conversation_cold_and_not_the_user(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98), d=blank(count=1, first=99))
    await board.call(board.scripts.unread_put("u", "t1", hold_ms=-5, conversation_id="c"))
    page = await board.page()
    assert page is not None and page.cold == 1
    assert [(one.conversation_id, one.mark is None) for one in page.listed] == [("d", False), ("c", True)]
    await board.check()
    state = await board.call(board.scripts.unread_state("u", "d"))
    assert state.mark is not None and state.total_unread is None


async def test_numbers_of_changes_are_never_used_twice_even_after_a_flush(board: Board) -> None:
    gens = set()
    for _ in range(3):
        await board.warm(c=blank())
        gen = (await board.call(board.scripts.unread_chill("u", "c", version=1))).gen
        assert gen not in gens
        gens.add(gen)
        await board.say("DEL", board.mark, board.inbox)


# --- notes --------------------------------------------------------------------------------------------


async def test_a_marker_that_is_left_again_takes_the_place_of_the_earlier_one(board: Board) -> None:
    for hold_ms in (-1, -1, 60_000, -1):
        await board.call(board.scripts.unread_put("u", "line=c", hold_ms=hold_ms, conversation_id="c"))
        await board.call(board.scripts.unread_put("u", "other", hold_ms=30_000))
    notes = (await board.say("HGET", board.mark, ":put")).decode().split()
    assert [note.split(":", 1)[1] for note in notes] == ["c:line=c", ":other"]


async def test_a_note_is_taken_back_by_its_owner_alone(board: Board) -> None:
    await board.warm(c=blank())
    await board.call(board.scripts.unread_put("u", "one", hold_ms=60_000))
    await board.call(board.scripts.unread_put("u", "two", hold_ms=0))
    assert await board.page() is not None and b":put" in await board.fields()
    await board.call(board.scripts.unread_put("u", "one", hold_ms=0))
    assert b":put" not in await board.fields()
    await board.check()


async def test_notes_of_two_devices_do_not_take_each_others_place(board: Board) -> None:
    await board.warm(c=blank())
    for token in ("one", "two"):
        await board.call(board.scripts.unread_put("u", token, hold_ms=60_000))
    await board.call(board.scripts.unread_put("u", "two", hold_ms=0))
    assert (await board.fields())[b":put"].endswith(b":one")
    await board.check()


@pytest.mark.parametrize("look", ["page", "state"])
async def test_a_note_that_was_left_behind_takes_no_later_one_with_it(board: Board, look: str) -> None:
    await board.warm(c=blank())
    await board.call(board.scripts.unread_put("u", "one", hold_ms=1))
    await board.call(board.scripts.unread_put("u", "two", hold_ms=60_000))
    while await board.look(look) is not None:
        pass  # until the time of the first note is over
    assert (await board.fields())[b":put"].endswith(b":two")
    await board.warm(c=blank())
    assert await board.page() is not None and b":put" in await board.fields()


@pytest.mark.parametrize("look", ["page", "state"])
async def test_a_note_that_was_left_behind_makes_the_user_cold(board: Board, look: str) -> None:
    await board.warm(c=blank())
    await board.call(board.scripts.unread_put("u", "one", hold_ms=1))
    while await board.look(look) is not None:
        pass
    assert b":put" not in await board.fields()


async def test_a_note_that_is_over_from_the_beginning_needs_no_clock(board: Board) -> None:
    """A warm user is cold in the same moment. During a rebuild the note stays, and what is installed is cold."""
    await board.warm(c=blank())
    await board.call(board.scripts.unread_put("u", "one", hold_ms=-1))
    assert not {b"*", b":put"} & (await board.fields()).keys()
    await board.call(board.scripts.unread_put("u", "two", hold_ms=-1))
    await board.warm(c=blank())
    assert await board.page() is None


async def test_a_note_outlives_a_rebuild(board: Board) -> None:
    await board.call(board.scripts.unread_put("u", "one", hold_ms=60_000))
    assert await board.say("TTL", board.mark) > 0
    await board.warm(c=blank())
    assert b":put" in await board.fields()
    await board.check()


# --- pages --------------------------------------------------------------------------------------------


async def test_pages_go_on_by_bytes_where_scores_tie(board: Board) -> None:
    ids = [*sorted("aA_-.@9zZ0mb"), "aa", "aA", "a-", "Aa"]
    await board.warm(**{id_: blank() for id_ in ids})
    for id_ in ids:
        await board.say("ZADD", board.inbox, 7, id_)
    expected = sorted(ids, key=str.encode, reverse=True)
    for limit in (1, 3, 20):
        listed: list[str] = []
        after: Place | None = TOP
        while after is not None and (page := await board.page(limit, after)):
            listed += [one.conversation_id for one in page.listed]
            assert (page.next is None) == (len(listed) == len(ids))
            after = page.next
        assert listed == expected
    for gone in (*ids, "", "~", "zzzz", "B", "b0"):
        page = await board.page(50, Place("inbox", 7, gone + "!"))  # no such id: where it would stand
        place = [id_ for id_ in expected if id_.encode() < (gone + "!").encode()]
        assert page is not None and [one.conversation_id for one in page.listed] == place


async def test_a_page_past_the_end_is_empty(board: Board) -> None:
    await board.warm(c=blank())
    page = await board.page(10, Place("inbox", 0, "a"))
    assert page is not None and (page.listed, page.next) == ([], None)


# --- mentions and filters -------------------------------------------------------------------------------

QUIET, MUTED, ARCHIVED, PINNED = 1, 2, 4, 8


async def test_mentions_are_counted_beside_the_unread_and_leave_with_them(board: Board) -> None:
    await board.warm(c=blank())
    answer = await board.index("c", 1, 2, 3, mentions=(2, 3))
    assert (answer.unread_count, answer.mention_count, answer.total_mentions) == (3, 2, 2)
    await board.check()
    answer = await board.index("c", removed=(3,))
    assert (answer.unread_count, answer.mention_count) == (2, 1)
    read = await board.read("c", 1, 2)
    assert (read.unread_count, read.mention_count, read.total_mentions) == (0, 0, 0)
    assert await board.ids_of("mentions") == []
    await board.check()


async def test_a_delete_that_meets_a_lost_set_of_mentions_makes_the_conversation_cold(board: Board) -> None:
    await board.warm(c=blank())
    await board.index("c", 1, 2, mentions=(2,))
    await board.say("DEL", mentions_of(board.keys.unread("u", "c")))
    assert (await board.index("c", removed=(2,))).is_cold  # whether a mention was removed is not known
    await board.check()


async def test_a_mention_that_comes_again_counts_once(board: Board) -> None:
    await board.warm(c=blank())
    for _ in range(3):
        answer = await board.index("c", 4, mentions=(4,))
    assert (answer.mention_count, answer.total_mentions) == (1, 1)
    assert await board.ids_of("mentions") == ["c"]


async def test_a_mention_that_is_trimmed_is_counted_no_more(board: Board) -> None:
    await board.warm(c=blank())
    answer = await board.index("c", *range(1, CAP + 3), mentions=(1, CAP))
    assert (answer.unread_count, answer.mention_count) == (CAP, 1)
    await board.check()


async def test_a_lost_set_of_mentions_is_noticed(board: Board) -> None:
    await board.warm(c=blank(count=2, first=98, mentions=1, first_mention=99))
    await board.say("DEL", mentions_of(board.keys.unread("u", "c")))
    assert (await board.read("c", 1, 98)).is_cold


async def test_what_is_quiet_counts_for_itself_and_not_in_the_total(board: Board) -> None:
    await board.warm(c=blank(flags=QUIET + MUTED), d=blank())
    answer = await board.index("c", 1, 2)
    assert (answer.unread_count, answer.total_unread) == (2, 0)
    assert (await board.index("d", 3)).total_unread == 1
    assert (await board.read("c", 1, 1)).total_unread == 1
    assert await board.ids_of("muted") == ["c"]
    await board.check()


async def test_pinned_ones_come_first_in_the_order_of_pinning_and_never_twice(board: Board) -> None:
    marks = {id_: blank(flags=PINNED if id_ in "ac" else 0) for id_ in "abcde"}
    await board.warm(**marks)
    await board.index("c", 50)
    for limit in (1, 2, 3, 10):
        listed: list[str] = []
        after: Place | None = TOP
        while after is not None and (page := await board.page(limit, after)):
            listed += [one.conversation_id for one in page.listed]
            after = page.next
        assert listed == ["a", "c", "e", "d", "b"]
    assert await board.ids_of("pinned") == ["a", "c"]


async def test_an_archived_one_is_left_out_and_goes_cold_with_a_message(board: Board) -> None:
    await board.warm(a=blank(flags=ARCHIVED), b=blank())
    page = await board.page()
    assert page is not None and [one.conversation_id for one in page.listed] == ["b"]
    await board.check()
    await board.index("a", removed=(5,), score_ms=0)
    assert await board.ids_of("archived") == ["a"]
    answer = await board.index("a", 9)
    assert answer.is_back and answer.is_cold and not answer.is_user_cold
    page = await board.page()
    assert page is not None and page.cold == 1, "the tables know whether the message is later than the flag"
    await board.check()


async def test_an_archived_one_that_is_muted_stays_archived(board: Board) -> None:
    await board.warm(a=blank(flags=ARCHIVED + MUTED + QUIET), b=blank())
    answer = await board.index("a", 9)
    assert (answer.unread_count, answer.total_unread) == (1, 0)
    assert (await board.ids_of("archived"), await board.ids_of("unread")) == (["a"], ["a"])
    await board.check()


async def test_the_unread_filter_shows_each_once_while_another_device_reads(board: Board) -> None:
    await board.warm(**{f"c{n}": blank() for n in range(9)})
    for n in range(9):
        await board.index(f"c{n}", n + 1)
    seen: list[str] = []
    after: Place | None = filter_top("unread")
    while after is not None and (page := await board.page(2, after)):
        seen += [one.conversation_id for one in page.listed]
        await board.read(seen[-1], 1, 99)
        await board.read("c1", 1, 99)
        after = page.next
    assert seen == [f"c{n}" for n in range(8, -1, -1) if n != 1]
    await board.check()


async def test_a_page_of_one_kind_passes_over_the_others(board: Board) -> None:
    kinds: list[ConversationKind] = ["direct", "group", "channel"]
    await board.warm(**{f"c{n}": blank(flags=Flags(kind=kinds[n % 3]).packed) for n in range(9)})
    for kind in kinds:
        page = await board.page(2, kind=kind)
        assert page is not None and page.next is not None
        rest = await board.page(2, page.next, kind=kind)
        assert rest is not None and rest.next is None
        listed = [one.conversation_id for one in (*page.listed, *rest.listed)]
        assert listed == [f"c{n}" for n in range(8, -1, -1) if kinds[n % 3] == kind]


async def test_a_user_may_have_thousands_of_large_conversations(board: Board) -> None:
    large = Mark(version=1, cursor=3, seen=3, count=0, first=0, floor=0, flags=Flags(line_ms=7).packed)
    await board.warm(**{f"c{number:05}": large for number in range(9_000)})
    state = await board.call(board.scripts.unread_state("u"))
    assert [(one.conversation_id, one.score_ms) for one in state.large] == [
        (f"c{number:05}", number + 1) for number in range(9_000)
    ]
    assert {one.mark for one in state.large} == {large}


@pytest.mark.parametrize("name", FILTERS)
async def test_a_lost_filter_makes_the_user_cold(board: Board, name: str) -> None:
    everything = QUIET + MUTED + (ARCHIVED if name == "archived" else PINNED)
    await board.warm(c=blank(count=2, first=98, mentions=1, first_mention=99, flags=everything), d=blank())
    assert await board.page() is not None
    await board.say("DEL", f"{board.inbox}:{name}")
    assert await board.page() is None


# --- everything at random -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_the_invariants_hold_after_any_sequence_of_calls(board: Board, seed: int) -> None:
    dice, scripts = random.Random(seed), board.scripts
    kinds_of_flags = [
        Flags(is_quiet=muted and quiet, is_muted=muted, is_archived=archived, pinned_ms=0 if archived else pinned)
        for muted, quiet, archived, pinned in itertools.product((False, True), (False, True), (False, True), (0, 7))
    ]
    ids = ["a", "b", "c", "d"]
    await board.warm(a=blank(), b=blank(count=3, first=97))
    for _ in range(400):
        id_, seq = dice.choice(ids), dice.randint(1, 30)
        deed = dice.randrange(8)
        if deed <= 2:
            removed = tuple(dice.sample(range(1, 31), dice.choice((0, 0, 1, 2))))
            seqs = tuple(dice.sample(range(1, 31), dice.randint(0, 4)))
            await board.index(id_, *seqs, removed=removed, mentions=[seq for seq in seqs if seq % 3 == 0])
        elif deed == 3:
            seqs = tuple(sorted(dice.sample(range(seq + 1, 40), dice.choice((0, 0, 2)))))
            await board.read(id_, dice.randint(0, 6), seq if not seqs else 0, seqs)
        elif deed == 4:
            flags = dice.choice(kinds_of_flags)
            fields = {"score_ms": seq, "version": dice.randint(0, 3), "cursor": seq}
            await board.call(scripts.inbox_join("u", id_, **fields, flags=flags))
        elif deed == 5 and dice.random() < 0.4:
            await board.call(scripts.inbox_leave("u", id_))
        elif deed >= 6:
            chilled = await board.call(scripts.unread_chill("u", id_, version=dice.randint(0, 8)))
            if chilled.gen is not None and dice.random() < 0.8:
                flags, mentions = dice.choice(kinds_of_flags), dice.randrange(2)
                given = {"mentions": mentions, "first_mention": 42 * mentions, "flags": flags.packed}
                mark = blank(version=dice.randint(0, 5), count=2, first=40, **given)
                await board.say("ZADD", scripts.aside("u", id_, "t"), 40, 40, 42, 42)
                if mentions:
                    await board.say("ZADD", mentions_of(scripts.aside("u", id_, "t")), 42, 42)
                install = scripts.unread_install("u", id_, "t", gen=chilled.gen, mark=mark, pinned_ms=flags.pinned_ms)
                assert await board.call(install)
        await board.check()
        assert await board.page() is not None


async def test_no_key_is_without_a_time_to_live(board: Board) -> None:
    await board.index("z", 5)
    await board.warm()
    await board.call(board.scripts.inbox_join("u", "c", score_ms=5, version=0, cursor=0))
    await board.index("c", 6, 7)
    await board.call(board.scripts.unread_put("u", "t", hold_ms=1_000))
    names = await board.say("KEYS", f"{board.keys.prefix}*")
    assert len(names) == 4
    assert all([await board.say("TTL", key.decode()) > 0 for key in names])


async def test_two_nodes_that_index_at_once_agree(board: Board, valkey: ValkeyProcess) -> None:
    other = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    await board.warm(c=blank())
    calls = [
        board.scripts.inbox_index("u", "c", score_ms=seq, added=(seq, seq), removed=(), now_ms=0) for seq in range(1, 5)
    ]
    await asyncio.gather(*(keyspace.one(call) for call in calls for keyspace in (board.keyspace, other)))
    mark = await board.mark_of("c")
    assert mark is not None and mark.count == 4
    await board.check()
    await other.close()
