"""The port of blobs: immutable objects by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec


class Blob(msgspec.Struct, frozen=True, gc=False):
    name: str
    size_bytes: int
    modified_ms: int  # by the clock of the blobs


class Blobs(Protocol):
    """Objects by name. Raises Missing, Unavailable. An object is never changed, only put and deleted."""

    async def put(self, name: str, data: bytes) -> bool:
        """Durable when it answers. False: there is an object of this name, and it stays as it is."""
        ...

    async def get(self, name: str) -> bytes:
        """Raises Missing."""
        ...

    async def delete(self, name: str) -> None:
        """No complaint if it is gone."""
        ...

    def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        """Everything below a folder (a name up to a slash), some at a time, in no order."""
        ...
