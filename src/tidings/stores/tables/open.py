"""The adapter of a tables URL: its scheme picks it, and it is imported only then."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from tidings.clock import Clock
from tidings.stores.findings import Finding
from tidings.stores.tables.ports import Counts, Tables
from tidings.stores.tables.schemes import SCHEMES


class Adapter(Protocol):
    """The functions that an adapter's module has. Each takes the URL of the tables."""

    def name(self, url: str) -> str:
        """The tables as an operator knows them: a path or a URL."""
        ...

    def folder(self, url: str) -> Path | None:
        """The folder on this machine that holds the tables. None: they are elsewhere."""
        ...

    def exists(self, url: str) -> bool:
        """False: there are certainly no tables yet."""
        ...

    async def open(self, url: str, counts: Counts, clock: Clock) -> Tables:
        """Open the tables. Raises Unavailable in one line when they cannot be used."""
        ...

    async def create(self, url: str, clock: Clock) -> list[str]:
        """Make what is missing, change nothing that is there, and answer the names of what was made."""
        ...

    async def check(self, url: str, clock: Clock) -> list[str]:
        """Answer what differs from what this version needs, in one line each."""
        ...

    async def renew_epoch(self, url: str, clock: Clock) -> str:
        """Give another epoch to tables that were put back from a copy, so that later numbers count no more."""
        ...

    def back_up(self, url: str, to: Path) -> int:
        """Copy the tables to a new file while nodes use them, and answer its bytes.

        Raises ValueError where the store makes its own copies, OSError, or Unavailable.
        """
        ...

    async def examine(self, url: str, clock: Clock) -> list[Finding]:
        """Check that the tables can be reached, read and written, and are safe. Makes nothing, writes nothing."""
        ...


def adapter_of(url: str) -> Adapter:
    """The adapter of a URL. Raises ValueError in one line when a library of it is missing."""
    name = url.partition("://")[0]
    scheme = SCHEMES[name]
    try:
        return cast(Adapter, importlib.import_module(scheme.adapter))
    except ImportError as error:
        fix = f"pip install '.[{scheme.extra}]' in the clone"
        raise ValueError(f"tables: {name}:// needs {fix} ({error})") from None
