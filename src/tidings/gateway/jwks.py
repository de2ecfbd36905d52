"""The public keys of the team's own issuer, fetched from the one configured URL and never from anything in a token.

A `kid` is only looked up in the fetched set. An unknown one fetches again, at most every REFETCH_S; a set older than
STALE_S is fetched again too, so a key that was withdrawn stops working. While the issuer does not answer, the keys
that are known go on. auth.py is the caller.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx2
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from tidings.clock import Clock
from tidings.errors import StoreUnavailable

log = logging.getLogger("tidings.auth")

ALGORITHM_OF_KEY = {"RSA": ("RS256",), "EC": ("ES256",), "OKP": ("EdDSA", "Ed25519")}
ALGORITHMS = tuple(name for names in ALGORITHM_OF_KEY.values() for name in names)
REFETCH_S = 30.0  # an attacker's unknown kids must not make us flood the issuer
STALE_S = 600.0  # a withdrawn key is forgotten after this
FETCH_S = 5.0  # one fetch, all of it
SET_BYTES_MAX = 256 * 1024  # a key set is a few kilobytes

PublicKey = RSAKey | ECKey | OKPKey


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class KeySource:
    """A cached key set. `client` is for tests; the default follows no redirects and ignores proxies."""

    def __init__(self, url: str, clock: Clock, client: httpx2.AsyncClient | None = None) -> None:
        self._url = url
        self._clock = clock
        self._client = client or httpx2.AsyncClient(timeout=FETCH_S, follow_redirects=False, trust_env=False)
        self._keys: list[PublicKey] = []
        self._fetched_s: float | None = None  # the last success
        self._tried_s: float | None = None  # the last attempt, so that a dead issuer is not asked all the time
        self._fetching: asyncio.Lock = asyncio.Lock()

    async def key_for(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key a token of this kid and algorithm must be signed with; None: there is none."""
        key = self._find(kid, algorithm)
        if key is not None and not self._is_older(self._fetched_s, STALE_S):
            return key
        await self._fetch()
        if self._fetched_s is None:
            raise StoreUnavailable("the token issuer's key set does not answer")
        return self._find(kid, algorithm)

    async def close(self) -> None:
        await self._client.aclose()

    def _find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if algorithm in ALGORITHM_OF_KEY[key.key_type]]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.kid == kid), None)

    def _is_older(self, at_s: float | None, than_s: float) -> bool:
        return at_s is None or self._clock.monotonic_s() - at_s > than_s

    async def _fetch(self) -> None:
        async with self._fetching:  # who waited here finds the attempt of the one before
            if not self._is_older(self._tried_s, REFETCH_S):
                return
            self._tried_s = self._clock.monotonic_s()
            try:
                self._keys = _public_keys(await self._read())
            except (httpx2.HTTPError, TimeoutError, JoseError, ValueError, TypeError, KeyError) as error:
                why = type(error).__name__  # not its text, which may quote the URL
                log.warning("the key set of auth.jwks_url cannot be read: %s", why)
                return
            self._fetched_s = self._clock.monotonic_s()

    async def _read(self) -> bytes:
        async with asyncio.timeout(FETCH_S), self._client.stream("GET", self._url) as response:
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > SET_BYTES_MAX:
                    raise ValueError("the key set is too large")
            return bytes(body)


def _public_keys(document: bytes) -> list[PublicKey]:
    """The keys of the three allowed kinds; others in the set are left out."""
    listed = msgspec.json.decode(document, type=_Document).keys
    wanted: Any = [one for one in listed if one.get("kty") in ALGORITHM_OF_KEY]
    keys = KeySet.import_key_set({"keys": wanted}).keys if wanted else []
    return [key for key in keys if isinstance(key, RSAKey | ECKey | OKPKey) and _is_allowed(key)]


def _is_allowed(key: PublicKey) -> bool:
    curve = key.as_dict(private=False).get("crv")
    return key.key_type == "RSA" or curve in ("P-256", "Ed25519")
