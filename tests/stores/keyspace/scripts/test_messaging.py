"""The stubs and the scripts behind them, on a real server: numbers, notes and the window, also when many race."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest

from tidings.bounds import INDEX_TTL_S, SENT_GENERATION_S
from tidings.clock import Clock
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.answers import Numbered
from tidings.stores.keyspace.scripts.messaging import NAMES, SOURCES, Scripts
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

R = TypeVar("R")
GENERATION_MS = SENT_GENERATION_S * 1000
NOW_MS = 100 * GENERATION_MS
_tenants = itertools.count(1)


class Bench:
    """The stubs of one tenant on a keyspace."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self.keyspace = keyspace
        self.keys = Keys(f"scripts{next(_tenants)}.")
        self.scripts = Scripts(self.keys, unread_cap=10, unread_ttl_s=3_600)

    async def do(self, call: Call[R]) -> R:
        return await self.keyspace.one(call)

    async def command(self, *words: str | int) -> Any:
        return await self.do(plain(str(words[1]), *words))

    async def seed(self, seq: int = 0, at: int = 0, members_seq: int = 0, counter_id: str = "first") -> int:
        fields = {"seq": seq, "at": at, "members_seq": members_seq, "now_ms": NOW_MS}
        return await self.do(self.scripts.conversation_seed("c", counter_id=counter_id, seeding="", **fields))

    async def number(self, *ids: str, now_ms: int = NOW_MS, **fields: Any) -> Numbered | None:
        given: dict[str, Any] = {"node_id": "n", "open_from": 0, "is_member_change": False}
        return await self.do(self.scripts.conversation_number("c", ids, now_ms=now_ms, **{**given, **fields}))

    async def forget(self, *notes: tuple[str, int, tuple[int, int] | None], now_ms: int = NOW_MS) -> int:
        return await self.do(self.scripts.sent_forget("c", notes, now_ms=now_ms))

    async def conv(self) -> dict[str, str]:
        flat = [part.decode() for part in await self.command("HGETALL", self.keys.conv("c"))]
        return dict(zip(flat[::2], flat[1::2], strict=True))


@pytest.fixture
async def bench(valkey: ValkeyProcess) -> AsyncIterator[Bench]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Bench(keyspace)
    await keyspace.close()


# --- conversation_number, conversation_seed -------------------------------------------------------


async def test_numbers_follow_the_counter_and_times_do_not_go_back(bench: Bench) -> None:
    assert await bench.seed(seq=41, at=5) == 41
    first = await bench.number("alice:a", "alice:b", "alice:c")
    second = await bench.number("alice:d")
    assert first is not None and second is not None
    assert (first.first_seq, first.known, second.first_seq) == (42, {}, 45)
    assert second.first_at >= first.first_at
    assert first.first_at > Clock().now_ms() - 60_000


async def test_each_call_is_a_millisecond_later_than_the_last_one_while_the_clock_is_behind(bench: Bench) -> None:
    future_ms = Clock().now_ms() + 3_600_000
    await bench.seed(seq=1, at=future_ms)
    for later_ms in (1, 2):
        numbered = await bench.number(f"alice:{later_ms}")
        assert numbered is not None and numbered.first_at == future_ms + later_ms


async def test_no_counter_or_one_of_another_epoch_asks_for_a_seed(bench: Bench) -> None:
    assert await bench.number("alice:a") is None
    await bench.seed(seq=3)
    await bench.command("HSET", bench.keys.conv("c"), "epoch", "another life")
    assert await bench.number("alice:a") is None
    assert "open:n" not in await bench.conv(), "nothing was handed out"


async def test_a_seed_raises_and_never_lowers(bench: Bench) -> None:
    await bench.seed(seq=10, at=1_000, members_seq=4)
    assert await bench.seed(seq=7, at=2_000, members_seq=2) == 10
    stored = await bench.conv()
    assert (stored["seq"], stored["at"], stored["members_seq"]) == ("10", "2000", "4")
    assert await bench.seed(seq=12, at=1, members_seq=9) == 12
    assert (await bench.conv())["members_seq"] == "9"


async def test_a_counter_that_was_lost_comes_back_as_another_and_knows_no_notes_of_the_lost_one(bench: Bench) -> None:
    await bench.seed(counter_id="first")
    first = await bench.number("alice:a", "alice:b", now_ms=NOW_MS - GENERATION_MS)
    await bench.seed(seq=2, counter_id="raised")
    same = await bench.number("alice:a", "alice:c")
    assert first is not None and same is not None
    assert (first.counter_id, same.counter_id, set(same.known)) == (b"first", b"first", {0})
    await bench.command("DEL", bench.keys.conv("c"))
    await bench.seed(counter_id="second")
    anew = await bench.number("alice:a", "alice:c")
    assert anew is not None and (anew.counter_id, anew.first_seq, anew.known) == (b"second", 1, {})


async def test_a_counter_of_another_epoch_comes_back_as_another_and_keeps_its_notes(bench: Bench) -> None:
    """What a replica lacks after a failover it lacks of both."""
    await bench.seed(counter_id="first")
    await bench.number("alice:a")
    await bench.command("HSET", bench.keys.conv("c"), "epoch", "another life")
    await bench.seed(counter_id="second")
    numbered = await bench.number("alice:a")
    assert numbered is not None and (numbered.counter_id, set(numbered.known)) == (b"second", {0})


async def test_a_known_id_has_its_number_and_the_others_get_the_next_without_a_hole(bench: Bench) -> None:
    await bench.seed()
    first = await bench.number("alice:a", "alice:b")
    again = await bench.number("alice:x", "alice:b", "alice:y", "alice:a")
    assert first is not None and again is not None
    assert again.first_seq == 3
    assert again.known == {1: (2, first.first_at), 3: (1, first.first_at)}
    assert (await bench.conv())["seq"] == "4"


async def test_only_known_ids_use_no_number(bench: Bench) -> None:
    await bench.seed()
    await bench.number("alice:a")
    before = await bench.conv()
    assert (await bench.number("alice:a")) is not None
    assert await bench.conv() == before


async def test_an_id_is_known_for_two_generations(bench: Bench) -> None:
    await bench.seed()
    await bench.number("alice:a")
    later = await bench.number("alice:a", now_ms=NOW_MS + GENERATION_MS)
    assert later is not None and 0 in later.known
    gone = await bench.number("alice:a", now_ms=NOW_MS + 2 * GENERATION_MS)
    assert gone is not None and gone.known == {} and gone.first_seq == 2


async def test_what_is_under_way_is_on_record_with_the_numbers(bench: Bench) -> None:
    await bench.seed(seq=5)
    await bench.number("alice:a", "alice:b")
    await bench.number("alice:c", node_id="other")
    assert (await bench.conv())["open:n"] == "6-7" and (await bench.conv())["open:other"] == "8-8"
    await bench.number("alice:d", open_from=6)
    assert (await bench.conv())["open:n"] == "6-9"


async def test_a_member_change_raises_members_seq_for_those_who_come_after(bench: Bench) -> None:
    await bench.seed(seq=5, members_seq=2)
    change = await bench.number("alice:a", is_member_change=True)
    after = await bench.number("alice:b")
    assert change is not None and after is not None
    assert (change.members_seq, after.members_seq) == (2, 6)


async def test_every_key_gets_its_time_to_live(bench: Bench) -> None:
    await bench.seed()
    assert await bench.command("TTL", bench.keys.conv("c")) == INDEX_TTL_S
    await bench.number("alice:a")
    assert await bench.command("TTL", bench.keys.sent("c", 100)) == 2 * SENT_GENERATION_S
    await bench.command("PERSIST", bench.keys.conv("c"))
    await bench.number("alice:b", now_ms=NOW_MS + GENERATION_MS)
    assert await bench.command("TTL", bench.keys.conv("c")) == INDEX_TTL_S
    assert await bench.command("TTL", bench.keys.sent("c", 101)) == 2 * SENT_GENERATION_S


async def test_racing_callers_get_each_number_once(bench: Bench) -> None:
    await bench.seed()
    wanted = [(f"u{i % 7}:{i}", f"u{i % 7}:{i + 1_000}") for i in range(200)]
    answers = await asyncio.gather(*(bench.number(*ids, node_id=f"n{i % 3}") for i, ids in enumerate(wanted)))
    seqs = [seq for answer in answers if answer for seq in (answer.first_seq, answer.first_seq + 1)]
    assert sorted(seqs) == list(range(1, 401))
    times = {answer.first_seq: answer.first_at for answer in answers if answer}
    assert [times[seq] for seq in sorted(times)] == sorted(times.values())


async def test_racing_callers_with_the_same_id_get_the_same_number(bench: Bench) -> None:
    await bench.seed()
    answers = await asyncio.gather(*(bench.number("alice:a", node_id=f"n{i}") for i in range(50)))
    numbers = {answer.known[0][0] if answer.known else answer.first_seq for answer in answers if answer}
    assert numbers == {1} and (await bench.conv())["seq"] == "1"


async def test_racing_seeds_and_numbers_hand_nothing_out_twice(bench: Bench) -> None:
    async def numbered(i: int) -> int:
        while (answer := await bench.number(f"alice:{i}")) is None:
            await bench.seed(seq=10, at=10)
        return answer.first_seq

    async def forget_the_counter() -> None:
        for seq in range(3):
            await bench.seed(seq=seq)

    seqs = await asyncio.gather(*(numbered(i) for i in range(100)), forget_the_counter())
    assert sorted(seq for seq in seqs if seq) == list(range(11, 111))


# --- sent_forget ----------------------------------------------------------------------------------


async def test_a_note_is_taken_back_only_where_it_still_is_that_number(bench: Bench) -> None:
    await bench.seed()
    await bench.number("alice:a", "alice:b")
    assert await bench.forget(("alice:a", 1, None), ("alice:b", 99, None), ("alice:z", 1, None)) == 1
    again = await bench.number("alice:a", "alice:b")
    assert again is not None and again.first_seq == 3 and set(again.known) == {1}


async def test_a_note_is_set_right(bench: Bench) -> None:
    await bench.seed(seq=20)
    await bench.number("alice:a")
    assert await bench.forget(("alice:a", 21, (7, 700))) == 1
    again = await bench.number("alice:a")
    assert again is not None and again.known == {0: (7, 700)}


async def test_a_note_of_the_generation_before_is_taken_back_too(bench: Bench) -> None:
    await bench.seed()
    await bench.number("alice:a")
    later_ms = NOW_MS + GENERATION_MS
    assert await bench.forget(("alice:a", 1, None), now_ms=later_ms) == 1
    again = await bench.number("alice:a", now_ms=later_ms)
    assert again is not None and again.known == {}


async def test_notes_made_after_all_were_taken_back_get_a_time_to_live(bench: Bench) -> None:
    await bench.seed()
    await bench.number("alice:a")
    await bench.forget(("alice:a", 1, None))
    assert await bench.command("EXISTS", bench.keys.sent("c", 100)) == 0
    await bench.number("alice:b")
    assert await bench.command("TTL", bench.keys.sent("c", 100)) == 2 * SENT_GENERATION_S


# --- limiter_admit --------------------------------------------------------------------------------


async def test_a_window_admits_what_fits_and_says_when_the_next_slot_frees(bench: Bench) -> None:
    def admit(wanted: int, token: str, limit: int = 5) -> Call[Any]:
        return bench.scripts.limiter_admit("u", "send", window_us=60_000_000, limit=limit, wanted=wanted, token=token)

    first = await bench.do(admit(3, "t1"))
    assert (first.admitted, first.remaining, first.retry_after_us) == (3, 2, 0)
    second = await bench.do(admit(3, "t2"))
    assert (second.admitted, second.remaining) == (2, 0)
    assert 59_000_000 < second.retry_after_us <= 60_000_001
    look = await bench.do(admit(0, "t3"))
    assert (look.admitted, look.remaining) == (0, 0)
    assert 0 < await bench.command("PTTL", bench.keys.rate("u", "send")) <= 60_000
    members = await bench.command("ZRANGE", bench.keys.rate("u", "send"), 0, -1)
    assert sorted(members) == [b"t1:1", b"t1:2", b"t1:3", b"t2:1", b"t2:2"]
    lowered = await bench.do(admit(1, "t4", limit=2))
    assert (lowered.admitted, lowered.remaining) == (0, 0), "a limit made smaller meanwhile leaves less than nothing"


async def test_racing_callers_share_one_window(bench: Bench) -> None:
    def admit(i: int) -> Call[Any]:
        return bench.scripts.limiter_admit("u", "send", window_us=60_000_000, limit=100, wanted=3, token=f"t{i}")

    answers = await asyncio.gather(*(bench.do(admit(i)) for i in range(200)))
    assert sum(answer.admitted for answer in answers) == 100
    assert await bench.command("ZCARD", bench.keys.rate("u", "send")) == 100


async def test_what_left_the_window_makes_room_for_as_many(bench: Bench) -> None:
    key = bench.keys.rate("u", "send")
    now_us = Clock().now_ms() * 1000
    for i in range(10):
        age_us = 70_000_000 if i < 4 else 1_000_000
        await bench.command("ZADD", key, now_us - age_us, f"old:{i}")
    call = bench.scripts.limiter_admit("u", "send", window_us=60_000_000, limit=10, wanted=9, token="t")
    assert (await bench.do(call)).admitted == 4


# --- words ------------------------------------------------------------------------------


def test_every_script_begins_with_its_contract_and_is_called_by_its_hash() -> None:
    assert set(SOURCES) == set(NAMES)
    fields = {"seq": 1, "at": 2, "members_seq": 3, "now_ms": 0}
    call = Scripts(Keys(), unread_cap=1, unread_ttl_s=1).conversation_seed("c", counter_id="x", seeding="", **fields)
    assert call.words[0] == b"EVALSHA" and len(call.words[1]) == 40  # type: ignore[arg-type]
    assert call.words[2:4] == (3, "conv:{c}") and call.epoch_at == 6 and call.key == "conv:{c}"
