"""KeySource: the public keys of the team's own issuer, fetched from the configured URL and never from a token's.

A `kid` is only searched in the fetched set. An unknown `kid` fetches the set again, REFETCH_BURST times in a row, then
every REFETCH_S. Where no fetch is left, the token is neither good nor bad: `unavailable` lets its client come back, so
nobody can make a new key's tokens look wrong by inventing kids. A set that is older than STALE_S is fetched again too,
so a key that was withdrawn stops working. While the issuer does not answer, the known keys stay valid.
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
from tidings.gateway.fairness import Bucket

log = logging.getLogger("tidings.auth")

ALGORITHM_OF_KEY = {"RSA": ("RS256",), "EC": ("ES256",), "OKP": ("EdDSA", "Ed25519")}
ALGORITHMS = tuple(name for names in ALGORITHM_OF_KEY.values() for name in names)
REFETCH_S = 3.0  # an attacker's unknown kids must not make us flood the issuer; a new key waits this long at most
REFETCH_BURST = 5  # fetches in a row: a few wrong tokens now and then hold up nobody
STALE_S = 600.0  # a withdrawn key works no longer than this
RETRY_AFTER_MS = round(REFETCH_S * 1000)
FETCH_S = 5.0  # one fetch, all of it
SET_BYTES_MAX = 256 * 1024  # a key set is a few kilobytes

PublicKey = RSAKey | ECKey | OKPKey


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class KeySource:
    """A cached key set. The default `client` follows no redirects and ignores proxies."""

    def __init__(self, url: str, clock: Clock, client: httpx2.AsyncClient | None = None) -> None:
        self._url = url
        self._clock = clock
        self._client = client or httpx2.AsyncClient(timeout=FETCH_S, follow_redirects=False, trust_env=False)
        self._keys: list[PublicKey] = []
        self._fetched_s: float | None = None  # the last success
        self._tried_s: float | None = None  # the last attempt
        self._fetches = Bucket(clock, REFETCH_BURST, REFETCH_S)
        self._fetching: asyncio.Lock = asyncio.Lock()

    async def key_for(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key of a token with this kid and algorithm; None: there is none. Raises StoreUnavailable."""
        is_decided = self._is_decided(kid, algorithm)
        if not is_decided:
            asked_s = self._clock.monotonic_s()
            async with self._fetching:  # a caller that waited here may find the set of the one before
                is_decided = self._is_decided(kid, algorithm) or await self._fetch(asked_s)
        key = self._find(kid, algorithm)
        if key is None and not is_decided:
            raise StoreUnavailable("the key of this token is not known yet; try again", retry_after_ms=RETRY_AFTER_MS)
        return key

    async def close(self) -> None:
        await self._client.aclose()

    def _find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if algorithm in ALGORITHM_OF_KEY[key.key_type]]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.kid == kid), None)

    def _is_decided(self, kid: str | None, algorithm: str) -> bool:
        """Whether the set has this kid, maybe for another algorithm; or, without a kid, a key of this algorithm."""
        if self._is_older(self._fetched_s, STALE_S):
            return False
        if kid is None:
            return any(algorithm in ALGORITHM_OF_KEY[key.key_type] for key in self._keys)
        return any(key.kid == kid for key in self._keys)

    def _is_older(self, at_s: float | None, than_s: float) -> bool:
        return at_s is None or self._clock.monotonic_s() - at_s > than_s

    async def _fetch(self, asked_s: float) -> bool:
        """Fetch the set, unless a fetch that began after `asked_s` was made meanwhile. True: the set is as of now."""
        if self._tried_s is not None and self._tried_s >= asked_s:
            return self._fetched_s == self._tried_s
        if not self._fetches.take():
            return False
        began_s = self._tried_s = self._clock.monotonic_s()
        try:
            self._keys = _public_keys(await self._read())
        except (httpx2.HTTPError, TimeoutError, JoseError, ValueError, TypeError, KeyError) as error:
            reason = type(error).__name__  # not its text, which may quote the URL
            log.warning("key set unreadable", extra={"setting": "auth.jwks_url", "cause": reason})
            return False
        self._fetched_s = began_s
        return True

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
    """The keys that check signatures, of the three allowed kinds. Other keys of the set are left out, and so is a key
    that cannot be read: the others must not be lost with it. Raises ValueError when nothing is left of a set."""
    listed = msgspec.json.decode(document, type=_Document).keys
    wanted = [one for one in listed if one.get("kty") in ALGORITHM_OF_KEY and one.get("use", "sig") == "sig"]
    keys = [key for one in wanted if (key := _public_key(one)) is not None]
    if wanted and not keys:
        raise ValueError("no key of the set can be read")
    return keys


def _public_key(described: dict[str, Any]) -> PublicKey | None:
    try:
        (key,) = KeySet.import_key_set({"keys": [described]}).keys
        is_allowed = key.key_type == "RSA" or key.as_dict(private=False).get("crv") in ("P-256", "Ed25519")
    except (JoseError, ValueError, TypeError, KeyError) as error:
        log.warning("key of the set unreadable", extra={"setting": "auth.jwks_url", "cause": type(error).__name__})
        return None
    return key if is_allowed and isinstance(key, RSAKey | ECKey | OKPKey) else None
