"""Overrides: exceptions to the rate limits, set and cleared while nodes run, and known to each node within seconds.

The tables hold them. A node reads them at its start, after its own change, and when their version differs, which it
checks every OVERRIDES_READ_S. While the tables are down the node keeps the last ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.bounds import CLASSES, OVERRIDES_MAX, OVERRIDES_READ_S
from tidings.clock import Clock
from tidings.errors import BadRequest, NotFound, TooLarge
from tidings.ids import is_user_id
from tidings.messaging.limits.policy import KEY_CLASS, Limits
from tidings.model import Scope
from tidings.stores.tables import ports
from tidings.stores.tables.values import Override
from tidings.tasks import Loop

_SCOPES: dict[str, Scope] = {"user": "user", "role": "role", "key": "key"}


class Overrides:
    """`on_change` is called after the overrides of this node changed."""

    def __init__(self, rows: ports.Overrides, limits: Limits, clock: Clock, on_change: Callable[[], None]) -> None:
        self._rows = rows
        self._limits = limits
        self._clock = clock
        self._on_change = on_change
        self._version = ""
        self._known: Sequence[Override] = ()
        self.loop = Loop("overrides", lambda: OVERRIDES_READ_S, self.refresh)

    async def start(self) -> None:
        """Read the overrides first. Raises StoreError: a node without the limits must not admit anybody."""
        await self.refresh()
        self.loop.start()

    async def all(self) -> Sequence[Override]:
        await self.refresh()
        return self._known

    async def put(self, scope: str, name: str, class_name: str, *, count: int | None, window_s: int) -> Override:
        """Raises BadRequest, TooLarge."""
        override = Override(
            scope=checked(scope, name, class_name),
            name=name,
            class_name=class_name,
            count=count,
            window_s=window_s,
            changed_ms=self._clock.now_ms(),
        )
        if len(await self.all()) >= OVERRIDES_MAX and not any(_is_same(override, one) for one in self._known):
            raise TooLarge(f"there are already {OVERRIDES_MAX} overrides; use an override of a role instead")
        await self._rows.put(override)
        await self.refresh()
        return override

    async def remove(self, scope: str, name: str, class_name: str) -> None:
        """Raises NotFound."""
        checked(scope, name, class_name)
        if not await self._rows.remove(scope, name, class_name):
            raise NotFound("there is no such override")
        await self.refresh()

    async def refresh(self) -> None:
        """Read the overrides of the tables. The version is read first, so a change in between is read again."""
        version = await self._rows.version()
        if version != self._version:
            self._known = await self._rows.all()
            self._version = version
            self._limits.install(self._known)
            self._on_change()


def checked(scope: str, name: str, class_name: str) -> Scope:
    """Check the parts of an override and return its scope. Raises BadRequest."""
    known = _SCOPES.get(scope)
    if known is None:
        raise BadRequest("`scope` must be user, role or key")
    if not is_user_id(name):
        raise BadRequest(f"`name` is not a valid name of a {scope}")
    if class_name not in CLASSES:
        raise BadRequest(f"`class` must be one of {', '.join(CLASSES)}")
    if known == "key" and class_name != KEY_CLASS:
        raise BadRequest(f"a key has a budget of class {KEY_CLASS} only; sends use the budget of their user")
    return known


def _is_same(one: Override, other: Override) -> bool:
    return (one.scope, one.name, one.class_name) == (other.scope, other.name, other.class_name)
