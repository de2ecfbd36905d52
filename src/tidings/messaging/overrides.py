"""Exceptions to the rate limits: set and cleared while nodes run, and known to each of them within seconds.

The tables hold them. A node reads them at its start, after a change of its own, and whenever it finds that their
version is another one, for which it looks every OVERRIDES_READ_S. While the tables are down it keeps what it has.
http_limits.py and the command line change them; limits.py is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidings.bounds import OVERRIDES_MAX, OVERRIDES_READ_S
from tidings.clock import Clock
from tidings.errors import BadRequest, NotFound, StoreError, TooLarge
from tidings.messaging.limits import CLASSES, KEY_CLASS, Limits
from tidings.model import Override, Scope, is_id
from tidings.stores import ports_limits

log = logging.getLogger("tidings.limits")
_SCOPES: dict[str, Scope] = {"user": "user", "role": "role", "key": "key"}


class Overrides:
    """`on_change` is called after this node knows others than before."""

    def __init__(
        self, rows: ports_limits.Overrides, limits: Limits, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        self._rows = rows
        self._limits = limits
        self._clock = clock
        self._on_change = on_change
        self._version = ""
        self._known: Sequence[Override] = ()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises StoreError: a node that does not know who has which limit must not admit anybody."""
        await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="overrides")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
            raise TooLarge(f"there are {OVERRIDES_MAX} overrides; give people a role instead")
        await self._rows.put_override(override)
        await self.refresh()
        return override

    async def remove(self, scope: str, name: str, class_name: str) -> None:
        """Raises NotFound."""
        checked(scope, name, class_name)
        if not await self._rows.remove_override(scope, name, class_name):
            raise NotFound("there is no such override")
        await self.refresh()

    async def refresh(self) -> None:
        """What the tables have. The version is read first, so a change that comes between is read again."""
        version = await self._rows.overrides_version()
        if version != self._version:
            self._known = await self._rows.overrides()
            self._version = version
            self._limits.install(self._known)
            self._on_change()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(OVERRIDES_READ_S)
            try:
                await self.refresh()
            except StoreError as error:
                log.info("overrides stay as they are known: %s", error)
            except Exception:
                log.exception("reading the overrides failed")


def checked(scope: str, name: str, class_name: str) -> Scope:
    """The scope. Raises BadRequest."""
    known = _SCOPES.get(scope)
    if known is None:
        raise BadRequest("an override is for a user, a role or a key")
    if not is_id(name):
        raise BadRequest(f"not the name of a {scope} that can have an override")
    if class_name not in CLASSES:
        raise BadRequest(f"a class is one of {', '.join(CLASSES)}")
    if known == "key" and class_name != KEY_CLASS:
        raise BadRequest(f"a key has a budget of class {KEY_CLASS} alone; sends are their user's")
    return known


def _is_same(one: Override, other: Override) -> bool:
    return (one.scope, one.name, one.class_name) == (other.scope, other.name, other.class_name)
