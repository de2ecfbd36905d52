"""Builds what stands around the limiter: its limits and their exceptions, the audit stream, and who was there.

`Core.limiting` is one of these; node.py starts and stops it. A command-line verb uses its parts and starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from tidings.config import Settings
from tidings.messaging.activity import Activity
from tidings.messaging.audit import Audit
from tidings.messaging.audit_fold import AuditFold
from tidings.messaging.audit_read import AuditReader
from tidings.messaging.audit_replay import AuditReplay
from tidings.messaging.limiter import Limiter
from tidings.messaging.limits import CLASSES, Limit, Limits
from tidings.messaging.overrides import Overrides
from tidings.opening import Stores
from tidings.stores.scripts import Scripts
from tidings.stores.scripts_audit import AuditScripts


class Limiting:
    """`connected` answers the users who are connected to this node."""

    def __init__(self, stores: Stores, scripts: Scripts, connected: Callable[[], Iterable[str]]) -> None:
        self._stores = stores
        self._connected = connected
        self._audit_scripts = AuditScripts(stores.keys)
        self.limiter = Limiter(stores.keyspace, scripts, stores.clock, Limits(limits_of(stores.settings)))

    async def start(self) -> None:
        """Before the first socket. Raises StoreError."""
        await self.overrides.start()
        self.audit.start()
        self.fold.start()
        self.activity.start()

    async def stop(self) -> None:
        """After the last socket: what was noted is written."""
        await self.overrides.stop()
        await self.activity.stop()
        await self.audit.stop()
        await self.fold.stop()

    @cached_property
    def overrides(self) -> Overrides:
        return Overrides(self._stores.overrides, self.limiter.limits, self._stores.clock, self.limiter.forget)

    @cached_property
    def audit(self) -> Audit:
        refused = self._stores.metrics.rate_limited
        return Audit(
            self._stores.keyspace,
            self._audit_scripts,
            self._stores.clock,
            self._stores.settings.node.id,
            lambda class_name, n: refused[class_name].inc(n),
        )

    @cached_property
    def fold(self) -> AuditFold:
        return AuditFold(self._stores.keyspace, self._audit_scripts, self._stores.settings.node.id)

    @cached_property
    def reader(self) -> AuditReader:
        return AuditReader(self._stores.keyspace, self._stores.keys, self._stores.clock)

    @cached_property
    def replay(self) -> AuditReplay:
        return AuditReplay(self._stores.keyspace, self._audit_scripts)

    @cached_property
    def activity(self) -> Activity:
        return Activity(self._stores.keyspace, self._stores.keys, self._stores.clock, self._connected)


def limits_of(settings: Settings) -> dict[str, Limit | None]:
    """Those of the settings, which hold where nothing else is said."""
    named = {name: getattr(settings.limits, name) for name in CLASSES}
    return {name: Limit(limit.count, limit.window_s) if limit else None for name, limit in named.items()}
