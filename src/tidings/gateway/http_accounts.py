"""Routes of users: profile, revocation, and the tokens that --dev hands out on this machine only."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from tidings.clock import Clock
from tidings.errors import Forbidden, NotFound
from tidings.gateway.auth import Auth, AuthSettings
from tidings.gateway.bodies import ProfileBody, ProfilePut, RevokedBody, TokenBody, TokenRequest
from tidings.gateway.routes import Reply, Request, Route
from tidings.gateway.upgrade import is_origin_allowed
from tidings.gateway.usecases import Audit, Directory
from tidings.model import User
from tidings.stores.ports import Accounts

DEV_TOKEN_TTL_S = 30 * 86_400  # a demo should outlive a holiday

_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))


class AccountRoutes:
    """`dev_auth` is None unless the node runs with --dev."""

    def __init__(
        self,
        accounts: Accounts,
        directory: Directory,
        auth: Auth,
        clock: Clock,
        revoke: Callable[[str], None],
        dev_auth: AuthSettings | None,
        audit: Audit | None = None,
    ) -> None:
        self._audit = audit
        self._accounts = accounts
        self._directory = directory
        self._auth = auth
        self._clock = clock
        self._revoke = revoke
        self._dev_auth = dev_auth

    def routes(self) -> list[Route]:
        one = "/v1/users/{user_id}"
        routes = [
            Route(
                "GET",
                one,
                self.profile,
                "A profile: one's own, or any with a server key",
                "profile",
                answer=ProfileBody,
                errors=("not_found",),
            ),
            Route(
                "PUT",
                one,
                self.put_profile,
                "Set a profile: one's own, or any with a server key",
                "profile",
                body=ProfilePut,
                answer=ProfileBody,
                errors=("not_found",),
            ),
            Route(
                "POST",
                one + "/revoke",
                self.revoke,
                "Refuse every token made before now",
                "server",
                answer=RevokedBody,
                errors=("forbidden",),
            ),
        ]
        if self._dev_auth is not None:
            routes.append(
                Route(
                    "POST",
                    "/v1/dev/token",
                    self.dev_token,
                    "A token for anyone: only with --dev, only from here",
                    "open",
                    body=TokenRequest,
                    answer=TokenBody,
                    errors=("forbidden",),
                )
            )
        return routes

    async def profile(self, request: Request) -> Reply:
        user_id = self._whose(request)
        user = await self._accounts.user(user_id) or User(user_id=user_id)
        return Reply(200, ProfileBody(user_id, user.name, user.avatar_url))

    async def put_profile(self, request: Request) -> Reply:
        user_id = self._whose(request)
        asked: ProfilePut = request.body
        await self._directory.introduce(User(user_id=user_id, name=asked.name, avatar_url=asked.avatar_url))
        self._auth.forget_user(user_id)
        return Reply(200, ProfileBody(user_id, asked.name, asked.avatar_url))

    async def revoke(self, request: Request) -> Reply:
        user_id = request.id()
        user = await self._accounts.user(user_id) or User(user_id=user_id)
        now_ms = self._clock.now_ms()
        await self._accounts.put_user(
            User(user_id=user_id, name=user.name, avatar_url=user.avatar_url, tokens_valid_after=now_ms)
        )
        self._revoke(user_id)
        if self._audit is not None:
            self._audit.revoked(user_id, request.caller.key_name or "")
        return Reply(200, RevokedBody(user_id, now_ms))

    async def dev_token(self, request: Request) -> Reply:
        """Loopback peer, loopback name, no foreign page: a site cannot reach it through the browser of a developer."""
        assert self._dev_auth is not None
        if not _is_loopback(request.peer) or not _is_local_page(request.headers):
            raise Forbidden("only from this machine")
        asked: TokenRequest = request.body
        token = self._dev_auth.mint(asked.user_id, ttl_s=DEV_TOKEN_TTL_S, now_ms=self._clock.now_ms())
        return Reply(200, TokenBody(token))

    def _whose(self, request: Request) -> str:
        """A user has the own profile only; others do not exist."""
        user_id = request.id()
        if request.caller.role is None and request.caller.user_id != user_id:
            raise NotFound()
        return user_id


def _is_loopback(peer: str | None) -> bool:
    try:
        return peer is not None and ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False


def _is_local_page(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    named = dict(headers)
    host = named.get(b"host", b"").decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name in _LOOPBACK_NAMES and is_origin_allowed(named.get(b"origin"), host.encode("latin-1"), frozenset())
