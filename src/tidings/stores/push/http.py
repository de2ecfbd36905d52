"""HTTP of the push providers: opens their clients, renews signed tokens in time, and reads refusals.

A request never raises: a provider that cannot be reached is an `Outcome` like any other. A client follows no redirect
and ignores the proxies of the environment.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import msgspec

from tidings.bounds import PUSH_IN_FLIGHT_MAX, PUSH_SEND_S
from tidings.clock import Clock
from tidings.stores.push.ports import Outcome, Verdict


def open_client(*, tls: ssl.SSLContext | None = None, has_cleartext: bool = False) -> httpx2.AsyncClient:
    """Open a client for HTTP/2, which falls back to HTTP/1.1 over TLS. `has_cleartext`: the address is http://, so the
    client speaks HTTP/2 at once.

    Raises ValueError when the library's HTTP/2 part is not installed.
    """
    try:
        return httpx2.AsyncClient(
            http1=not has_cleartext,
            http2=True,
            verify=tls if tls is not None else True,
            timeout=PUSH_SEND_S,
            limits=httpx2.Limits(max_connections=PUSH_IN_FLIGHT_MAX, max_keepalive_connections=4),
            follow_redirects=False,
            trust_env=False,
        )
    except ImportError:
        raise ValueError("push needs HTTP/2: install tidings[push]") from None


async def post(
    client: httpx2.AsyncClient, url: str, headers: Mapping[str, str], content: bytes, *, has_one_host: bool = True
) -> httpx2.Response | Outcome:
    """Return the answer with any status, or LATER when no answer comes. If a provider has one host and it cannot be
    reached, that concerns all its devices."""
    try:
        return await client.post(url, headers=dict(headers), content=content)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        return Outcome(Verdict.LATER, type(error).__name__, is_for_all=has_one_host)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return Outcome(Verdict.LATER, type(error).__name__)


def fields_of(response: httpx2.Response) -> dict[str, Any]:
    """The JSON object of a refusal; empty when it is something else (such as the page of a proxy)."""
    try:
        found = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def retry_after_s(response: httpx2.Response, clock: Clock) -> float | None:
    """Read Retry-After: a number of seconds, or a date (RFC 9110)."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - clock.now_ms() / 1000)
    except (ValueError, IndexError):
        return None


class Pass:
    """A signed token that is made again before it expires, or when the provider says that it has."""

    def __init__(self, make: Callable[[int], str], life_s: float, clock: Clock) -> None:
        self._make = make
        self._life_s = life_s
        self._clock = clock
        self._text = ""
        self._made_s = 0.0

    def current(self) -> str:
        if not self._text or self._clock.monotonic_s() - self._made_s >= self._life_s:
            self._renew()
        return self._text

    def renew(self, refused: str) -> None:
        """Make another token, if `refused` is still the current one. Of many requests refused at once, one renews."""
        if refused == self._text:
            self._renew()

    def _renew(self) -> None:
        self._text = self._make(self._clock.now_ms() // 1000)
        self._made_s = self._clock.monotonic_s()
