"""Tokens: verifies the tokens of users, which the team's own backend signs, and mints them for trying things out.

The settings choose the algorithms and the keys, never the token. Each check has its own reason. The reason is for the
log alone: a client learns only that its token is not valid.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from joserfc.jws import extract_compact

from tidings.bounds import TOKEN_CHARS_MAX
from tidings.clock import Clock
from tidings.config.settings import Auth
from tidings.config.values import SECRET_BYTES_MIN
from tidings.gateway.jwks import ALGORITHMS, KeySource
from tidings.model import is_id

LEEWAY_S = 60  # clocks of two machines differ; for nbf and iat only, an expired token is expired

_KID = re.compile(r"[A-Za-z0-9_.=-]{1,128}\Z")
_REFUSED_HEADERS = frozenset(("crit", "jku", "jwk", "x5u", "x5c"))  # nothing in a token says how to check it
_TYPES = frozenset((None, "jwt", "at+jwt"))
_MALFORMED = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


class BadToken(Exception):
    """A token is refused. The text is the reason."""


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A user whose token was verified."""

    user_id: str
    expires_ms: int
    issued_ms: float | None
    role: str | None = None  # as the token names it, if it does


class Tokens:
    """Raises ValueError, with one line for the operator, when the settings name no key or a weak one."""

    def __init__(self, auth: Auth, clock: Clock, key_source: KeySource | None = None) -> None:
        if auth.secret is None and auth.jwks_url is None:
            raise ValueError("auth: set TIDINGS_AUTH_SECRET or TIDINGS_AUTH_JWKS_URL")
        if auth.secret is not None and len(auth.secret.encode()) < SECRET_BYTES_MIN:
            raise ValueError(f"auth: TIDINGS_AUTH_SECRET has fewer than {SECRET_BYTES_MIN} bytes")
        self._auth = auth
        self._clock = clock
        self._secret = OctKey.import_key(auth.secret) if auth.secret is not None else None
        if key_source is None and auth.jwks_url is not None:
            key_source = KeySource(auth.jwks_url, clock)
        self._key_source = key_source

    async def close(self) -> None:
        if self._key_source is not None:
            await self._key_source.close()

    async def verify(self, token: str) -> Identity:
        """Check the signature and the claims, except the expiry. Raises BadToken."""
        if len(token) > TOKEN_CHARS_MAX:
            raise BadToken(f"longer than {TOKEN_CHARS_MAX} characters")
        try:
            return self._identity(await self._claims(token))
        except JoseError as error:
            raise BadToken(type(error).__name__) from None  # its text may quote the token
        except _MALFORMED as error:
            raise BadToken(f"malformed ({type(error).__name__})") from None

    async def _claims(self, token: str) -> dict[str, Any]:
        header = extract_compact(token.encode()).protected
        _check_header(header)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str):
            raise BadToken("no algorithm")
        key = await self._key(header.get("kid"), algorithm)
        if key is None:
            raise BadToken("no key for its algorithm and kid")
        return jwt.decode(token, key, algorithms=[algorithm]).claims

    async def _key(self, kid: str | None, algorithm: str) -> Any:
        if algorithm == "HS256":
            return self._secret
        if self._key_source is not None and algorithm in ALGORITHMS:
            return await self._key_source.key_for(kid, algorithm)
        return None

    def _identity(self, claims: dict[str, Any]) -> Identity:
        latest_s = self._clock.now_ms() / 1000 + LEEWAY_S
        issued_s = _seconds(claims, "iat")
        begins_s = _seconds(claims, "nbf")
        expires_s = _seconds(claims, "exp")
        user_id = claims.get("sub")
        role = claims.get(self._auth.role_claim)
        if issued_s is not None and issued_s > latest_s:
            raise BadToken("iat is in the future")
        if begins_s is not None and begins_s > latest_s:
            raise BadToken("nbf is in the future")
        if expires_s is None:
            raise BadToken("no exp")
        if self._auth.issuer is not None and claims.get("iss") != self._auth.issuer:
            raise BadToken("iss is not auth.issuer")
        if self._auth.audience is not None and self._auth.audience not in _audiences(claims.get("aud")):
            raise BadToken("aud does not name auth.audience")
        if not isinstance(user_id, str) or not is_id(user_id):
            raise BadToken("sub is not a user id")
        return Identity(
            user_id=user_id,
            expires_ms=int(expires_s * 1000),
            issued_ms=issued_s * 1000 if issued_s is not None else None,
            role=role if isinstance(role, str) and is_id(role) else None,
        )


def mint_token(auth: Auth, user_id: str, *, ttl_s: int, now_ms: int) -> str:
    """A token that these settings accept, as the team's backend would make it: for `token create` and --dev.

    `iat` has milliseconds, so a token made right after a revocation is valid.
    """
    assert auth.secret is not None
    claims: dict[str, object] = {"sub": user_id, "iat": now_ms / 1000, "exp": now_ms // 1000 + ttl_s}
    wanted = {"iss": auth.issuer, "aud": auth.audience}
    claims |= {name: value for name, value in wanted.items() if value is not None}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(auth.secret))


def _check_header(header: dict[str, Any]) -> None:
    kid, kind = header.get("kid"), header.get("typ")
    if not _REFUSED_HEADERS.isdisjoint(header):
        raise BadToken("the header says how to check it")
    if kid is not None and not _KID.match(kid):
        raise BadToken("kid has characters that no key id has")
    if (str(kind).lower() if kind is not None else None) not in _TYPES:
        raise BadToken("typ is not JWT")


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    """A time of the claims; None where they have none."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise BadToken(f"{name} is not a time")
    return value


def _audiences(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
