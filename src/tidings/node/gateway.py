"""Gateway: builds the sockets and the HTTP routes of a node on its core, in build order."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST

from tidings.bounds import READY_S
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.config.values import SettingsError
from tidings.errors import StoreError
from tidings.gateway.auth import Authenticator
from tidings.gateway.connections import Connections
from tidings.gateway.dispatch import UseCases
from tidings.gateway.http.app import HttpApp
from tidings.gateway.http.beside.drafts import DraftRoutes
from tidings.gateway.http.beside.pins import PinRoutes
from tidings.gateway.http.beside.reactions import ReactionRoutes
from tidings.gateway.http.beside.saved import SavedRoutes
from tidings.gateway.http.beside.threads import ThreadRoutes
from tidings.gateway.http.conversations import ConversationRoutes
from tidings.gateway.http.devices import DeviceRoutes
from tidings.gateway.http.docs.asyncapi import asyncapi_of
from tidings.gateway.http.docs.openapi import openapi_of
from tidings.gateway.http.docs.page import docs_page
from tidings.gateway.http.files.bytes import ByteRoutes
from tidings.gateway.http.files.profile_pictures import ProfilePictureRoutes
from tidings.gateway.http.files.routes import FileRoutes
from tidings.gateway.http.health import METRICS_PATH, MetricsPage, PageRoutes, Readiness, WorkerStates
from tidings.gateway.http.inbox import ExplainRoutes, InboxRoutes
from tidings.gateway.http.integration.webhooks import WebhookRoutes
from tidings.gateway.http.lifecycle.jobs import JobRoutes
from tidings.gateway.http.lifecycle.scheduled import ScheduledRoutes
from tidings.gateway.http.limits import LimitRoutes
from tidings.gateway.http.messages import MessageRoutes
from tidings.gateway.http.moderation.joining import JoiningRoutes
from tidings.gateway.http.moderation.reports import ReportRoutes
from tidings.gateway.http.people import PeopleRoutes
from tidings.gateway.http.pictures import ANY_HOST, Pictures
from tidings.gateway.http.presence import PresenceRoutes
from tidings.gateway.http.routes import Route
from tidings.gateway.http.search import SearchRoutes
from tidings.gateway.http.users import AccountRoutes
from tidings.gateway.http.web import Origin, WebRoutes
from tidings.gateway.server import GatewayServer, open_tls
from tidings.gateway.tokens import Tokens
from tidings.gateway.upgrade import LOOPBACK
from tidings.messaging.unread.explain import Explain
from tidings.node.admin import admin_routes, build_samples
from tidings.node.graph import Core
from tidings.node.siblings import Siblings
from tidings.operators.node_samples import Samples
from tidings.stores.tables.ports import Accounts


def build_gateway(
    core: Core, sources: Mapping[str, str] | None, siblings: Siblings | None = None
) -> tuple[GatewayServer, Samples]:
    """Build the gateway and the samples that its admin page shows. Raises SettingsError.

    `sources`: where each setting came from. `siblings`: the other workers of this port."""
    settings, cases, accounts, clock = core.settings, _use_cases(core), core.tables.accounts, core.clock
    try:
        auth, connections = build_connections(settings, cases, accounts, clock, core.metrics.connections.set)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    samples = build_samples(core, lambda: connections.is_draining)
    server = build_server(
        settings,
        cases,
        accounts,
        auth,
        connections,
        clock,
        readiness=partial(_readiness, core),
        metrics_page=partial(_metrics_page, core, siblings),
        worker_states=None if siblings is None else siblings.states,
        signed_in_on_page=core.events.signed_in_on_page,
        files_origin=core.files.origin,
        more_routes=[
            *_device_routes(core),
            *_webhook_routes(core),
            *_file_routes(core),
            *_lifecycle_routes(core),
            *ExplainRoutes(_explain(core), core.limiting.limiter).routes(),
            *ProfilePictureRoutes(core.profile_pictures, accounts, auth, core.limiting.limiter).routes(),
            *PinRoutes(core.pins, core.limiting.limiter).routes(),
            *SavedRoutes(core.saved).routes(),
            *DraftRoutes(core.drafts).routes(),
            *admin_routes(core, samples, sources),
        ],
    )
    return server, samples


def _explain(core: Core) -> Explain:
    return Explain(core.access, core.tables, core.scripts, core.unread, core.clock)


def build_connections(
    settings: Settings, cases: UseCases, accounts: Accounts, clock: Clock, count: Callable[[int], None]
) -> tuple[Authenticator, Connections]:
    """Raises ValueError, with one line for the operator, when the settings cannot be served."""
    auth = Authenticator(Tokens(settings.auth, clock), accounts, clock, tells_reason=settings.dev)
    return auth, Connections(auth, cases, accounts, clock, count)


def build_server(
    settings: Settings,
    cases: UseCases,
    accounts: Accounts,
    auth: Authenticator,
    connections: Connections,
    clock: Clock,
    *,
    readiness: Readiness,
    metrics_page: MetricsPage,
    signed_in_on_page: Callable[[str], None],
    worker_states: WorkerStates | None = None,
    files_origin: Origin | None = None,
    more_routes: Sequence[Route] = (),
) -> GatewayServer:
    """`worker_states`: the state of each worker of the port, where several share it."""
    dev_auth = settings.auth if settings.dev else None
    has_own_port = settings.metrics.port is not None
    pages = PageRoutes(readiness, lambda: connections.is_draining, metrics_page, clock, worker_states)
    pictures = Pictures(settings.picture_hosts or ((ANY_HOST,) if settings.dev else ()))
    people = (accounts, cases.directory, auth, clock, connections.revoke, cases.audit)
    account_routes = AccountRoutes(*people, dev_auth, pictures, cases.limiter, signed_in_on_page)
    log_cases = cases.history, cases.sends, cases.rewrites, cases.unread
    routes = [
        *(route for route in pages.routes() if not (has_own_port and route.path == METRICS_PATH)),
        *WebRoutes(pictures, settings.login_url, files_origin).routes(),
        *account_routes.routes(),
        *InboxRoutes(cases.inbox, cases.flags, cases.unread, cases.limiter).routes(),
        *LimitRoutes(cases.overrides, cases.audit).routes(),
        *ConversationRoutes(cases.directory, cases.rules, pictures, cases.limiter, cases.search).routes(),
        *MessageRoutes(*log_cases, cases.threads, cases.receipts, cases.limiter).routes(),
        *ThreadRoutes(cases.threads).routes(),
        *ReactionRoutes(cases.reactions, cases.reactors, cases.limiter).routes(),
        *PeopleRoutes(cases.blocks, cases.consent, cases.people, cases.unread, cases.limiter).routes(),
        *SearchRoutes(cases.search, cases.limiter).routes(),
        *PresenceRoutes(cases.live_status).routes(),
        *more_routes,
    ]
    openapi, asyncapi = openapi_of(routes), asyncapi_of()
    pages.publish(openapi, asyncapi, docs_page(openapi, asyncapi))
    allowed = frozenset((*settings.allowed_origins, *((LOOPBACK,) if settings.dev else ())))
    apps = [
        HttpApp(table, auth, cases.limiter, clock, allowed, connections.refusals, cases.activity)
        for table in (routes, [pages.metrics_route()])
    ]
    metrics_app = apps[1] if has_own_port else None
    shares_port = worker_states is not None
    return GatewayServer(
        apps[0], connections, auth, allowed, clock, metrics_app, shares_port=shares_port, tls=_tls_of(settings)
    )


def _tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Raises SettingsError."""
    if settings.tls.cert is None:
        return None
    try:
        return open_tls(settings.tls.cert, settings.tls.key)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _use_cases(core: Core) -> UseCases:
    limiting = core.limiting
    return UseCases(
        hub=core.hub,
        registry=core.registry,
        router=core.router,
        sends=core.sends,
        rewrites=core.rewrites,
        reactions=core.reactions,
        reactors=core.reactors,
        directory=core.directory,
        rules=core.rules,
        blocks=core.blocks,
        consent=core.consent,
        people=core.people,
        search=core.searching.search,
        unread=core.unread,
        threads=core.threads,
        inbox=core.inbox,
        flags=core.flags,
        history=core.history,
        streams=core.streams,
        receipts=core.receipts,
        resume=core.resume,
        live_status=core.live_status,
        notify=core.pushing.notify,
        limiter=limiting.limiter,
        overrides=limiting.overrides,
        audit=limiting.audit,
        activity=limiting.activity,
    )


def _lifecycle_routes(core: Core) -> list[Route]:
    limiter, audit = core.limiting.limiter, core.limiting.audit
    return [
        *ScheduledRoutes(core.schedule).routes(),
        *JobRoutes(core.erasing, core.exporting, core.limiting.audit).routes(),
        *JoiningRoutes(core.joining, core.bans, limiter).routes(),
        *ReportRoutes(core.reports, audit, limiter).routes(),
    ]


def _device_routes(core: Core) -> list[Route]:
    providers = core.pushing.providers
    return DeviceRoutes(
        core.tables.devices,
        core.clock,
        core.router.push,
        providers=providers.keys(),
        webpush_hosts=core.settings.push.webpush_hosts,
        vapid_public_key=getattr(providers.get("webpush"), "public_key", None),
    ).routes()


async def _metrics_page(core: Core, siblings: Siblings | None) -> tuple[bytes, str]:
    own = core.metrics.render
    return own() if siblings is None else await siblings.page(own), CONTENT_TYPE_LATEST


def _webhook_routes(core: Core) -> list[Route]:
    made = core.integration
    return WebhookRoutes(
        made.hooks, made.lag, core.limiting.audit, allows_private=made.outbound.allows_private
    ).routes()


def _file_routes(core: Core) -> list[Route]:
    """The routes of bytes serve a folder only: elsewhere the clients go to the store itself."""
    made = core.filing
    byte_routes = [] if core.files.is_direct else ByteRoutes(made.uploads, made.downloads, made.thumbnails).routes()
    return [*FileRoutes(made.uploads, made.downloads, made.thumbnails, core.limiting.limiter).routes(), *byte_routes]


async def _readiness(core: Core) -> dict[str, str]:
    """The state of each store, by name."""
    try:
        async with asyncio.timeout(READY_S):
            await core.tables.ping()
        tables = "up"
    except (StoreError, TimeoutError):
        tables = "down"
    core.metrics.store_up.labels("tables").set(float(tables == "up"))
    return {"tables": tables, "keyspace": "up" if core.keyspace.is_up() else "down"}
