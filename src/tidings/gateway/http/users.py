"""Routes of users: profile, revocation, and the tokens that --dev gives to clients on this machine only."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tidings.bounds import DEV_TOKEN_TTL_S
from tidings.clock import Clock
from tidings.config.settings import Auth
from tidings.errors import Forbidden
from tidings.gateway.auth import Authenticator
from tidings.gateway.http.pictures import Pictures
from tidings.gateway.http.routes import Reply, Request, Route, Routes, pay_create, route
from tidings.gateway.tokens import mint_token
from tidings.gateway.upgrade import is_origin_allowed
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.limits.limiter import Limiter
from tidings.model import User
from tidings.operators.audit.events import Audit
from tidings.protocol.people_bodies import ProfileBody, ProfilePut, RevokedBody, TokenRequest
from tidings.stores.tables.ports import Accounts

_ONE = "/v1/users/{user_id}"
_DEV_TOKEN = "/v1/dev/token"
_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_FORWARDED = frozenset((b"forwarded", b"via", b"x-real-ip"))  # what proxies and tunnels add, beside X-Forwarded-*


class TokenBody(msgspec.Struct, frozen=True):
    token: str


@dataclass(eq=False, repr=False)
class AccountRoutes(Routes):
    """`dev_auth` is None unless the node runs with --dev."""

    accounts: Accounts
    directory: Directory
    auth: Authenticator
    clock: Clock
    revoke: Callable[[str], None]  # closes the user's connections on every node
    audit: Audit
    dev_auth: Auth | None
    pictures: Pictures
    limiter: Limiter
    signed_in_on_page: Callable[[str], None]

    def routes(self) -> list[Route]:
        return [one for one in super().routes() if self.dev_auth is not None or one.path != _DEV_TOKEN]

    @route("GET", _ONE, "profile", answer=ProfileBody, errors=("not_found",))
    async def profile(self, request: Request) -> Reply:
        """Show a profile: one's own, or any with a server key."""
        user_id = request.subject()
        user = await self.accounts.user(user_id) or User(user_id=user_id)
        return Reply(200, ProfileBody(user_id, user.name, user.avatar_url))

    @route("PUT", _ONE, "profile", body=ProfilePut, answer=ProfileBody, errors=("not_found",))
    async def put_profile(self, request: Request) -> Reply:
        """Set a profile: one's own, or any with a server key."""
        user_id = request.subject()
        asked: ProfilePut = request.body
        self.pictures.check(asked.avatar_url)
        await pay_create(self.limiter, request)  # the rows of everybody with a direct conversation are written
        await self.directory.introduce(User(user_id=user_id, name=asked.name, avatar_url=asked.avatar_url))
        self.auth.forget_user(user_id)
        return Reply(200, ProfileBody(user_id, asked.name, asked.avatar_url))

    @route("POST", _ONE + "/revoke", "server", answer=RevokedBody, errors=("forbidden",))
    async def revoke_tokens(self, request: Request) -> Reply:
        """Refuse every token made before now."""
        user_id = request.user()
        user = await self.accounts.user(user_id) or User(user_id=user_id)
        now_ms = self.clock.now_ms()
        await self.accounts.put_user(
            User(user_id=user_id, name=user.name, avatar_url=user.avatar_url, tokens_valid_after=now_ms)
        )
        self.revoke(user_id)
        self.audit.revoked(user_id, request.caller.key_name or "")
        return Reply(200, RevokedBody(user_id, now_ms))

    @route("POST", _DEV_TOKEN, "open", body=TokenRequest, answer=TokenBody, errors=("forbidden",))
    async def dev_token(self, request: Request) -> Reply:
        """Make a token for any user: only with --dev, only for a client on this machine.

        Address and host must be loopback, and the page our own: no website can
        get a token through the browser of a developer. A tunnel connects from loopback too, and may rewrite the host,
        but it says for whom it forwards."""
        assert self.dev_auth is not None
        is_local = _is_loopback(request.peer) and _is_local_page(request.headers)
        if not is_local or _is_forwarded(request.headers):
            raise Forbidden("only a client on this machine gets a token: use `localhost`")
        asked: TokenRequest = request.body
        token = mint_token(self.dev_auth, asked.user_id, ttl_s=DEV_TOKEN_TTL_S, now_ms=self.clock.now_ms())
        if asked.welcome:
            self.signed_in_on_page(asked.user_id)
        return Reply(200, TokenBody(token))


def _is_loopback(peer: str | None) -> bool:
    try:
        return peer is not None and ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False


def _is_forwarded(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(name in _FORWARDED or name.startswith(b"x-forwarded-") for name, _ in headers)


def _is_local_page(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    named = dict(headers)
    host = named.get(b"host", b"").decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name in _LOOPBACK_NAMES and is_origin_allowed(named.get(b"origin"), host.encode("latin-1"), frozenset())
