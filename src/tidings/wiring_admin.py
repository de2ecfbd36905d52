"""Builds what the admin page stands on: the samples of the nodes, lookups, conditions, settings and doctor.

node.py makes one `Admin` for a node that listens, starts and stops it, and serves its routes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from prometheus_client import ProcessCollector

from tidings import __version__, config
from tidings.bounds import ADMIN_CENSUS_S, DOCTOR_CHECK_S
from tidings.gateway.auth import AuthSettings
from tidings.gateway.http_admin import AdminRoutes, Check, DoctorView, Setting
from tidings.gateway.http_admin_actions import AdminActionRoutes
from tidings.gateway.routes import Route
from tidings.messaging.condition import Condition
from tidings.messaging.lookup import Lookup
from tidings.messaging.samples import Sample, Samples
from tidings.messaging.shared import Shared
from tidings.routing.bus import Leave
from tidings.telemetry import SECONDS, Tally
from tidings.wiring import Core

_DOCTOR_S = 10 * DOCTOR_CHECK_S + ADMIN_CENSUS_S  # every family of checks has its own bound; this is behind them


class Admin:
    """`sources`: where each setting came from; without them, what differs from its default is the program's."""

    def __init__(self, core: Core, sources: Mapping[str, str] | None = None) -> None:
        self._core = core
        self._sources = dict(sources) if sources is not None else _guessed(core)
        if core.settings.dev and self._sources["auth.secret"] == "default":
            self._sources["auth.secret"] = "data folder"  # where --dev keeps one
        self._started_ms = core.clock.now_ms()
        self._process = ProcessCollector(registry=None)
        self._doctor: Shared[DoctorView] = Shared(self._examine, _DOCTOR_S)
        self.is_draining: Callable[[], bool] = lambda: False
        self.node_id = core.node_id
        self.is_dev = core.settings.dev

    @cached_property
    def samples(self) -> Samples:
        core = self._core
        return Samples(core.keyspace, core.keys, core.clock, core.node_id, lambda: core.registry.others, self.take)

    @cached_property
    def lookup(self) -> Lookup:
        core = self._core
        return Lookup(
            tables=core.tables,
            devices=core.devices,
            archives=core.archive,
            blobs=core.blobs,
            inbox=core.inbox,
            verify=core.verify,
            activity=core.limiting.activity,
            registry=core.registry,
            keyspace=core.keyspace,
            keys=core.keys,
            clock=core.clock,
        )

    @cached_property
    def condition(self) -> Condition:
        core = self._core
        return Condition(
            keyspace=core.keyspace,
            keys=core.keys,
            reader=core.limiting.reader,
            activity=core.limiting.activity,
            archiving=core.cold.archiving,
            providers=sorted(core.pushing.providers),
        )

    def routes(self) -> list[Route]:
        core = self._core
        dev_auth = AuthSettings(**dataclasses.asdict(core.settings.auth)) if core.settings.dev else None
        looks = AdminRoutes(self.samples, self.lookup, self.condition, self, SECONDS)
        actions = AdminActionRoutes(self, core.router, self.lookup, core.limiting.audit, core.clock, dev_auth)
        return [*looks.routes(), *actions.routes()]

    async def leave(self, node_id: str) -> bool:
        return bool(await self._core.bus.tell(node_id, Leave()))

    # --- what this node says of itself ------------------------------------------------------------

    def take(self) -> Sample:
        core, metrics = self._core, self._core.metrics
        process = {family.name: family.samples[0].value for family in self._process.collect() if family.samples}
        last = core.cold.archiving.last
        return Sample(
            at_ms=core.clock.now_ms(),
            node_id=core.node_id,
            version=__version__,
            started_ms=self._started_ms,
            connections=len(core.hub),
            users=sum(1 for _ in core.hub.users()),
            is_draining=self.is_draining(),
            messages=int(metrics.messages.value),
            deliveries=int(metrics.deliveries.value),
            commands=int(metrics.keyspace_commands.value),
            rejects={name: int(count.value) for name, count in metrics.rate_limited.items()},
            pushes={" ".join(names): int(count.value) for names, count in metrics.push.items()},
            archive={name: int(count.value) for name, count in metrics.archive.items()},
            archive_last_ms=last[0] if last is not None else 0,
            ack=_buckets(metrics.send_seconds),
            stages={stage: _buckets(tally) for stage, tally in metrics.stage_seconds.items()},
            cpu_s=round(process.get("process_cpu_seconds", 0.0), 3),
            memory_bytes=int(process.get("process_resident_memory_bytes", 0)),
        )

    def settings(self) -> list[Setting]:
        settings = self._core.settings
        return [
            Setting(row.path, config.shown(row, settings), self._sources[row.path], row.about) for row in config.rows()
        ]

    async def doctor(self) -> DoctorView:
        return await self._doctor()

    async def _examine(self) -> DoctorView:
        from tidings.doctor.examination import examine

        core = self._core
        report = await examine(core.settings, self._sources, core.clock, census_s=ADMIN_CENSUS_S)
        fields: dict[str, Any] = msgspec.to_builtins(report)
        findings = msgspec.convert(fields["findings"], list[Check])
        return DoctorView(core.clock.now_ms(), report.is_healthy, findings[::-1], list(fields["keyspace"]))


def _buckets(tally: Tally) -> list[int]:
    return [int(count) for _, count in tally.buckets()]


def _guessed(core: Core) -> dict[str, str]:
    """For a node that a program started: nobody wrote down where a value came from."""
    usual = config.Settings()
    return {
        row.path: "default"
        if config.value_of(core.settings, row.path) == config.value_of(usual, row.path)
        else "program"
        for row in config.rows()
    }
