"""Fairness: few upgrades and connects at a time, and a user who is refused too often is read and answered slowly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest

from tests.support.clocks import StillClock
from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import Kept
from tests.support.waiting import eventually
from tidings.bounds import IN_FLIGHT_PER_SOCKET_MAX, PAGES_PER_USER_MAX, REFUSALS_PER_PERIOD_MAX
from tidings.errors import Held, NotFound, RateLimited, StoreUnavailable
from tidings.gateway import fairness
from tidings.gateway.fairness import (
    FRAMES_AT_ONCE,
    Bucket,
    Intake,
    Owner,
    Pace,
    PagesAtOnce,
    Permits,
    PerUser,
    Refusals,
    UnderWay,
)
from tidings.messaging.send.draft import Draft
from tidings.operators.audit.events import Audit

# --- intake ---------------------------------------------------------------------------------------


class Waiting:
    """A socket with frames that wait."""

    def __init__(self, name: str, frames: int, taken: list[tuple[int, str]], intake: Intake) -> None:
        self._name, self._frames, self._taken, self._intake = name, frames, taken, intake

    def take_late(self) -> bool:
        self._frames -= 1
        self._taken.append((self._intake.turn, self._name))
        return self._frames > 0


async def test_frames_that_wait_are_taken_a_few_in_a_turn_and_one_of_each_socket_in_turn() -> None:
    intake, taken = Intake(), list[tuple[int, str]]()
    assert all(intake.has_room() for _ in range(FRAMES_AT_ONCE)) and not intake.has_room()
    intake.wait(Waiting("busy", 2 * FRAMES_AT_ONCE, taken, intake))
    intake.wait(Waiting("calm", 2, taken, intake))
    async with asyncio.timeout(120):
        while len(taken) < 2 * FRAMES_AT_ONCE + 2:
            await next_turn()
    assert [name for _, name in taken[:5]] == ["busy", "calm", "busy", "calm", "busy"]
    turns = Counter(turn for turn, _ in taken)
    assert sorted(turns.values()) == [2, FRAMES_AT_ONCE, FRAMES_AT_ONCE]


# --- pace -----------------------------------------------------------------------------------------


async def next_turn() -> None:
    await asyncio.sleep(0)


async def test_a_few_go_at_once() -> None:
    pace, done = Pace(3), list[int]()
    assert all(pace.go(lambda n=n: done.append(n)) for n in range(3))  # type: ignore[misc]
    assert done == [0, 1, 2]


async def test_a_storm_is_spread_over_turns_in_its_order() -> None:
    pace, done = Pace(3), list[int]()
    went = [pace.go(lambda n=n: done.append(n)) for n in range(10)]  # type: ignore[misc]
    assert went == [True] * 3 + [False] * 7
    sizes = []
    while len(done) < 10:
        before = len(done)
        await next_turn()
        sizes.append(len(done) - before)
    assert done == list(range(10))
    assert max(sizes) == 3


async def test_who_comes_later_does_not_overtake_those_who_wait() -> None:
    pace, done = Pace(1), list[str]()
    for name in "abc":
        pace.go(lambda name=name: done.append(name))  # type: ignore[misc]
    await next_turn()
    assert not pace.go(lambda: done.append("late"))
    for _ in range(8):
        await next_turn()
    assert done == ["a", "b", "c", "late"]


async def test_one_that_fails_takes_nobody_with_it() -> None:
    pace, done = Pace(2), list[int]()
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))

    def fail() -> None:
        raise ValueError

    for work in (lambda: None, lambda: None, fail, lambda: done.append(1), lambda: done.append(2)):
        pace.go(work)
    for _ in range(8):
        await next_turn()
    assert done == [1, 2] and len(failures) == 1


async def test_after_a_storm_there_is_room_again() -> None:
    pace, done = Pace(2), list[int]()
    for n in range(5):
        pace.go(lambda n=n: done.append(n))  # type: ignore[misc]
    for _ in range(8):
        await next_turn()
    assert pace.go(lambda: done.append(5)) and done == list(range(6))


# --- permits --------------------------------------------------------------------------------------


async def test_so_many_have_a_permit_and_the_next_follows() -> None:
    permits, order = Permits(1, 1), list[str]()

    async def work(name: str) -> None:
        async with permits.permit():
            order.append(name)

    async with permits.permit():
        following = asyncio.create_task(work("second"))
        order.append("first")
    await following
    assert order == ["first", "second"]


async def test_a_permit_that_was_given_back_is_anothers_until_it_is_taken_again() -> None:
    permits = Permits(1, 1)
    async with permits.permit() as first:
        assert first.give_back()
        async with permits.permit():
            again = asyncio.create_task(first.take_again())
            await asyncio.sleep(0)
            assert not again.done()
        await again
    async with asyncio.timeout(60), permits.permit():
        pass


async def test_so_many_wait_without_a_permit_and_no_more() -> None:
    permits = Permits(2, 1)
    async with permits.permit() as first, permits.permit() as second:
        assert (first.give_back(), second.give_back()) == (True, False)
        await first.take_again()
        assert second.give_back()


async def test_work_that_waits_to_take_its_permit_again_counts_among_those_without_one() -> None:
    permits = Permits(1, 1)
    async with permits.permit() as first:
        assert first.give_back()
        async with permits.permit() as second:
            again = asyncio.create_task(first.take_again())
            await asyncio.sleep(0)
            assert not second.give_back()
        await again
        assert first.give_back()


async def test_work_that_is_cancelled_without_a_permit_gives_back_nothing_twice() -> None:
    permits, is_lent = Permits(1, 1), asyncio.Event()

    async def wait_for_ever() -> None:
        async with permits.permit() as permit:
            permit.give_back()
            is_lent.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait_for_ever())
    await is_lent.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with permits.permit() as permit:
        late = asyncio.create_task(permits.permit().__aenter__())
        await asyncio.sleep(0)
        assert not late.done() and permit.give_back()
        await eventually(late.done)


# --- refusals -------------------------------------------------------------------------------------


def refusals_of(kept: Kept) -> Refusals:
    return Refusals(cast(Audit, kept))


def refuse_sends(gateway: Gateway) -> None:
    """Every send is over the limit."""

    def submit(draft: Draft) -> None:
        gateway.log.submitted.append(draft)
        asyncio.get_running_loop().call_soon(draft.reply, RateLimited(retry_after_ms=1200))

    gateway.log.submit = submit  # type: ignore[method-assign]


async def test_only_limits_count_as_refusals() -> None:
    kept = Kept()
    refusals = refusals_of(kept)
    for problem in (RateLimited(retry_after_ms=1, class_name="read"), Held(), NotFound(), ValueError(), None):
        refusals.note("alice", problem)
    assert kept.rejects == {("read", "alice"): 1, ("held", "alice"): 1}


@pytest.fixture
def periods_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Periods end when a test ends them, however slow the machine is."""
    monkeypatch.setattr(fairness, "REFUSALS_PERIOD_S", 3_600)


async def end_period(refusals: Refusals) -> None:
    assert refusals._timer is not None
    refusals._timer.cancel()
    refusals._end_period()
    await next_turn()


def count_periods(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows by one with each period."""
    ended: list[None] = []
    refusals = gateway.server._connections.refusals
    end = refusals._end_period

    def end_and_count() -> None:
        ended.append(None)
        end()

    monkeypatch.setattr(refusals, "_end_period", end_and_count)
    return ended


@pytest.mark.usefixtures("periods_by_hand")
async def test_who_is_refused_too_often_waits_for_the_next_period_and_then_is_free_again() -> None:
    refusals, went_on = refusals_of(Kept()), asyncio.Event()
    for _ in range(REFUSALS_PER_PERIOD_MAX):
        assert not refusals.is_over("alice")
        refusals.note("alice", RateLimited(retry_after_ms=1))
    assert refusals.is_over("alice") and "alice" in refusals.hot and "bob" not in refusals.hot
    refusals.at_next_period("alice", went_on.set)
    await next_turn()
    assert not went_on.is_set()
    await end_period(refusals)
    assert went_on.is_set() and not refusals.is_over("alice") and "alice" in refusals.hot
    await end_period(refusals)
    assert "alice" not in refusals.hot
    assert refusals._timer is None  # nothing runs while nobody is refused


@pytest.mark.usefixtures("periods_by_hand")
async def test_a_period_has_room_for_as_many_however_many_connections_a_user_has() -> None:
    refusals, went_on = refusals_of(Kept()), list[str]()
    for user_id in ("mallory", "bob"):
        for _ in range(REFUSALS_PER_PERIOD_MAX):
            refusals.note(user_id, RateLimited(retry_after_ms=1))
    for n in range(3 * REFUSALS_PER_PERIOD_MAX):
        refusals.at_next_period("mallory", partial(went_on.append, f"mallory {n}"))
    refusals.at_next_period("bob", partial(went_on.append, "bob"))
    await end_period(refusals)
    assert went_on == [*(f"mallory {n}" for n in range(REFUSALS_PER_PERIOD_MAX)), "bob"]
    assert "mallory" in refusals.hot and not refusals.is_over("mallory")
    while refusals._timer is not None:
        await end_period(refusals)
    assert [one for one in went_on if one != "bob"] == [f"mallory {n}" for n in range(3 * REFUSALS_PER_PERIOD_MAX)]


@pytest.mark.usefixtures("periods_by_hand")
async def test_a_slow_answer_comes_in_the_next_period_and_at_once_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairness, "REFUSED_WAITING_MAX", 1)
    refusals, problem = refusals_of(Kept()), RateLimited(retry_after_ms=1)
    for _ in range(REFUSALS_PER_PERIOD_MAX - 1):
        await refusals.answer_slowly("alice", problem)
    first = asyncio.get_running_loop().create_task(refusals.answer_slowly("alice", problem))
    await asyncio.sleep(0)
    await refusals.answer_slowly("alice", problem)
    assert not first.done()
    await end_period(refusals)
    await first
    await end_period(refusals)


# --- what strangers and single users may take -----------------------------------------------------


def test_a_bucket_allows_a_few_in_a_row_and_then_one_at_a_time() -> None:
    clock = StillClock()
    bucket = Bucket(clock, 3, 2.0)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.at_s += 1.9
    assert not bucket.take()
    clock.at_s += 0.2
    assert bucket.take() and not bucket.take()
    clock.at_s += 1_000
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


async def test_a_user_reads_a_few_pages_at_a_time_and_others_read_theirs() -> None:
    pages, go_on, under_way = PagesAtOnce(2), asyncio.Event(), list[str]()

    async def read(user_id: str) -> None:
        async with pages.of(user_id):
            under_way.append(user_id)
            await go_on.wait()

    reads = [asyncio.ensure_future(read(user_id)) for user_id in [*["mallory"] * 5, "bob"]]
    await next_turn()
    assert under_way == ["mallory", "mallory", "bob"]
    reads[-2].cancel()
    go_on.set()
    await asyncio.gather(*reads, return_exceptions=True)
    assert under_way.count("mallory") == 4 and pages._users == {}


async def test_pages_of_a_socket_wait_for_their_turn_and_none_is_made_for_nobody(gateway: Gateway) -> None:
    go_on, begun = asyncio.Event(), 0
    plain = gateway.inbox.page

    async def page(*args: Any, **fields: Any) -> Any:
        nonlocal begun
        begun += 1
        await go_on.wait()
        return await plain(*args, **fields)

    gateway.inbox.page = page  # type: ignore[method-assign]
    first, second = await gateway.wire(), await gateway.wire()
    for number in range(50):
        first.say(id=number, type="inbox")
        second.say(id=number, type="inbox")
    await gateway.until(lambda: sum(one.in_flight for one in gateway.server._connections._all) == 100)
    assert begun == PAGES_PER_USER_MAX
    first.drop()
    await gateway.until(lambda: len(gateway.hub.of_user("alice")) == 1)
    go_on.set()
    assert (await second.answer_to(49))["type"] == "ok"
    assert begun < 60  # few of those who left


def test_a_connection_counts_for_the_user_of_its_last_request_until_it_is_gone() -> None:
    per_user = PerUser(2)
    first, second, third = Owner(per_user), Owner(per_user), Owner(per_user)
    assert first.become("alice") and first.become("alice") and second.become("alice")
    assert not third.become("alice") and third.become("bob")
    second.go()
    assert third.become("alice") and not Owner(per_user).become("alice")
    second.become("alice")  # a request that outlives its connection counts for nobody
    first.go()
    third.go()
    assert per_user._counts == {}


# --- over a socket --------------------------------------------------------------------------------


async def test_every_refused_frame_is_counted_once_under_its_class(gateway: Gateway) -> None:
    refuse_sends(gateway)
    gateway.limiter.refused |= {"read", "typing"}
    wire = await gateway.wire()
    await wire.ask("message.send", conversation_id="c1", message_id="m1", text="x")
    wire.say(type="message.send", conversation_id="c1", message_id="m2", text="x")  # no answer is wanted
    await wire.ask("inbox")
    await wire.ask("message.read", conversation_id="c1", up_to_seq=1)
    wire.say(type="typing", conversation_id="c1", typing=True)
    await wire.ask("message.delivered", acks={"c1": 1})
    await wire.ask("ping")
    await gateway.until(lambda: gateway.kept.rejects["typing", "alice"])
    assert gateway.kept.rejects == {("send", "alice"): 2, ("read", "alice"): 3, ("typing", "alice"): 1}


async def test_a_flood_is_read_slowly_and_every_answer_comes_in_order(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_sends(gateway)
    periods = count_periods(gateway, monkeypatch)
    wire, count = await gateway.wire(), IN_FLIGHT_PER_SOCKET_MAX + 10 * REFUSALS_PER_PERIOD_MAX
    for n in range(count):
        wire.say(id=1000 + n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    answers = [await wire.hear() for _ in range(count)]
    assert [answer["id"] for answer in answers] == [1000 + n for n in range(count)]
    assert len(periods) >= 5
    assert gateway.kept.rejects == {("send", "alice"): count}


async def test_another_user_does_not_wait_for_a_flood(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_sends(gateway)
    periods = count_periods(gateway, monkeypatch)
    flooding, other = await gateway.wire("mallory"), await gateway.wire("bob")
    frame = json.dumps({"id": 7, "type": "message.send", "conversation_id": "c1", "message_id": "m", "text": "x"})
    for _ in range(2_000):
        flooding.say_text(frame)
    await flooding.hear()
    submitted, passed = len(gateway.log.submitted), len(periods)
    for _ in range(20):
        assert (await other.ask("ping"))["type"] == "pong"
    most = (len(periods) - passed + 2) * (REFUSALS_PER_PERIOD_MAX + 1) + IN_FLIGHT_PER_SOCKET_MAX
    assert len(gateway.log.submitted) - submitted <= most
    flooding.drop()


async def test_a_flooder_that_leaves_is_let_go(gateway: Gateway) -> None:
    refuse_sends(gateway)
    wire = await gateway.wire()
    for n in range(IN_FLIGHT_PER_SOCKET_MAX + 10 * REFUSALS_PER_PERIOD_MAX):
        wire.say(id=n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    await wire.hear()
    wire.drop()
    await gateway.until(lambda: not gateway.hub.of_user("alice"))
    assert (await (await gateway.wire()).ask("ping"))["type"] == "pong"


async def test_a_refused_connect_is_counted(gateway: Gateway) -> None:
    gateway.limiter.refused.add("connect")
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token())
    assert await wire.closed() == 4013
    assert gateway.kept.rejects == {("connect", "alice"): 1}


# --- over REST ------------------------------------------------------------------------------------


async def test_a_refused_request_is_counted_under_whose_budget_it_was(gateway: Gateway) -> None:
    gateway.limiter.refused.add("http")
    key = await gateway.api_key()
    assert (await gateway.rest("GET", "/v1/inbox"))[0] == 429
    for headers in ({"X-Api-Key": key}, {"X-Api-Key": key, "X-User-Id": "bob"}):
        assert (await http(gateway.port, "GET", "/v1/users/bob", None, headers))[0] == 429
    gateway.limiter.key_payers.add("admin")
    assert (await http(gateway.port, "GET", "/v1/users/bob", None, headers))[0] == 429
    [key_id] = {user_id for _, user_id in gateway.kept.rejects if user_id.startswith("key-")}
    assert gateway.kept.rejects == {("http", "alice"): 1, ("http", "bob"): 1, ("http", key_id): 2}


# --- sign-in --------------------------------------------------------------------------------------


async def test_failed_sign_ins_are_counted_by_the_way_they_came(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    await wire.connect("not a token")
    connected = await gateway.wire()
    await connected.ask("auth.refresh", token=gateway.token("somebody-else"))
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"X-Api-Key": "nonsense"}):
        assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 401
    assert (await gateway.rest("POST", "/v1/users/bob/revoke"))[0] == 403
    reader = {"X-Api-Key": await gateway.api_key("readonly")}
    assert (await http(gateway.port, "POST", "/v1/users/bob/revoke", None, reader))[0] == 403
    assert gateway.kept.failed == {"ws": 2, "http": 3, "operator": 2}
    assert gateway.kept.rejects == {}


async def test_who_connects_or_asks_was_there_and_a_server_was_not(gateway: Gateway) -> None:
    await gateway.wire("alice")
    await gateway.rest("GET", "/v1/inbox", user_id="bob")
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "carol"}
    assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 200
    assert gateway.kept.there == ["alice", "bob"]


async def test_a_revocation_names_the_key_that_made_it(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key()}
    assert (await http(gateway.port, "POST", "/v1/users/bob/revoke", None, headers))[0] == 200
    assert gateway.kept.revocations == [("bob", "admin")]


# --- answers that are streamed --------------------------------------------------------------------


async def two_chunks() -> AsyncIterator[bytes]:
    yield b"a"
    yield b"b"


async def test_streams_are_bounded_by_user_and_together_and_leave_with_their_last_chunk() -> None:
    under_way = UnderWay("files", 1, 2)
    under_way.enter("alice")
    with pytest.raises(StoreUnavailable, match="too many files of this user"):
        under_way.enter("alice")
    under_way.enter("bob")
    with pytest.raises(StoreUnavailable, match="too many files are under way on this node"):
        under_way.enter("carol")
    assert [chunk async for chunk in under_way.until_end("alice", two_chunks())] == [b"a", b"b"]
    under_way.enter("carol")


async def test_a_stream_that_its_reader_leaves_is_counted_no_more() -> None:
    under_way = UnderWay("files", 1, 1)
    under_way.enter("alice")
    chunks = under_way.until_end("alice", two_chunks())
    assert await anext(chunks) == b"a"
    await chunks.aclose()
    under_way.enter("alice")
