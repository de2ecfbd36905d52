"""What a table adapter owes for the exceptions to the rate limits: a port of one concern, like those of ports.py.

There are few of them, so all are read together; `version` says cheaply whether they changed. `tests/contracts/` has
its suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidings.model import Override


class Overrides(Protocol):
    """rate_overrides: one row per (scope, name, class_name)."""

    async def put_override(self, override: Override) -> None:
        """Made, or replaced as a whole. Changes the version."""
        ...

    async def remove_override(self, scope: str, name: str, class_name: str) -> bool:
        """Whether there was one. Changes the version if so."""
        ...

    async def overrides(self) -> Sequence[Override]:
        """All of them, by scope, name and class."""
        ...

    async def overrides_version(self) -> str:
        """Another text after every change; empty before the first. Read before `overrides`, it is never too new."""
        ...
