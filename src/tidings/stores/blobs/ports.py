"""The ports of blobs: immutable objects by name, and the bytes of files, which are too large for memory."""

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
        """Store an object durably. False: an object of this name exists, and stays unchanged."""
        ...

    async def get(self, name: str) -> bytes:
        """Raises Missing."""
        ...

    async def delete(self, name: str) -> None:
        """Delete an object. It is no error if there is none."""
        ...

    def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        """List the objects below a folder (a name up to a slash), some at a time, in any order."""
        ...


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of an upload: the bytes from `start` up to, and without, `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Signed(msgspec.Struct, frozen=True):
    """A request that the client makes to the store itself, with no other right than this one."""

    url: str
    headers: dict[str, str] = {}


class FileBytes(Protocol):
    """The bytes of files. A file comes in parts, is finished once, and never changes after that.

    `folder` is the name of a file: its bytes are the objects below it. Raises Missing, Unavailable.
    """

    is_direct: bool  # clients exchange the bytes with the store itself, by signed URLs

    async def origin(self) -> str:
        """The origin of signed URLs, for a browser's policy; empty where bytes pass the node."""
        ...

    def parts(self, size: int) -> list[Part]:
        """The parts in which a file of this size is sent."""
        ...

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        """The requests that send the parts of a new file. Only where the store is direct."""
        ...

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        """A URL that reads one object. Only where the store is direct. A store that can sign how the object is shown
        answers with this type and this Content-Disposition."""
        ...

    async def write(self, folder: str, part: Part, chunks: AsyncIterator[bytes]) -> None:
        """Write a part, durably and as a whole or not at all. Only where the store is not direct. Raises BadSize."""
        ...

    async def put(self, folder: str, size: int, chunks: AsyncIterator[bytes]) -> None:
        """Store a whole, finished file of one part, for the server itself. Raises BadSize."""
        ...

    async def finish(self, folder: str, parts: Sequence[Part], mime: str) -> None:
        """Make the parts a file: no part can be sent any more. Raises Missing: a part is not whole."""
        ...

    def unfinished(self, folder: str) -> AsyncIterator[str]:
        """The names of objects at and below a folder that have parts only, where the list of blobs leaves them out."""
        ...

    async def abandon(self, folder: str) -> None:
        """Forget the parts of a file that was not finished, where the list of blobs leaves them out."""
        ...

    def read(self, folder: str, parts: Sequence[Part], start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes of a finished file from `start` up to `end`, a chunk at a time. Raises Missing."""
        ...


class BadSize(Exception):
    """More or fewer bytes came than the part has."""


async def no_names() -> AsyncIterator[str]:
    """For a store where every part that came is an object, which the list of blobs has."""
    names: tuple[str, ...] = ()
    for name in names:
        yield name
