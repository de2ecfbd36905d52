"""Authenticator: names the caller, a user by the token of the team's own backend, or that backend by an API key.

A bot is a user that signs in with an API key of role `bot` instead of a token.

Every failure is the same `unauthorized`. The log has the reason; a server key learns it too, and anybody with --dev. A
token whose signature was verified once is remembered. Its expiry and the user's `tokens_valid_after` are checked each
time, the latter with an account that is at most ACCOUNT_S old.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Generic, TypeVar

import msgspec

from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, Reason, Unauthorized
from tidings.gateway.fairness import Bucket
from tidings.gateway.tokens import BadToken, Identity, Tokens, user_of_bot
from tidings.ids import is_user_id
from tidings.model import User
from tidings.stores.tables.ports import Accounts
from tidings.stores.tables.values import ApiKey
from tidings.tasks import Recent, SingleFlight

TOKEN_S = 300.0  # how long a verified signature is remembered
ACCOUNT_S = 2.0  # how long a revocation made on another node may go unnoticed
API_KEY_S = 5.0  # the same for a server key
KEY_READS_BURST = 20  # keys that are read one by one, in a row; then all of them together
KEY_READS_S = 1.0  # how often, after that: a new key may wait this long in a flood of wrong ones
REASON_S = 1.0  # a reason is logged once in this time: a flood of bad tokens must not fill the log
NEVER_MS = 253_402_300_799_000  # the year 9999: a bot key ends when it is revoked
REMEMBERED_MAX = 20_000  # entries per cache; a full one forgets its oldest

log = logging.getLogger("tidings.auth")
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The user or the server that makes a REST request. `role` is the API key's; None: the caller is a user."""

    user_id: str | None  # of a server: the user it acts for, if it does
    role: str | None
    budget_id: str  # the owner of the rate limit
    user_role: str | None = None  # as the user's token names it
    key_name: str | None = None  # of a server
    key_id: str = ""  # the owner of the rate limit if the key has one of its own


class Remembered(Generic[V]):
    """A small cache by age. When it is full it forgets the oldest values, which costs one lookup each."""

    __slots__ = ("_clock", "_ttl_s", "_values")

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._values = Recent[str, tuple[float, V]](REMEMBERED_MAX)

    def get(self, key: str) -> tuple[V] | None:
        found = self._values.get(key)
        if found is None or found[0] < self._clock.monotonic_s():
            return None
        return (found[1],)

    def put(self, key: str, value: V) -> V:
        self._values.put(key, (self._clock.monotonic_s() + self._ttl_s, value))
        return value

    def forget(self, key: str) -> None:
        self._values.pop(key, None)


class Authenticator:
    def __init__(self, tokens: Tokens, accounts: Accounts, clock: Clock, *, tells_reason: bool = False) -> None:
        self._tells_reason = tells_reason
        self._tokens = tokens
        self._accounts = accounts
        self._clock = clock
        self._verified: Remembered[Identity] = Remembered(clock, TOKEN_S)
        self._users: Remembered[User | None] = Remembered(clock, ACCOUNT_S)
        self._changes = 0  # how often an account was forgotten
        self._api_keys: Remembered[ApiKey | None] = Remembered(clock, API_KEY_S)
        self._key_reads = Bucket(clock, KEY_READS_BURST, KEY_READS_S)
        self._key_lists: Remembered[dict[str, ApiKey]] = Remembered(clock, KEY_READS_S)
        self._list_keys = SingleFlight(self._read_keys)
        self._reasons: Remembered[None] = Remembered(clock, REASON_S)

    async def close(self) -> None:
        await self._tokens.close()

    # --- users ---

    async def identify(self, token: str) -> Identity:
        """The user of a token. Raises Unauthorized."""
        known = self._verified.get(token)
        if known is not None:
            identity = known[0]
        else:
            identity = await (self._verify(token) if user_of_bot(token) is None else self._bot(token))
        if identity.expires_ms <= self._clock.now_ms():
            raise self.refused("expired", "expired")
        user = await self._user(identity.user_id)
        valid_after = user.tokens_valid_after if user is not None else 0
        if valid_after and (identity.issued_ms is None or identity.issued_ms < valid_after):
            raise self.refused("revoked", "revoked")
        return identity

    def forget_user(self, user_id: str) -> None:
        """The account was changed: the next request reads it from the tables."""
        self._users.forget(user_id)
        self._changes += 1

    async def valid_after_ms(self, user_id: str) -> int:
        """Tokens of the user that were made before this time are refused, as the tables say now."""
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
        try:
            identity = await self._tokens.verify(token)
        except BadToken as error:
            raise self.refused(str(error), error.reason) from None
        return self._verified.put(token, identity)

    async def _bot(self, token: str) -> Identity:
        """The user of a bot key. It is looked up like any key, so a revoked one is refused within API_KEY_S."""
        key, user_id = await self._find_key(token), user_of_bot(token)
        if key is None or key.role != "bot" or user_id is None:
            raise self.refused("unknown bot key", "unknown_key")
        return Identity(user_id, NEVER_MS, key.created_ms, "bot", key.key_hash)

    def refused(self, cause: str, reason: Reason, *, is_server: bool = False, message: str = "") -> Unauthorized:
        """The refusal, with its reason where the caller may know it. The log has the reason always."""
        if self._reasons.get(cause) is None:
            self._reasons.put(cause, None)
            log.info("sign-in refused", extra={"reason": reason, "cause": cause})
        return Unauthorized(message, reason=reason if is_server or self._tells_reason else None)

    # --- REST callers ---

    async def caller(self, method: str, bearer: str | None, api_key: str | None, user_id: str | None) -> Caller:
        """The caller of a request. A readonly key may only read. Raises Unauthorized and Forbidden."""
        if api_key is not None:
            return await self._server(method, api_key, user_id)
        if bearer is None:
            raise self.refused("neither a token nor an API key", "malformed")
        identity = await self.identify(bearer)
        return Caller(identity.user_id, None, identity.user_id, identity.role)

    async def _server(self, method: str, api_key: str, user_id: str | None) -> Caller:
        key = await self._find_key(api_key)
        if key is None:
            raise self.refused("unknown API key", "unknown_key", is_server=True)
        if key.role == "bot":
            return await self._bot_caller(api_key, user_id)
        if user_id is not None and not is_user_id(user_id):
            raise BadRequest("`X-User-Id` must be a user id")
        if key.role not in ("admin", "moderator") and method not in ("GET", "HEAD"):
            raise Forbidden("this API key may only read; use an admin key")
        key_id = "key-" + key.key_hash[:32]
        return Caller(user_id, key.role, user_id or key_id, key_name=key.name, key_id=key_id)

    async def _bot_caller(self, api_key: str, user_id: str | None) -> Caller:
        identity = await self.identify(api_key)
        if user_id not in (None, identity.user_id):
            raise Forbidden("a bot key acts for its own user only")
        return Caller(identity.user_id, None, identity.user_id, identity.role)

    async def _find_key(self, api_key: str) -> ApiKey | None:
        key_hash = hash_api_key(api_key)
        known = self._api_keys.get(key_hash)
        return known[0] if known is not None else await self._api_key(key_hash)

    async def _api_key(self, key_hash: str) -> ApiKey | None:
        """Read the key. In a flood of wrong keys it is searched in the list of all keys, which is read once a second:
        a stranger must not cause a read for each request."""
        if self._key_reads.take():
            return self._api_keys.put(key_hash, await self._accounts.api_key(key_hash))
        listed = self._key_lists.get("") or (await self._list_keys(),)
        return listed[0].get(key_hash)

    async def key_hashes(self) -> frozenset[str]:
        """The keys that are valid, as the tables say now. Raises StoreError."""
        return frozenset(key.key_hash for key in await self._accounts.api_keys())

    async def _read_keys(self) -> dict[str, ApiKey]:
        return self._key_lists.put("", {key.key_hash: key for key in await self._accounts.api_keys()})


def hash_api_key(api_key: str) -> str:
    """The part of a server key that is stored. Keys are long and random, so one round of SHA-256 is enough."""
    return hashlib.sha256(api_key.encode()).hexdigest()
