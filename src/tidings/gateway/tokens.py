"""Tokens: verifies the tokens of users, which the team's own backend signs, and mints them for trying things out.

The settings choose the algorithms and the keys, never the token. Each check has its own text, for the log, and one of
the reasons of errors.py, which a server key may know.

A bot signs in with an API key of role `bot`. The key names its user, and the tables hold the hash of the whole key, so
nobody can change the user of a key.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import OctKey
from joserfc.jws import JWSRegistry, extract_compact, validate_compact

from tidings.base64url import from_base64url, to_base64url
from tidings.bounds import TOKEN_CHARS_MAX
from tidings.clock import Clock
from tidings.config.settings import Auth
from tidings.config.values import SECRET_BYTES_MIN
from tidings.errors import Reason
from tidings.gateway.jwks import ALGORITHMS, KeySource, open_key_source
from tidings.ids import is_id, is_user_id

BOT_PREFIX = "tb_"  # of a key of role bot: the user follows, then a dot and the random part
LEEWAY_S = 60  # clocks of two machines differ; for nbf and iat only, an expired token is expired

_KID = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9_.=+/-]{1,128}\Z")  # some issuers use base64
_REFUSED_HEADERS = frozenset(("crit", "jku", "jwk", "x5u", "x5c"))  # nothing in a token says how to check it
_TYPES = frozenset((None, "jwt", "at+jwt"))
_MALFORMED = (ValueError, TypeError, KeyError, OverflowError, RecursionError, msgspec.DecodeError)
_CHECKS = {name: JWSRegistry(algorithms=[name]) for name in ("HS256", *ALGORITHMS)}  # each allows one algorithm
_decode_claims = msgspec.json.Decoder(dict[str, Any]).decode


class BadToken(Exception):
    """A token is refused. The text says why, for the log."""

    def __init__(self, text: str, reason: Reason) -> None:
        super().__init__(text)
        self.reason: Reason = reason


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A user whose token was verified."""

    user_id: str
    expires_ms: int
    issued_ms: float | None
    role: str | None = None  # as the token names it, if it does
    key_hash: str | None = None  # of a bot: the key that it signs in with


class Tokens:
    """Raises ValueError, with one line for the operator, when the settings name no key or a weak one."""

    def __init__(self, auth: Auth, clock: Clock, key_source: KeySource | None = None) -> None:
        if auth.secret is None and not auth.has_public_keys:
            raise ValueError("auth: set TIDINGS_AUTH_SECRET, TIDINGS_AUTH_JWKS_URL or TIDINGS_AUTH_ISSUER")
        secrets = [secret for secret in (auth.secret, auth.secret_previous) if secret is not None]
        if any(len(secret.encode()) < SECRET_BYTES_MIN for secret in secrets):
            raise ValueError(f"auth: a secret has fewer than {SECRET_BYTES_MIN} bytes")
        self._auth = auth
        self._clock = clock
        self._secrets = [OctKey.import_key(secret) for secret in secrets]  # the newest first
        self._key_source = key_source or (open_key_source(auth, clock) if auth.has_public_keys else None)

    async def close(self) -> None:
        if self._key_source is not None:
            await self._key_source.close()

    async def verify(self, token: str) -> Identity:
        """Check the signature and the claims, except the expiry. Raises BadToken."""
        if len(token) > TOKEN_CHARS_MAX:
            raise BadToken(f"longer than {TOKEN_CHARS_MAX} characters", "malformed")
        try:
            return self._identity(await self._claims(token))
        except JoseError as error:
            reason: Reason = "signature" if isinstance(error, BadSignatureError) else "malformed"
            raise BadToken(type(error).__name__, reason) from None  # its text may quote the token
        except _MALFORMED as error:
            raise BadToken(f"malformed ({type(error).__name__})", "malformed") from None

    async def _claims(self, token: str) -> dict[str, Any]:
        signed = extract_compact(token.encode())
        header = signed.protected
        _check_header(header)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str):
            raise BadToken("no algorithm", "malformed")
        keys = await self._keys(header.get("kid"), algorithm)
        if not keys:
            raise BadToken("no key for its algorithm and kid", "unknown_key")
        if not any(validate_compact(signed, key, registry=_CHECKS[algorithm]) for key in keys):
            raise BadSignatureError()
        return _decode_claims(signed.payload or b"")

    async def _keys(self, kid: str | None, algorithm: str) -> list[Any]:
        """The keys that may have signed: one public key, or the secrets."""
        if algorithm == "HS256":
            return [*self._secrets]
        if self._key_source is not None and algorithm in ALGORITHMS:
            key = await self._key_source.key_for(kid, algorithm)
            return [] if key is None else [key]
        return []

    def _identity(self, claims: dict[str, Any]) -> Identity:
        latest_s = self._clock.now_ms() / 1000 + LEEWAY_S
        issued_s = _seconds(claims, "iat")
        begins_s = _seconds(claims, "nbf")
        expires_s = _seconds(claims, "exp")
        user_id = claims.get(self._auth.user_claim)
        role = claims.get(self._auth.role_claim)
        if issued_s is not None and issued_s > latest_s:
            raise BadToken("iat is in the future", "claims")
        if begins_s is not None and begins_s > latest_s:
            raise BadToken("nbf is in the future", "claims")
        if expires_s is None:
            raise BadToken("no exp", "claims")
        if self._auth.issuer is not None and claims.get("iss") != self._auth.issuer:
            raise BadToken("iss is not auth.issuer", "claims")
        if self._auth.audience is not None and self._auth.audience not in _audiences(claims.get("aud")):
            raise BadToken("aud does not name auth.audience", "claims")
        if not isinstance(user_id, str) or not is_user_id(user_id):
            raise BadToken(f"{self._auth.user_claim} is not a user id", "claims")
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
    claims: dict[str, object] = {
        "sub": user_id,
        auth.user_claim: user_id,
        "iat": now_ms / 1000,
        "exp": now_ms // 1000 + ttl_s,
    }
    wanted = {"iss": auth.issuer, "aud": auth.audience}
    claims |= {name: value for name, value in wanted.items() if value is not None}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(auth.secret))


def new_bot_key(user_id: str, clock: Clock) -> str:
    return f"{BOT_PREFIX}{to_base64url(user_id.encode())}.{clock.random_id(32)}"


def user_of_bot(key: str) -> str | None:
    """The user of a bot key; None: it is no bot key. Only the hash of the key says whether it is valid."""
    if not key.startswith(BOT_PREFIX):
        return None
    named = key[len(BOT_PREFIX) :].partition(".")[0]
    with suppress(ValueError):
        user_id = from_base64url(named).decode()
        return user_id if is_user_id(user_id) else None
    return None


def _check_header(header: dict[str, Any]) -> None:
    kid, kind = header.get("kid"), header.get("typ")
    if not _REFUSED_HEADERS.isdisjoint(header):
        raise BadToken("the header says how to check it", "malformed")
    if kid is not None and not _KID.match(kid):
        raise BadToken("kid has characters that no key id has", "malformed")
    if (str(kind).lower() if kind is not None else None) not in _TYPES:
        raise BadToken("typ is not JWT", "malformed")


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    """A time of the claims; None where they have none."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise BadToken(f"{name} is not a time", "claims")
    return value


def _audiences(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
