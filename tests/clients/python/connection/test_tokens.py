from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.devices.scripted_server import StillClock
from tidings.testing import TestServer
from tidings_client import Client, Disconnected
from tidings_client.connection import tokens
from tidings_client.connection.tokens import Tokens, expires_s, sign_token
from tidings_client.errors import BadRequest

SECRET = "a-secret-of-the-tests-that-is-long-enough"


async def test_a_signed_token_is_one_that_the_server_takes(server: TestServer) -> None:
    client = await server.client("alice")
    assert client.user_id == "alice"
    assert expires_s(sign_token(SECRET, "alice", 60, StillClock())) == 1_060


@pytest.mark.parametrize("token", ["", "no-token", "a.b.c", "a.e30.c"])
def test_a_token_that_does_not_say_when_it_expires_never_does(token: str) -> None:
    assert expires_s(token) is None
    assert Tokens(token, StillClock()).due_in_s() == float("inf")


async def test_a_callback_is_asked_once_and_again_when_the_token_is_over() -> None:
    clock, made = StillClock(), 0

    def fresh() -> str:
        nonlocal made
        made += 1
        return sign_token(SECRET, "alice", 600, clock)

    tokens = Tokens(fresh, clock)
    first = await tokens.current()
    assert await tokens.current() == first and made == 1
    assert tokens.due_in_s() == 540
    clock.now_s += 700
    assert await tokens.current() != first and made == 2


async def test_the_time_is_the_servers_once_it_was_heard() -> None:
    clock, server = StillClock(), StillClock()
    clock.now_s += 7_200
    tokens = Tokens(lambda: sign_token(SECRET, "alice", 600, server), clock)
    await tokens.current()
    assert tokens.due_in_s() < 0
    tokens.learn_time(server.now_ms())
    assert tokens.due_in_s() == 540


class SetClock(StillClock):
    """Whose wall time somebody sets."""

    set_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.set_s * 1000)


async def test_a_clock_that_is_set_right_later_makes_no_token_due() -> None:
    clock, server = SetClock(), StillClock()
    clock.set_s = -3_600
    tokens = Tokens(lambda: sign_token(SECRET, "alice", 600, server), clock)
    await tokens.current()
    tokens.learn_time(server.now_ms())
    clock.set_s = 0
    assert tokens.due_in_s() == 540
    clock.now_s += 100
    assert tokens.due_in_s() == 440


async def test_a_callback_may_be_async() -> None:
    async def fresh() -> str:
        return "a token"

    assert await Tokens(fresh, StillClock()).current() == "a token"


async def test_a_plain_token_stays_what_it_is() -> None:
    tokens = Tokens("a token", StillClock())
    assert not tokens.is_renewable
    assert await tokens.renew() == await tokens.current() == "a token"


@pytest.mark.parametrize(("token", "kind"), [(None, TypeError), (5, TypeError), (b"t", TypeError), ("t\n", ValueError)])
async def test_what_is_no_token_is_refused_where_it_is_given(token: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^token "):
        Client("http://127.0.0.1:1", token)
    with pytest.raises(kind, match=r"^the result of the token callback "):
        await Tokens(lambda: token, StillClock()).renew()


async def test_a_callback_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKEN_S", 0.01)

    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    async def late() -> str:
        raise TimeoutError("the login server is slow")

    with pytest.raises(Disconnected, match=r"the token callback returned nothing within 0\.01 s"):
        await Tokens(hang, StillClock()).renew()
    with pytest.raises(TimeoutError, match="the login server"):
        await Tokens(late, StillClock()).renew()


@pytest.mark.parametrize("user_id", ["", "a b", "..", None])
def test_a_token_for_nobody_is_not_made(user_id: Any) -> None:
    with pytest.raises(BadRequest, match="not an id"):
        sign_token(SECRET, user_id)
