from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.devices.scripted_server import ScriptedServer, StillClock
from tests.support.waiting import eventually
from tidings.gateway import connect
from tidings.testing import TestServer
from tidings_client import Client, Clock
from tidings_client.bounds import BACKOFF_S, BACKOFF_S_MAX
from tidings_client.connection import tokens
from tidings_client.connection.link import Link
from tidings_client.connection.session import Backoff, Session
from tidings_client.connection.tokens import Tokens, TokenSource, sign_token
from tidings_client.errors import Disconnected, RateLimited, Stopped, StoreUnavailable
from tidings_client.forms import Connect, Inbox, Ping, SetTyping
from tidings_client.values import Draining, Hello, Interrupted, Nothing, ServerEvent
from tidings_proof.world.ports import free_port

SECRET = "a-secret-of-the-tests-that-is-long-enough"


class Told:
    """An owner that writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[ServerEvent] = []
        self.interruptions: list[tuple[int | None, float]] = []
        self.alive_s: list[float | None] = []
        self.end: BaseException | None = None
        self.is_busy = False

    def connect_frame(self, token: str) -> Connect:
        return Connect(token=token, device="phone")

    def welcomed(self, hello: Hello) -> None:
        pass

    def received(self, event: ServerEvent) -> None:
        self.events.append(event)

    def interrupted(self, code: int | None, retry_in_s: float, alive_s: float | None) -> None:
        self.interruptions.append((code, retry_in_s))
        self.alive_s.append(alive_s)

    def ended(self, error: BaseException) -> None:
        self.end = error

    def is_full(self) -> bool:
        return self.is_busy


class AheadClock(Clock):
    """Time that a test can let pass in one go, as it does for a program that is stopped."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@asynccontextmanager
async def session_of(
    scripted: ScriptedServer, token: TokenSource = "t", clock: Clock | None = None
) -> AsyncIterator[tuple[Session, Told]]:
    told, clock = Told(), clock or Clock()
    session = Session(scripted.url, Tokens(token, clock), clock, told)
    session.start()
    try:
        yield session, told
    finally:
        await session.stop()


@pytest.mark.parametrize("code", [1001, 1009, 4001, 4004, 4008, 4012, 4013, 4014])
async def test_codes_that_say_come_back_are_followed_by_another_connect(scripted: ScriptedServer, code: int) -> None:
    async with session_of(scripted) as (session, told):
        first = await scripted.next()
        assert (await first.welcome())["device"] == "phone"
        await session.up()
        first.close(code)
        await (await scripted.next()).welcome()
        await session.up()
        assert told.interruptions[0][0] == code and told.end is None


@pytest.mark.parametrize("code", [4500, 4501, 4502, 4503, 4504, 4505])
async def test_codes_that_say_stop_end_it(scripted: ScriptedServer, code: int) -> None:
    async with session_of(scripted) as (session, told):
        peer = await scripted.next()
        await peer.welcome()
        await session.up()
        peer.close(code)
        await eventually(lambda: told.end is not None)
        assert isinstance(told.end, Stopped) and told.end.code == code
        with pytest.raises(Stopped):
            await session.up()


async def test_a_draining_node_says_when_to_come_back(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, told):
        peer = await scripted.next()
        await peer.welcome()
        peer.say(type="draining", reconnect_in_ms=10)
        peer.close(4001)
        await (await scripted.next()).welcome()
        await session.up()
        assert told.interruptions == [(4001, 0.01)]
        assert told.events == [Draining(reconnect_in_ms=10)]


async def test_a_refused_token_is_renewed_once_and_a_second_refusal_is_final(scripted: ScriptedServer) -> None:
    made: list[str] = []

    def fresh() -> str:
        made.append(f"token {len(made)}")
        return made[-1]

    async with session_of(scripted, fresh) as (session, told):
        first = await scripted.next()
        assert (await first.welcome())["token"] == "token 0"
        await session.up()
        first.close(4500)
        second = await scripted.next()
        assert (await second.heard("connect"))["token"] == "token 1"
        second.close(4500)
        await eventually(lambda: told.end is not None)
        assert isinstance(told.end, Stopped)


async def test_a_refused_token_is_not_used_again_when_the_callback_fails(scripted: ScriptedServer) -> None:
    tries: list[int] = []

    def fresh() -> str:
        tries.append(1)
        if len(tries) == 2:
            raise OSError("the login server is away")
        return f"token {len(tries)}"

    async with session_of(scripted, fresh) as (session, told):
        first = await scripted.next()
        await first.welcome()
        await session.up()
        first.close(4500)
        second = await scripted.next()
        assert (await second.welcome())["token"] == "token 3"
        await session.up()
        assert told.end is None


async def test_an_expired_plain_token_ends_it(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (_, told):
        peer = await scripted.next()
        await peer.welcome()
        peer.close(4005)
        await eventually(lambda: told.end is not None)


async def test_a_token_callback_that_fails_is_asked_again(scripted: ScriptedServer) -> None:
    tries: list[int] = []

    def fresh() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the login server is away")
        return "t"

    async with session_of(scripted, fresh) as (session, _):
        await (await scripted.next()).welcome()
        await session.up()
        assert len(tries) == 2


async def test_why_there_is_no_connection_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with session_of(ScriptedServer(f"http://127.0.0.1:{free_port()}")) as (_, told):
        await eventually(lambda: len(told.interruptions) >= 3)
    assert caplog.text.count("cannot connect to ws://") == 1 and "trying again" in caplog.text


async def test_a_token_callback_that_hangs_is_asked_again(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKEN_S", 0.02)
    tries: list[int] = []

    async def fresh() -> str:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "t"

    async with session_of(scripted, fresh) as (session, _):
        await (await scripted.next()).welcome()
        async with asyncio.timeout(60):
            await session.up()
        assert len(tries) == 2


async def test_beginning_twice_is_one_connection(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, _):
        session.start()
        peer = await scripted.next()
        await peer.welcome()
        await session.up()
        session.send(Ping())
        await peer.heard("ping")
        assert scripted.arrivals.empty()


async def test_only_a_connection_that_was_welcome_was_heard(scripted: ScriptedServer) -> None:
    def fresh() -> str:
        if len(told.alive_s) == 1:
            raise OSError("the login server is away")
        return sign_token(SECRET, "alice", -1)  # due at every connect

    async with session_of(scripted, fresh) as (_, told):
        first = await scripted.next()
        await first.welcome(server_time=Clock().now_ms())
        first.close(4004)
        second = await scripted.next()
        await second.heard("connect")
        second.close(4004)
        await (await scripted.next()).heard("connect")
        assert [alive_s is not None for alive_s in told.alive_s] == [True, False, False]


async def test_a_token_is_refreshed_on_the_open_connection_before_it_expires(scripted: ScriptedServer) -> None:
    async with session_of(scripted, lambda: sign_token(SECRET, "alice", 2)):
        peer = await scripted.next()
        connect = await peer.welcome(server_time=Clock().now_ms())
        refresh = await peer.heard("auth.refresh")
        assert refresh["token"] != connect["token"]
        peer.say(id=refresh["id"], type="ok")


async def test_a_client_whose_clock_is_ahead_refreshes_no_more_often(server: TestServer) -> None:
    class TwoHoursAhead(Clock):
        def now_ms(self) -> int:
            return super().now_ms() + 7_200_000

    made: list[str] = []

    def fresh() -> str:
        made.append(server.token("alice"))
        return made[-1]

    async with Client(server.url, fresh, clock=TwoHoursAhead()) as alice:
        for _ in range(3):
            await alice.unread()
        assert len(made) == 1


async def test_a_silent_server_is_asked_and_then_left(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (_, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=60)
        await peer.heard("ping")
        await (await scripted.next()).welcome()
        assert told.interruptions[0][0] is None


async def test_a_server_that_falls_silent_at_a_refresh_is_left_too(scripted: ScriptedServer) -> None:
    async with session_of(scripted, lambda: sign_token(SECRET, "alice", -1)) as (_, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=60, server_time=Clock().now_ms())
        await peer.heard("auth.refresh")
        await (await scripted.next()).welcome()
        assert told.interruptions[0][0] is None


async def test_a_server_is_watched_while_a_token_is_awaited(scripted: ScriptedServer) -> None:
    made: list[str] = []

    async def fresh() -> str:
        if made:
            await asyncio.Event().wait()
        made.append(sign_token(SECRET, "alice", 1))
        return made[-1]

    async with session_of(scripted, fresh) as (_, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=600, server_time=Clock().now_ms())
        await peer.heard("ping")
        await eventually(lambda: told.interruptions != [])


async def test_a_server_that_answers_its_pings_is_kept(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (_, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=60)
        for _ in range(4):
            peer.say(type="pong", id=(await peer.heard("ping"))["id"])  # without one there is no answer
        assert told.interruptions == []


async def test_what_is_read_after_a_stop_proves_nothing_until_a_ping_is_answered(scripted: ScriptedServer) -> None:
    clock = AheadClock()
    async with session_of(scripted, clock=clock) as (session, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=200)
        await session.up()
        clock.ahead_s, stopped_s = 600.0, clock.monotonic_s()
        peer.say(type="typing", conversation_id="c1", user_id="bob", typing=True)
        ping = await peer.heard("ping")
        assert len(told.events) == 1
        peer.say(type="pong", id=ping["id"])
        await peer.heard("ping")  # of the ordinary kind, when it is quiet
        peer.close(4004)
        await scripted.next()
        (alive_s,) = told.alive_s
        assert alive_s is not None and alive_s > stopped_s + 500


async def test_a_server_that_is_gone_after_a_stop_is_left_and_was_heard_before_it(scripted: ScriptedServer) -> None:
    clock = AheadClock()
    async with session_of(scripted, clock=clock) as (session, told):
        peer = await scripted.next()
        await peer.welcome(ping_interval_ms=400)
        await session.up()
        clock.ahead_s, stopped_s = 600.0, clock.monotonic_s()
        peer.say(type="typing", conversation_id="c1", user_id="bob", typing=True)  # from before the network went
        await peer.heard("ping")
        await scripted.next()
        (alive_s,) = told.alive_s
        assert alive_s is not None and alive_s <= stopped_s


async def test_a_quiet_client_stays_connected_to_a_real_node(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "PING_INTERVAL_S", 1)
    alice = await server.client("alice")
    interruptions, pings, send = alice.events(Interrupted), [], Link.send

    def counted(link: Link, data: bytes) -> None:
        pings.append(data)
        send(link, data)

    monkeypatch.setattr(Link, "send", counted)
    await eventually(lambda: len(pings) == 3 or len(interruptions) > 0)  # it is cut after two without an answer
    assert alice.is_connected and len(interruptions) == 0


async def test_one_attempt_ends_with_its_connection_and_a_request_asks_again(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, _):
        first = await scripted.next()
        await first.welcome()
        await session.up()
        once = asyncio.create_task(session.request_once(Inbox(), Nothing))
        again = asyncio.create_task(session.request(Inbox(), Nothing))
        await first.heard("inbox")
        await first.heard("inbox")
        first.close(4004)
        with pytest.raises(Disconnected):
            await once
        second = await scripted.next()
        await second.welcome()
        asked = await second.heard("inbox")
        second.say(id=asked["id"], type="ok")
        await again


async def test_a_request_waits_out_a_temporary_refusal_and_gives_up_on_others(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, _):
        peer = await scripted.next()
        await peer.welcome()
        asking = asyncio.create_task(session.request(Inbox(), Nothing))
        asked = await peer.heard("inbox")
        peer.say(id=asked["id"], type="error", code="rate_limited", temporary=True, retry_after_ms=10, message="")
        asked = await peer.heard("inbox")
        peer.say(id=asked["id"], type="ok")
        await asking
        failing = asyncio.create_task(session.request_once(Inbox(), Nothing))
        asked = await peer.heard("inbox")
        peer.say(id=asked["id"], type="error", code="unavailable", temporary=True, retry_after_ms=None, message="")
        with pytest.raises(StoreUnavailable):
            await failing


async def test_a_refused_connect_is_remembered_as_the_reason(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, told):
        peer = await scripted.next()
        asked = await peer.heard("connect")
        peer.say(id=asked["id"], type="error", code="rate_limited", temporary=True, retry_after_ms=20, message="")
        peer.close(4013)
        await scripted.next()
        assert isinstance(session.trouble, RateLimited) and told.interruptions[0][1] >= 0.02


async def test_a_connect_that_is_never_answered_leaves_no_error_behind(
    scripted: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with session_of(scripted):
        peer = await scripted.next()
        await peer.heard("connect")
        peer.close(4004)
        await (await scripted.next()).heard("connect")
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_nothing_is_read_while_nobody_takes_events_unless_an_answer_is_awaited(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, told):
        peer = await scripted.next()
        await peer.welcome()
        await session.up()
        told.is_busy = True
        session.balance()
        peer.say(type="typing", conversation_id="c1", user_id="bob", typing=True)
        session.send(Ping())
        await peer.heard("ping")
        assert told.events == []
        asking = asyncio.create_task(session.request_once(Inbox(), Nothing))
        asked = await peer.heard("inbox")
        peer.say(id=asked["id"], type="ok")
        await asyncio.wait_for(asking, 60)
        assert len(told.events) == 1, "read on, for somebody waited"


async def test_a_hello_that_comes_twice_is_one(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, told):
        peer = await scripted.next()
        connect = await peer.welcome()
        await session.up()
        peer.greet(connect)
        peer.say(type="typing", conversation_id="c1", user_id="bob", typing=True)
        await eventually(lambda: len(told.events) == 1)
        assert [task.get_name() for task in asyncio.all_tasks()].count("tidings-tend") == 1


async def test_a_server_that_ends_each_connection_is_named_with_its_code(scripted: ScriptedServer) -> None:
    async with session_of(scripted) as (session, told):
        (await scripted.next()).close(4004)
        await eventually(lambda: bool(told.interruptions))
        assert str(session.trouble).endswith("ends each connection (code 4004) without a hello")


async def test_what_is_said_without_a_connection_is_dropped(scripted: ScriptedServer) -> None:
    told, clock = Told(), Clock()
    session = Session(scripted.url, Tokens("t", clock), clock, told)
    assert not session.send(SetTyping(conversation_id="c1", typing=True))
    with pytest.raises(Disconnected):
        await session.request_once(Inbox(), Nothing)
    await session.stop()


def test_the_bound_doubles_until_it_is_the_longest() -> None:
    clock = StillClock()
    clock.fraction = 1.0
    backoff = Backoff(clock)
    pauses = [backoff.next_s() for _ in range(12)]
    assert pauses[:3] == [BACKOFF_S, BACKOFF_S * 2, BACKOFF_S * 4]
    assert pauses[-1] == BACKOFF_S_MAX


def test_the_pause_is_random_so_that_not_everyone_comes_back_at_once() -> None:
    clock = StillClock()
    clock.fraction = 0.0
    assert Backoff(clock).next_s() == 0


def test_it_is_never_shorter_than_what_the_server_asked_for() -> None:
    clock = StillClock()
    clock.fraction = 0.0
    assert Backoff(clock).next_s(1_200) == 1.2


def test_success_begins_anew() -> None:
    clock = StillClock()
    backoff = Backoff(clock)
    first = backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == first
