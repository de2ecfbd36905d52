"""Puts the gateway together from its settings and the use cases. wiring.py calls `build_gateway` once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.gateway.asyncapi import asyncapi_of
from tidings.gateway.auth import Auth, AuthSettings
from tidings.gateway.connections import Connections
from tidings.gateway.http import HttpApp
from tidings.gateway.http_accounts import AccountRoutes
from tidings.gateway.http_conversations import ConversationRoutes
from tidings.gateway.http_inbox import InboxRoutes
from tidings.gateway.http_limits import LimitRoutes
from tidings.gateway.http_messages import MessageRoutes
from tidings.gateway.http_pages import MetricsPage, PageRoutes, Readiness
from tidings.gateway.http_presence import PresenceRoutes
from tidings.gateway.http_web import WebRoutes
from tidings.gateway.openapi import openapi_of
from tidings.gateway.routes import Route
from tidings.gateway.server import GatewayServer
from tidings.gateway.usecases import UseCases
from tidings.stores.ports import Accounts


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    auth: AuthSettings
    allowed_origins: tuple[str, ...] = ()  # beside the same origin; compared exactly
    is_dev: bool = False  # POST /v1/dev/token exists


def build_gateway(
    settings: GatewaySettings,
    cases: UseCases,
    accounts: Accounts,
    clock: Clock,
    *,
    readiness: Readiness,
    metrics_page: MetricsPage,
    on_connections: Callable[[int], None] = lambda count: None,
    more_routes: Sequence[Route] = (),
) -> GatewayServer:
    """Raises ValueError, with one line for the operator, when the settings cannot be served."""
    auth = Auth(settings.auth, accounts, clock)
    connections = Connections(auth, cases, accounts, clock, on_connections)
    dev_auth = settings.auth if settings.is_dev else None
    pages = PageRoutes(readiness, lambda: connections.is_draining, metrics_page)
    account_routes = AccountRoutes(accounts, cases.directory, auth, clock, connections.revoke, dev_auth, cases.audit)
    routes = [*pages.routes(), *WebRoutes().routes(), *account_routes.routes(), *_use_case_routes(cases), *more_routes]
    pages.publish(openapi_of(routes), asyncapi_of())
    allowed = frozenset(settings.allowed_origins)
    app = HttpApp(routes, auth, cases.limiter, clock, allowed, connections.refusals, cases.activity)
    return GatewayServer(app, connections, auth, allowed, clock)


def _use_case_routes(cases: UseCases) -> list[Route]:
    return [
        *InboxRoutes(cases.inbox, cases.unread, cases.limiter).routes(),
        *(LimitRoutes(cases.overrides, cases.audit).routes() if cases.overrides is not None else ()),
        *ConversationRoutes(cases.directory).routes(),
        *MessageRoutes(cases.history, cases.sends, cases.rewrites, cases.unread, cases.receipts).routes(),
        *(PresenceRoutes(cases.signals).routes() if cases.signals is not None else ()),
    ]
