"""User tokens: made by a team's backend, and kept fresh by a client.

`Tokens` hands out a token and knows when it expires; a callback gives a new one. The signature is the server's to
check, here only `exp` is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import msgspec

from tidings.bounds import CLIENT_REFRESH_S, CLIENT_TOKEN_S
from tidings.clock import Clock
from tidings.sdk.forms import checked_credential, checked_id
from tidings.sdk.refusals import Disconnected

TokenSource = str | Callable[[], str | Awaitable[str]]


def sign_token(secret: str, user_id: str, ttl_s: int = 3600, clock: Clock | None = None) -> str:
    """A user's token, for whoever holds TIDINGS_AUTH_SECRET: a team's backend, never an app on a phone."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    now_ms = (clock or Clock()).now_ms()
    claims = {"sub": checked_id(user_id), "iat": now_ms / 1000, "exp": now_ms // 1000 + ttl_s}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(secret))


class _Claims(msgspec.Struct):
    exp: float | None = None


def expires_s(token: str) -> float | None:
    """When it expires, in seconds since 1970; None when it does not say so readably."""
    try:
        body = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims).exp
    except (IndexError, binascii.Error, ValueError, msgspec.DecodeError):
        return None


class Tokens:
    """One user's token. With a callback it is renewed before it expires and whenever the server refuses it."""

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        if not callable(source):
            checked_credential(source, "token")
        self._source = source
        self._clock = clock
        self._token = source if isinstance(source, str) else ""
        self._server_ms: float | None = None  # the server's time when our monotonic clock was at zero

    def learn_time(self, server_ms: int) -> None:
        """From a hello: by a clock that is hours ahead, or is set right later, every fresh token would have expired."""
        self._server_ms = server_ms - self._clock.monotonic_s() * 1000

    @property
    def is_renewable(self) -> bool:
        return not isinstance(self._source, str)

    async def current(self) -> str:
        """Asked for at every connect and request: renewed if it is due."""
        if not self._token or (self.is_renewable and self.due_in_s() <= 0):
            await self.renew()
        return self._token

    async def renew(self) -> str:
        """Raises what the callback raises, and Disconnected where it does not come to an end."""
        if not isinstance(self._source, str):
            made = self._source()
            token = await _in_time(made) if isawaitable(made) else made
            self._token = checked_credential(token, "what the token callback gives")
        return self._token

    def forget(self) -> None:
        """The server does not take it: the next to need one asks the callback, until it gives another."""
        if self.is_renewable:
            self._token = ""

    def due_in_s(self) -> float:
        """Until it should be renewed: a minute before it expires, or at half of what is left if that is shorter."""
        ends_s = expires_s(self._token)
        left_s = float("inf") if ends_s is None else ends_s - self._now_ms() / 1000
        return left_s - min(CLIENT_REFRESH_S, left_s / 2)

    def _now_ms(self) -> float:
        if self._server_ms is None:
            return self._clock.now_ms()
        return self._server_ms + self._clock.monotonic_s() * 1000


async def _in_time(made: Awaitable[str]) -> str:
    limit = asyncio.timeout(CLIENT_TOKEN_S)
    try:
        async with limit:
            return await made
    except TimeoutError:
        if not limit.expired():  # the callback's own
            raise
        raise Disconnected(f"the token callback gave none within {CLIENT_TOKEN_S:g} s") from None
