"""User tokens: a backend signs them, and a client keeps its own fresh.

`Tokens` hands out a token and knows when it expires; a callback provides a new one. The client reads only `exp`. The
server checks the signature.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import msgspec

from tidings_client.bounds import REFRESH_S, TOKEN_S
from tidings_client.clock import Clock
from tidings_client.errors import Disconnected
from tidings_client.forms import checked_credential, checked_id

TokenSource = str | Callable[[], str | Awaitable[str]]


def sign_token(secret: str, user_id: str, ttl_s: int = 3600, clock: Clock | None = None) -> str:
    """Sign a token (HS256) with TIDINGS_AUTH_SECRET: in the backend of a team, never in an app on a phone."""
    now_ms = (clock or Clock()).now_ms()
    claims = {"sub": checked_id(user_id), "iat": now_ms / 1000, "exp": now_ms // 1000 + ttl_s}
    signed = b".".join(_base64url(msgspec.json.encode(part)) for part in ({"alg": "HS256"}, claims))
    return (signed + b"." + _base64url(hmac.digest(secret.encode(), signed, hashlib.sha256))).decode()


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


class _Claims(msgspec.Struct):
    exp: float | None = None


def expires_s(token: str) -> float | None:
    """Read the expiry in seconds since 1970; None when the token has no readable one."""
    try:
        body = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims).exp
    except (IndexError, binascii.Error, ValueError, msgspec.DecodeError):
        return None


class Tokens:
    """The token of one user. A callback renews it before it expires and whenever the server refuses it."""

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        if not callable(source):
            checked_credential(source, "token")
        self._source = source
        self._clock = clock
        self._token = source if isinstance(source, str) else ""
        self._server_ms: float | None = None  # the server's time when our monotonic clock was at zero

    def learn_time(self, server_ms: int) -> None:
        """Learn the server's time from a hello. By a clock that is hours ahead, every fresh token would be expired."""
        self._server_ms = server_ms - self._clock.monotonic_s() * 1000

    @property
    def is_renewable(self) -> bool:
        return not isinstance(self._source, str)

    async def current(self) -> str:
        """Return the token for a connect or a request; renew it first when that is due."""
        if not self._token or (self.is_renewable and self.due_in_s() <= 0):
            await self.renew()
        return self._token

    async def renew(self) -> str:
        """Ask the callback. Raises what the callback raises, and Disconnected when it takes too long."""
        if not isinstance(self._source, str):
            made = self._source()
            token = await _in_time(made) if isawaitable(made) else made
            self._token = checked_credential(token, "the result of the token callback")
        return self._token

    def forget(self) -> None:
        """Drop a token that the server refused: the next use asks the callback, until it provides another."""
        if self.is_renewable:
            self._token = ""

    def due_in_s(self) -> float:
        """Seconds until the renewal: REFRESH_S before the expiry, or at half of the time left if that is shorter."""
        ends_s = expires_s(self._token)
        left_s = float("inf") if ends_s is None else ends_s - self._now_ms() / 1000
        return left_s - min(REFRESH_S, left_s / 2)

    def _now_ms(self) -> float:
        if self._server_ms is None:
            return self._clock.now_ms()
        return self._server_ms + self._clock.monotonic_s() * 1000


async def _in_time(made: Awaitable[str]) -> str:
    limit = asyncio.timeout(TOKEN_S)
    try:
        async with limit:
            return await made
    except TimeoutError:
        if not limit.expired():  # the callback raised it
            raise
        raise Disconnected(f"the token callback returned nothing within {TOKEN_S:g} s") from None
