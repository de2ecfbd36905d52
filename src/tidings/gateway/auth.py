"""Who is asking: a user by the token of the team's own backend, or that backend by an API key.

Algorithms are fixed by what is configured, never by the token. Every failure is the same `unauthorized`, without a
hint why. A token whose signature was verified once is remembered; its expiry and the user's `tokens_valid_after` are
checked each time, the latter at most ACCOUNT_S old. connection.py and http.py are the callers.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from joserfc.jws import extract_compact

from tidings.bounds import TOKEN_CHARS_MAX
from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, Unauthorized
from tidings.gateway.jwks import ALGORITHMS, KeySource
from tidings.model import ApiKey, User, is_id
from tidings.stores.ports import Accounts

SECRET_BYTES_MIN = 32  # HS256 is as strong as its secret; shorter ones can be searched
LEEWAY_S = 60  # clocks of two machines differ; for nbf and iat only, an expired token is expired
ACCOUNT_S = 2.0  # how long a revocation made on another node may go unnoticed
API_KEY_S = 5.0  # the same for a server key
REMEMBERED_MAX = 20_000  # entries per cache; a full one is emptied

_KID = re.compile(r"[A-Za-z0-9_.=-]{1,128}\Z")
_REFUSED_HEADERS = frozenset(("crit", "jku", "jwk", "x5u", "x5c"))  # nothing in a token says how to check it
_TYPES = frozenset((None, "jwt", "at+jwt"))

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AuthSettings:
    secret: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    audience: str | None = None
    role_claim: str = "role"  # the claim that names a user's role, for overrides of limits

    def check(self) -> None:
        """Raises ValueError with the one line that the operator reads."""
        if self.secret is None and self.jwks_url is None:
            raise ValueError("auth: set TIDINGS_AUTH_SECRET or TIDINGS_AUTH_JWKS_URL")
        if self.secret is not None and len(self.secret.encode()) < SECRET_BYTES_MIN:
            raise ValueError(f"auth: TIDINGS_AUTH_SECRET has fewer than {SECRET_BYTES_MIN} bytes")

    def mint(self, user_id: str, *, ttl_s: int, now_ms: int) -> str:
        """A token that these settings accept."""
        assert self.secret is not None
        wanted = {"issuer": self.issuer, "audience": self.audience}
        return mint_token(self.secret, user_id, ttl_s=ttl_s, now_ms=now_ms, **wanted)


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A user whose token was verified."""

    user_id: str
    expires_ms: int
    issued_ms: float | None
    role: str | None = None  # as the token names it, if it does


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who makes a REST request. `role` is None for a user; a server may act for one."""

    user_id: str | None
    role: str | None
    budget_id: str  # whose rate limit it is
    user_role: str | None = None  # as the user's token names it
    key_name: str | None = None  # of a server
    key_id: str = ""  # whose rate limit it is if the key has one of its own


class Remembered(Generic[V]):
    """A small cache by age. Not exact: when full it forgets everything, which costs one lookup each."""

    __slots__ = ("_clock", "_ttl_s", "_values")

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._values: dict[str, tuple[float, V]] = {}

    def get(self, key: str) -> tuple[V] | None:
        found = self._values.get(key)
        if found is None or found[0] < self._clock.monotonic_s():
            return None
        return (found[1],)

    def put(self, key: str, value: V) -> V:
        if len(self._values) >= REMEMBERED_MAX:
            self._values.clear()
        self._values[key] = (self._clock.monotonic_s() + self._ttl_s, value)
        return value

    def forget(self, key: str) -> None:
        self._values.pop(key, None)


class Auth:
    def __init__(
        self, settings: AuthSettings, accounts: Accounts, clock: Clock, key_source: KeySource | None = None
    ) -> None:
        settings.check()
        self._settings = settings
        self._accounts = accounts
        self._clock = clock
        self._secret = OctKey.import_key(settings.secret) if settings.secret is not None else None
        if key_source is None and settings.jwks_url is not None:
            key_source = KeySource(settings.jwks_url, clock)
        self._key_source = key_source
        self._verified: Remembered[Identity] = Remembered(clock, 300.0)
        self._users: Remembered[User | None] = Remembered(clock, ACCOUNT_S)
        self._changes = 0  # accounts that we were told to forget
        self._api_keys: Remembered[ApiKey | None] = Remembered(clock, API_KEY_S)

    async def close(self) -> None:
        if self._key_source is not None:
            await self._key_source.close()

    # --- users ---

    async def identify(self, token: str) -> Identity:
        """The user of a token, or Unauthorized."""
        known = self._verified.get(token)
        identity = known[0] if known is not None else await self._verify(token)
        if identity.expires_ms <= self._clock.now_ms():
            raise Unauthorized()
        user = await self._user(identity.user_id)
        valid_after = user.tokens_valid_after if user is not None else 0
        if valid_after and (identity.issued_ms is None or identity.issued_ms < valid_after):
            raise Unauthorized()
        return identity

    def forget_user(self, user_id: str) -> None:
        """The account was changed: the next request sees it."""
        self._users.forget(user_id)
        self._changes += 1

    async def valid_after_ms(self, user_id: str) -> int:
        """Tokens of the user made before then are refused; as the tables say now."""
        self.forget_user(user_id)
        user = await self._user(user_id)
        return user.tokens_valid_after if user is not None else 0

    async def _user(self, user_id: str) -> User | None:
        known = self._users.get(user_id)
        if known is not None:
            return known[0]
        changes = self._changes
        user = await self._accounts.user(user_id)
        if changes == self._changes:  # else it may have been read before the change
            self._users.put(user_id, user)
        return user

    async def _verify(self, token: str) -> Identity:
        if len(token) > TOKEN_CHARS_MAX:
            raise Unauthorized()
        try:
            claims = await self._claims(token)
            identity = self._identity(claims)
        except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise Unauthorized() from None
        return self._verified.put(token, identity)

    async def _claims(self, token: str) -> dict[str, Any]:
        header = extract_compact(token.encode()).protected
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
        if not _REFUSED_HEADERS.isdisjoint(header) or (kid is not None and not _KID.match(kid)):
            raise ValueError("refused header")
        if (str(kind).lower() if kind is not None else None) not in _TYPES:
            raise ValueError("not a token for this use")
        key: Any = None
        if not isinstance(algorithm, str):
            raise ValueError("no algorithm")
        if algorithm == "HS256":
            key = self._secret
        elif self._key_source is not None and algorithm in ALGORITHMS:
            key = await self._key_source.key_for(kid, algorithm)
        if key is None:
            raise ValueError("no key for this algorithm")
        return jwt.decode(token, key, algorithms=[algorithm]).claims

    def _identity(self, claims: dict[str, Any]) -> Identity:
        now_s = self._clock.now_ms() / 1000
        for name in ("nbf", "iat"):
            if name in claims and _seconds(claims[name]) > now_s + LEEWAY_S:
                raise ValueError("from the future")
        settings, user_id = self._settings, claims["sub"]
        if settings.issuer is not None and claims.get("iss") != settings.issuer:
            raise ValueError("another issuer")
        if settings.audience is not None and settings.audience not in _audiences(claims.get("aud")):
            raise ValueError("another audience")
        if not isinstance(user_id, str) or not is_id(user_id):
            raise ValueError("not a user id")
        issued_ms = _seconds(claims["iat"]) * 1000 if "iat" in claims else None
        role = claims.get(settings.role_claim)
        is_named = isinstance(role, str) and is_id(role)
        return Identity(user_id, int(_seconds(claims["exp"]) * 1000), issued_ms, role if is_named else None)

    # --- REST callers ---

    async def caller(self, method: str, bearer: str | None, api_key: str | None, user_id: str | None) -> Caller:
        """Who makes this request. A readonly key may only look."""
        if api_key is not None:
            return await self._server(method, api_key, user_id)
        if bearer is None:
            raise Unauthorized()
        identity = await self.identify(bearer)
        return Caller(identity.user_id, None, identity.user_id, identity.role)

    async def _server(self, method: str, api_key: str, user_id: str | None) -> Caller:
        key_hash = hash_api_key(api_key)
        known = self._api_keys.get(key_hash)
        key = known[0] if known is not None else self._api_keys.put(key_hash, await self._accounts.api_key(key_hash))
        if key is None:
            raise Unauthorized()
        if user_id is not None and not is_id(user_id):
            raise BadRequest("X-User-Id is not an id")
        if key.role != "admin" and method not in ("GET", "HEAD"):
            raise Forbidden("this key may only read")
        key_id = "key-" + key_hash[:32]
        return Caller(user_id, key.role, user_id or key_id, key_name=key.name, key_id=key_id)


def hash_api_key(api_key: str) -> str:
    """What is stored of a server key. Keys are long and random, so one round of SHA-256 is enough."""
    return hashlib.sha256(api_key.encode()).hexdigest()


def mint_token(
    secret: str, user_id: str, *, ttl_s: int, now_ms: int, issuer: str | None = None, audience: str | None = None
) -> str:
    """A token as the team's backend would make it: for `token create` and --dev.

    `iat` has milliseconds, so a token made right after a revocation is valid.
    """
    claims: dict[str, object] = {"sub": user_id, "iat": now_ms / 1000, "exp": now_ms // 1000 + ttl_s}
    claims |= {name: value for name, value in (("iss", issuer), ("aud", audience)) if value is not None}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(secret))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError("not a time")
    return value


def _audiences(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
