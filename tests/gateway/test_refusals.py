"""Refusals: each is counted once, and whoever is refused too often is read and answered slowly, and nobody else."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.gateway.conftest import SECRET, Gateway
from tests.gateway.wire import Wire, http
from tidings.bounds import IN_FLIGHT_PER_SOCKET_MAX, REFUSALS_PER_TURN_MAX, REFUSALS_TURN_S
from tidings.errors import Held, NotFound, RateLimited
from tidings.gateway import refusals as module
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings
from tidings.gateway.refusals import Refusals
from tidings.gateway.usecases import UseCases
from tidings.messaging.drafts import Draft


class Kept:
    """An audit that keeps what it is told."""

    def __init__(self) -> None:
        self.rejects: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()
        self.revocations: list[tuple[str, str]] = []
        self.actions: list[tuple[str, str, str, str]] = []
        self.there: list[str] = []

    def rejected(self, class_name: str, user_id: str, count: int = 1) -> None:
        self.rejects[class_name, user_id] += count

    def sign_in_failed(self, way: str) -> None:
        self.failed[way] += 1

    def revoked(self, user_id: str, by: str) -> None:
        self.revocations.append((user_id, by))

    def acted(self, action: str, by: str, *, user_id: str = "-", detail: str = "") -> None:
        self.actions.append((action, by, user_id, detail))

    def note(self, user_id: str) -> None:
        self.there.append(user_id)


class Watched(Gateway):
    """A gateway whose audit and activity a test can look at."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.kept = Kept()
        super().__init__(settings)

    def cases(self) -> UseCases:
        cases = super().cases()
        parts = {name: getattr(cases, name) for name in cases.__dataclass_fields__}
        return UseCases(**{**parts, "audit": self.kept, "activity": self.kept})


@pytest.fixture
async def gateway() -> Any:
    made = Watched(GatewaySettings(AuthSettings(secret=SECRET)))
    made.port = await made.server.start("127.0.0.1", 0)
    yield made
    await made.server.stop()


def refuse_sends(gateway: Watched) -> None:
    """Every send is over the limit."""

    def submit(draft: Draft) -> None:
        gateway.log.submitted.append(draft)
        asyncio.get_running_loop().call_soon(draft.reply, RateLimited(retry_after_ms=1200))

    gateway.log.submit = submit  # type: ignore[method-assign]


# --- the pace -------------------------------------------------------------------------------------


async def test_only_limits_count_as_refusals() -> None:
    kept = Kept()
    refusals = Refusals(kept)
    for problem in (RateLimited(retry_after_ms=1, class_name="read"), Held(), NotFound(), ValueError(), None):
        refusals.note("alice", problem)
    assert kept.rejects == {("read", "alice"): 1, ("held", "alice"): 1}


async def test_who_is_refused_too_often_waits_for_the_next_turn_and_then_is_free_again() -> None:
    refusals, went_on = Refusals(), asyncio.Event()
    for _ in range(REFUSALS_PER_TURN_MAX):
        assert not refusals.is_over("alice")
        refusals.note("alice", RateLimited(retry_after_ms=1))
    assert refusals.is_over("alice") and refusals.is_hot("alice") and not refusals.is_hot("bob")
    refusals.at_next_turn("alice", went_on.set)
    async with asyncio.timeout(5):
        await went_on.wait()
    assert not refusals.is_over("alice") and refusals.is_hot("alice")
    async with asyncio.timeout(5):
        while refusals.is_hot("alice"):
            await asyncio.sleep(0.01)
    assert refusals._turning is None  # nothing runs while nobody is refused


async def test_a_turn_has_room_for_as_many_however_many_connections_a_user_has() -> None:
    refusals, went_on = Refusals(), list[str]()
    for user_id in ("mallory", "bob"):
        for _ in range(REFUSALS_PER_TURN_MAX):
            refusals.note(user_id, RateLimited(retry_after_ms=1))
    for n in range(3 * REFUSALS_PER_TURN_MAX):
        refusals.at_next_turn("mallory", partial(went_on.append, f"mallory {n}"))
    refusals.at_next_turn("bob", partial(went_on.append, "bob"))
    refusals._turn()
    await asyncio.sleep(0)
    assert went_on == [*(f"mallory {n}" for n in range(REFUSALS_PER_TURN_MAX)), "bob"]
    assert refusals.is_hot("mallory") and not refusals.is_over("mallory")
    async with asyncio.timeout(5):
        while refusals._turning is not None:
            await asyncio.sleep(0.01)
    assert [one for one in went_on if one != "bob"] == [f"mallory {n}" for n in range(3 * REFUSALS_PER_TURN_MAX)]


async def test_a_slow_answer_comes_in_the_next_turn_and_at_once_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REFUSED_WAITING_MAX", 1)
    monkeypatch.setattr(module, "REFUSALS_TURN_S", 0.5)
    refusals, problem = Refusals(), RateLimited(retry_after_ms=1)
    for _ in range(REFUSALS_PER_TURN_MAX - 1):
        await asyncio.wait_for(refusals.answer_slowly("alice", problem), 0.05)
    first = asyncio.get_running_loop().create_task(refusals.answer_slowly("alice", problem))
    await asyncio.sleep(0)
    await refusals.answer_slowly("alice", problem)
    assert not first.done()
    await asyncio.wait_for(first, 5)


# --- over a socket --------------------------------------------------------------------------------


async def test_every_refused_frame_is_counted_once_under_its_class(gateway: Watched) -> None:
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


async def test_a_flood_is_read_slowly_and_every_answer_comes_in_order(gateway: Watched) -> None:
    refuse_sends(gateway)
    wire, count = await gateway.wire(), IN_FLIGHT_PER_SOCKET_MAX + 10 * REFUSALS_PER_TURN_MAX
    began_s = time.monotonic()
    for n in range(count):
        wire.say(id=1000 + n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    answers = [await wire.hear() for _ in range(count)]
    assert [answer["id"] for answer in answers] == [1000 + n for n in range(count)]
    assert time.monotonic() - began_s > 5 * REFUSALS_TURN_S
    assert gateway.kept.rejects == {("send", "alice"): count}


async def test_another_user_does_not_wait_for_a_flood(gateway: Watched) -> None:
    refuse_sends(gateway)
    flooding, other = await gateway.wire("mallory"), await gateway.wire("bob")
    frame = json.dumps({"id": 7, "type": "message.send", "conversation_id": "c1", "message_id": "m", "text": "x"})
    for _ in range(2_000):
        flooding.say_text(frame)
    await flooding.hear()
    before = len(gateway.log.submitted)
    began_s = time.monotonic()
    for _ in range(20):
        assert (await other.ask("ping"))["type"] == "pong"
    taken_s = time.monotonic() - began_s
    turns = taken_s / REFUSALS_TURN_S + 2
    assert len(gateway.log.submitted) - before <= turns * (REFUSALS_PER_TURN_MAX + 1) + 256
    flooding.drop()


async def test_a_flooder_that_leaves_is_let_go(gateway: Watched) -> None:
    refuse_sends(gateway)
    wire = await gateway.wire()
    for n in range(IN_FLIGHT_PER_SOCKET_MAX + 10 * REFUSALS_PER_TURN_MAX):
        wire.say(id=n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    await wire.hear()
    wire.drop()
    await gateway.until(lambda: not gateway.hub.of_user("alice"))
    assert (await (await gateway.wire()).ask("ping"))["type"] == "pong"


async def test_a_refused_connect_is_counted(gateway: Watched) -> None:
    gateway.limiter.refused.add("connect")
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token())
    assert await wire.closed() == 4013
    assert gateway.kept.rejects == {("connect", "alice"): 1}


# --- over REST ------------------------------------------------------------------------------------


async def test_a_refused_request_is_counted_under_whose_budget_it_was(gateway: Watched) -> None:
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


async def test_failed_sign_ins_are_counted_by_the_way_they_came(gateway: Watched) -> None:
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


async def test_who_connects_or_asks_was_there_and_a_server_was_not(gateway: Watched) -> None:
    await gateway.wire("alice")
    await gateway.rest("GET", "/v1/inbox", user_id="bob")
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "carol"}
    assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 200
    assert gateway.kept.there == ["alice", "bob"]


async def test_a_revocation_names_the_key_that_made_it(gateway: Watched) -> None:
    headers = {"X-Api-Key": await gateway.api_key()}
    assert (await http(gateway.port, "POST", "/v1/users/bob/revoke", None, headers))[0] == 200
    assert gateway.kept.revocations == [("bob", "admin")]
