"""Admin: builds the parts behind the admin page: samples of the nodes, lookups, conditions, settings and doctor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tidings.bounds import DOCTOR_CHECK_S
from tidings.clock import Clock
from tidings.config import settings as config
from tidings.config.settings import Settings
from tidings.gateway.http.admin import AdminRoutes, DoctorView, Setting
from tidings.gateway.http.operators.api_keys import ApiKeys
from tidings.gateway.http.operators.keys import KeyRoutes
from tidings.gateway.http.operators.lists import ListRoutes
from tidings.gateway.http.routes import Route
from tidings.node.graph import Core
from tidings.operators.bounds import ADMIN_CENSUS_S
from tidings.operators.inspection import Inspection
from tidings.operators.listing import Listing
from tidings.operators.node_samples import Samples
from tidings.operators.sampler import Sampler
from tidings.operators.status import SystemStatus
from tidings.operators.traffic import Traffic
from tidings.tasks import SingleFlight
from tidings.telemetry.metrics import SECONDS

_DOCTOR_S = 10 * DOCTOR_CHECK_S + ADMIN_CENSUS_S  # each family of checks has its own bound; this one is behind them


def build_samples(core: Core, is_draining: Callable[[], bool]) -> Samples:
    sampler = Sampler(core.hub, core.metrics, core.cold.archiving, core.clock, core.node_id, is_draining)
    traffic = Traffic(core.keyspace, core.keys)
    return Samples(
        core.keyspace, core.keys, core.clock, core.node_id, lambda: core.registry.others, sampler.take, traffic.add
    )


def build_inspection(core: Core) -> Inspection:
    return Inspection(
        tables=core.tables,
        blobs=core.blobs,
        access=core.access,
        inbox=core.inbox,
        recount=core.verify,
        activity=core.limiting.activity,
        registry=core.registry,
        keyspace=core.keyspace,
        keys=core.keys,
    )


def build_status(core: Core) -> SystemStatus:
    return SystemStatus(
        keyspace=core.keyspace,
        queues=core.queues.keyspace,
        keys=core.keys,
        reader=core.limiting.reader,
        activity=core.limiting.activity,
        archiving=core.cold.archiving,
        providers=sorted(core.pushing.providers),
    )


def admin_routes(core: Core, samples: Samples, sources: Mapping[str, str] | None) -> list[Route]:
    """`sources`: where each setting came from. Without them, a value that is not the default is the program's."""
    settings, known = core.settings, dict(sources or config.guess_sources(core.settings))
    if settings.dev and known["auth.secret"] == "default":
        known["auth.secret"] = "data folder"  # where --dev keeps one
    rows = config.rows()
    keys = ApiKeys(core.tables.accounts, core.limiting.overrides, core.limiting.audit, core.clock)
    lists = ListRoutes(Listing(core.tables, core.registry), Traffic(core.keyspace, core.keys), core.clock)
    views = AdminRoutes(
        node_id=core.node_id,
        settings=[Setting(row.path, config.shown(row, settings), known[row.path], row.about) for row in rows],
        doctor=SingleFlight(lambda: _examine(settings, known, core.clock), _DOCTOR_S),
        samples=samples,
        edges_s=SECONDS,
        lookup=build_inspection(core),
        condition=build_status(core),
        bus=core.bus,
        router=core.router,
        audit=core.limiting.audit,
        clock=core.clock,
        dev_auth=settings.auth if settings.dev else None,
    )
    return [*views.routes(), *lists.routes(), *KeyRoutes(keys).routes()]


async def _examine(settings: Settings, sources: Mapping[str, str], clock: Clock) -> DoctorView:
    from tidings.operators.doctor.examination import examine

    report = await examine(settings, sources, clock, census_s=ADMIN_CENSUS_S)
    keyspace = [msgspec.to_builtins(census) for census in report.keyspace]
    return DoctorView(clock.now_ms(), report.is_healthy, list(report.findings[::-1]), keyspace)
