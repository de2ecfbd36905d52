"""The tally on a real server: what each script keeps, counts and refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest

from tests.stores.keyspace.scripts.test_messaging import Bench
from tidings.clock import Clock
from tidings.model import EVERYBODY, Entry
from tidings.stores.keyspace.scripts.tally import SOURCES, Answer, TallyScripts, forget_tally, words_of
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

LINE_MS = 7
REVS = map(str, count())


def said(seq_no: int, sender_id: str = "ann", *mentions: str) -> Entry:
    return Entry("c", seq_no, "message", 1_000 + seq_no, sender_id=sender_id, mentions=mentions)


class Tally(Bench):
    @property
    def stubs(self) -> TallyScripts:
        return TallyScripts(self.keys, cap=3)

    async def fill(self, *entries: Entry, line_ms: int = LINE_MS) -> None:
        begun = await self.do(self.stubs.tally_begin("c", line_ms, "one"))
        assert begun.build is not None
        assert await self.do(self.stubs.tally_fill("c", line_ms, begun.build, entries, is_end=True))

    async def count(
        self, user_id: str, seen: int = 0, *ranges: tuple[int, int], blocked: tuple[str, ...] = ()
    ) -> Answer:
        call = self.stubs.tally_count("c", LINE_MS, user_id, seen=seen, ranges=ranges, blocked=blocked)
        return await self.do(call)


@pytest.fixture
async def tally(valkey: ValkeyProcess) -> AsyncIterator[Tally]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Tally(keyspace)
    await keyspace.close()


def test_a_message_is_one_word_and_what_does_not_count_is_none() -> None:
    entries = [said(1, "ann", "bob", "cid"), said(2, "bob", EVERYBODY), Entry("c", 3, "void", 5)]
    assert words_of(entries) == ["1 ann bob cid", "2 bob *"]


async def test_own_messages_blocked_people_and_single_reads_do_not_count(tally: Tally) -> None:
    await tally.fill(said(1), said(2, "bob"), said(3, "cid", "bob"))
    answer = await tally.count("bob")
    assert answer.counts is not None and answer.last_ms == 0
    assert (answer.counts.count, answer.counts.first, answer.counts.mentions, answer.counts.first_mention) == (
        2,
        1,
        1,
        3,
    )
    for changed in (await tally.count("bob", 1), await tally.count("bob", 0, (1, 1))):
        assert changed.counts is not None and (changed.counts.count, changed.counts.first) == (1, 3)
    hidden = (await tally.count("bob", blocked=("cid",))).counts
    assert hidden is not None and (hidden.count, hidden.mentions, hidden.first_mention) == (1, 0, 0)


async def test_a_deleted_message_leaves_the_counts_and_comes_back_never_during_a_build(tally: Tally) -> None:
    begun = await tally.do(tally.stubs.tally_begin("c", LINE_MS, "one"))
    assert begun.build == "one" and (await tally.count("bob")).is_cold
    assert (await tally.do(tally.stubs.tally_add("c", LINE_MS, [said(2)], [1], rev=next(REVS)))).is_open
    assert await tally.do(tally.stubs.tally_fill("c", LINE_MS, "one", [said(1)], is_end=True))
    found = (await tally.count("bob")).counts
    assert found is not None and (found.count, found.first) == (1, 2)
    await tally.do(tally.stubs.tally_add("c", LINE_MS, [], [2], rev=next(REVS)))
    gone = (await tally.count("bob")).counts
    assert gone is not None and gone.count == 0


async def test_above_the_cap_mentions_count_among_the_newest_only(tally: Tally) -> None:
    await tally.fill(*(said(number, "ann", "bob") for number in range(1, 6)))
    found = (await tally.count("bob")).counts
    assert found is not None and (found.count, found.is_capped, found.mentions, found.first_mention) == (3, True, 3, 3)


async def test_a_tally_that_was_cut_asks_the_tables_for_what_lies_below(tally: Tally) -> None:
    await tally.fill(said(1))
    await tally.do(
        tally.stubs.tally_add("c", LINE_MS, [said(number, "bob") for number in range(2, 110)], [], rev=next(REVS))
    )
    answer = await tally.count("bob")
    assert not answer.is_cold and answer.counts is None
    assert (await tally.count("cid")).counts is not None, "the cap is reached above the cut"


async def test_a_build_puts_nothing_below_what_was_cut_meanwhile(tally: Tally) -> None:
    """Otherwise the next cut would end lower, and what lies between the two would be missing from the counts."""
    await tally.do(tally.stubs.tally_begin("c", LINE_MS, "one"))
    posts = [said(number, "ann" if number <= 300 else "bob") for number in range(200, 307)]
    await tally.do(tally.stubs.tally_add("c", LINE_MS, posts, [], rev=next(REVS)))
    older = [said(number) for number in range(50, 151)]
    assert await tally.do(tally.stubs.tally_fill("c", LINE_MS, "one", older, is_end=True))
    assert (await tally.count("bob", 160)).counts is None, "the tables have 140 messages that were cut"
    await tally.do(tally.stubs.tally_add("c", LINE_MS, [said(307, "bob")], [301], rev=next(REVS)))
    assert (await tally.count("bob", 160)).counts is None


async def test_a_message_that_mentions_thousands_is_counted_and_taken_out_again(tally: Tally) -> None:
    names = [f"user{number}" for number in range(5_000)]
    await tally.fill(said(1), said(2, "ann", *names))
    for user_id in (names[0], names[-1]):
        found = (await tally.count(user_id)).counts
        assert found is not None and (found.count, found.mentions, found.first_mention) == (2, 1, 2)
    await tally.do(tally.stubs.tally_add("c", LINE_MS, [said(3, "ann", *names)], [2], rev=next(REVS)))
    found = (await tally.count(names[-1])).counts
    assert found is not None and (found.count, found.mentions, found.first_mention) == (2, 1, 3)
    await tally.do(tally.stubs.tally_add("c", LINE_MS, [], [3], rev=next(REVS)))
    assert await tally.command("ZCARD", tally.keys.tally_set("c", "who")) == 1, "the place of the first sender"


async def test_another_line_or_build_is_refused(tally: Tally) -> None:
    await tally.fill(said(1))
    assert (await tally.do(tally.stubs.tally_begin("c", LINE_MS - 1, "two"))).build is None
    assert not (await tally.do(tally.stubs.tally_add("c", LINE_MS + 1, [said(2)], [], rev=next(REVS)))).is_open
    assert (await tally.count("bob")).is_cold, "it became large again, and the older line counts no more"
    assert not await tally.do(tally.stubs.tally_fill("c", LINE_MS + 1, "one", [said(1)]))


async def test_a_settled_line_is_remembered_through_a_build(tally: Tally) -> None:
    assert not (await tally.do(tally.stubs.tally_add("c", LINE_MS, [], [], rev=next(REVS)))).is_settled
    await tally.do(tally.stubs.tally_settle("c", LINE_MS))
    await tally.fill(said(1))
    assert (await tally.do(tally.stubs.tally_add("c", LINE_MS, [], [], rev=next(REVS)))).is_settled
    assert not (await tally.do(tally.stubs.tally_add("c", LINE_MS + 1, [], [], rev=next(REVS)))).is_settled


async def test_every_change_has_another_name_and_reading_changes_nothing(tally: Tally) -> None:
    await tally.fill(said(1))
    first = (await tally.count("bob")).rev
    assert first and (await tally.count("cid")).rev == first
    (revs,) = [await tally.do(call) for call in tally.stubs.revs(["c"], is_one_server=True)]
    assert revs == [first] and first.startswith(tally.stubs.rev_of(tally.keyspace.epoch("c")))
    await tally.do(tally.stubs.tally_add("c", LINE_MS, [], [], rev=next(REVS)))
    assert (await tally.count("bob")).rev not in (b"", first)
    for call in forget_tally(tally.keys, "c"):
        await tally.do(call)
    assert (await tally.count("bob")).is_cold
    assert not first.startswith(tally.stubs.rev_of("another"))
