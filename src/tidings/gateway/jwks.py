"""KeySource: the public keys of the team's own issuer, fetched from the configured URL and never from a token's.

Without a URL the issuer's OpenID configuration names it. That document must say that it is of this issuer.

A `kid` is only searched in the fetched set. An unknown `kid` fetches the set again, REFETCH_BURST times in a row, then
every REFETCH_S. Where no fetch is left, the token is neither good nor bad: `unavailable` lets its client come back, so
nobody can make a new key's tokens look wrong by inventing kids. A set that is older than STALE_S is fetched again too,
so a key that was withdrawn stops working. While the issuer does not answer, the known keys stay valid.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import httpx2
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from tidings.clock import Clock
from tidings.config.settings import Auth
from tidings.errors import StoreUnavailable
from tidings.gateway.fairness import Bucket

log = logging.getLogger("tidings.auth")

# By key type, or by curve: each key has its own few algorithms, and a token cannot choose another.
ALGORITHMS_OF = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA", "Ed25519"),
}
ALGORITHMS = frozenset(name for names in ALGORITHMS_OF.values() for name in names)
KEY_TYPES = frozenset(("RSA", "EC", "OKP"))
DISCOVERY = "/.well-known/openid-configuration"
REFETCH_S = 3.0  # an attacker's unknown kids must not make us flood the issuer; a new key waits this long at most
REFETCH_BURST = 5  # fetches in a row: a few wrong tokens now and then hold up nobody
STALE_S = 600.0  # a withdrawn key works no longer than this
RETRY_AFTER_MS = round(REFETCH_S * 1000)
FETCH_S = 5.0  # one fetch, all of it
SET_BYTES_MAX = 256 * 1024  # a key set is a few kilobytes

PublicKey = RSAKey | ECKey | OKPKey


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Configuration(msgspec.Struct):
    """The part of an OpenID configuration that is read."""

    issuer: str
    jwks_uri: str


def open_key_source(auth: Auth, clock: Clock) -> KeySource:
    """Raises ValueError, with one line for the operator, for a CA file that cannot be read."""
    try:
        trusted = ssl.create_default_context(cafile=auth.jwks_ca_file) if auth.jwks_ca_file is not None else True
    except OSError as error:
        raise ValueError(f"auth: cannot read TIDINGS_AUTH_JWKS_CA_FILE {auth.jwks_ca_file}: {error.strerror}") from None
    client = httpx2.AsyncClient(
        timeout=FETCH_S, follow_redirects=False, trust_env=False, verify=trusted, proxy=auth.jwks_proxy
    )
    return KeySource(auth.jwks_url, clock, client, issuer=auth.issuer)


class KeySource:
    """A cached key set. The default `client` follows no redirects and ignores proxies of the environment.

    Without a URL, `issuer` is asked for it."""

    def __init__(
        self, url: str | None, clock: Clock, client: httpx2.AsyncClient | None = None, *, issuer: str | None = None
    ) -> None:
        assert url is not None or issuer is not None
        self._url = url
        self._issuer = issuer
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
        fitting = [key for key in self._keys if algorithm in _algorithms(key)]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.kid == kid), None)

    def _is_decided(self, kid: str | None, algorithm: str) -> bool:
        """Whether the set has this kid, maybe for another algorithm; or, without a kid, a key of this algorithm."""
        if self._is_older(self._fetched_s, STALE_S):
            return False
        if kid is None:
            return any(algorithm in _algorithms(key) for key in self._keys)
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
            self._keys = _public_keys(await self._read(self._url or await self._discover()))
        except (httpx2.HTTPError, TimeoutError, JoseError, ValueError, TypeError, KeyError) as error:
            reason = type(error).__name__  # not its text, which may quote the URL
            log.warning("key set unreadable", extra={"setting": "auth.jwks_url", "cause": reason})
            return False
        self._fetched_s = began_s
        return True

    async def _discover(self) -> str:
        """The URL of the keys as the issuer names it. It may change, so it is asked for with each fetch."""
        assert self._issuer is not None
        found = msgspec.json.decode(await self._read(self._issuer.rstrip("/") + DISCOVERY), type=_Configuration)
        is_as_safe = found.jwks_uri.startswith("https://" if self._issuer.startswith("https:") else "http")
        if found.issuer != self._issuer or not is_as_safe:
            raise ValueError("the OpenID configuration is of another issuer, or names keys without TLS")
        return found.jwks_uri

    async def _read(self, url: str) -> bytes:
        async with asyncio.timeout(FETCH_S), self._client.stream("GET", url) as response:
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > SET_BYTES_MAX:
                    raise ValueError("the key set is too large")
            return bytes(body)


def _public_keys(document: bytes) -> list[PublicKey]:
    """The keys that check signatures, of the allowed kinds. Other keys of the set are left out, and so is a key
    that cannot be read: the others must not be lost with it. Raises ValueError when nothing is left of a set."""
    listed = msgspec.json.decode(document, type=_Document).keys
    wanted = [one for one in listed if one.get("kty") in KEY_TYPES and one.get("use", "sig") == "sig"]
    keys = [key for one in wanted if (key := _public_key(one)) is not None]
    if wanted and not keys:
        raise ValueError("no key of the set can be read")
    return keys


def _public_key(described: dict[str, Any]) -> PublicKey | None:
    try:
        (key,) = KeySet.import_key_set({"keys": [described]}).keys
        is_allowed = isinstance(key, RSAKey | ECKey | OKPKey) and bool(_algorithms(key))
    except (JoseError, ValueError, TypeError, KeyError) as error:
        log.warning("key of the set unreadable", extra={"setting": "auth.jwks_url", "cause": type(error).__name__})
        return None
    return key if is_allowed and isinstance(key, RSAKey | ECKey | OKPKey) else None


def _algorithms(key: PublicKey) -> tuple[str, ...]:
    """The algorithms of a key: those of its type or curve, or the one that it names."""
    described = key.as_dict(private=False)
    allowed = ALGORITHMS_OF.get(str(described.get("crv", described["kty"])), ())
    named = described.get("alg")
    return allowed if named is None else tuple(name for name in allowed if name == named)
