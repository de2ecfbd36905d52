"""Blobs of a simulated world: the ports over a dict that all nodes share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.folder_files import NEW, object_of, parts_of
from tidings.stores.blobs.ports import BadSize, Blob, Part, Signed, no_names
from tidings_proof.simulation.stores import Wire


class SimBlobs:
    """The port Blobs over a dict that all nodes share."""

    def __init__(self, wire: Wire, objects: dict[str, Blob], data: dict[str, bytes], clock: Clock) -> None:
        self._wire = wire
        self._objects = objects
        self._data = data
        self._clock = clock

    async def put(self, name: str, data: bytes) -> bool:
        def put(fate: str) -> bool:
            if fate == "half" or name in self._data:
                return False
            self._data[name] = bytes(data)
            self._objects[name] = Blob(name, len(data), self._clock.now_ms())
            return True

        is_put: bool = await self._wire.ask(put)
        return is_put

    async def get(self, name: str) -> bytes:
        def get(fate: str) -> bytes:
            if name not in self._data:
                raise Missing(f"there is no object {name}")
            return self._data[name]

        found: bytes = await self._wire.ask(get)
        return found

    async def delete(self, name: str) -> None:
        def delete(fate: str) -> None:
            if fate != "half":
                self._data.pop(name, None)
                self._objects.pop(name, None)

        await self._wire.ask(delete)

    async def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        found: Sequence[Blob] = await self._wire.ask(
            lambda fate: [blob for name, blob in sorted(self._objects.items()) if name.startswith(f"{folder}/")]
        )
        if found:
            yield found


class SimFiles:
    """The port FileBytes over the same dict: bytes pass the node, as with a folder."""

    is_direct = False

    def __init__(self, wire: Wire, objects: dict[str, Blob], data: dict[str, bytes], clock: Clock) -> None:
        self._wire = wire
        self._objects = objects
        self._data = data
        self._clock = clock

    async def origin(self) -> str:
        return ""

    def parts(self, size: int) -> list[Part]:
        return parts_of(size)

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        raise AssertionError("clients write through the node")

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        raise AssertionError("clients read through the node")

    async def write(self, folder: str, part: Part, chunks: AsyncIterator[bytes]) -> None:
        data = b"".join([chunk async for chunk in chunks])
        if len(data) != part.size:
            raise BadSize

        def write(fate: str) -> None:
            if fate != "half":
                self._store(object_of(folder + NEW, part), data)

        await self._wire.ask(write)

    async def put(self, folder: str, size: int, chunks: AsyncIterator[bytes]) -> None:
        whole = Part(0, size)
        await self.write(folder, whole, chunks)
        await self.finish(folder, [whole], "")

    async def finish(self, folder: str, parts: Sequence[Part], mime: str) -> None:
        def finish(fate: str) -> None:
            if self._is_whole(folder, parts):
                return
            if not self._is_whole(folder + NEW, parts):
                raise Missing("a part is not there")
            if fate != "half":
                for part in parts:
                    self._objects.pop(object_of(folder + NEW, part))
                    self._store(object_of(folder, part), self._data.pop(object_of(folder + NEW, part)))

        await self._wire.ask(finish)

    def unfinished(self, folder: str) -> AsyncIterator[str]:
        return no_names()

    async def abandon(self, folder: str) -> None:
        pass

    async def read(self, folder: str, parts: Sequence[Part], start: int, end: int) -> AsyncIterator[bytes]:
        def read(fate: str) -> bytes:
            if not self._is_whole(folder, parts):
                raise Missing("a part is not there")
            return b"".join(self._data[object_of(folder, part)] for part in parts)[start:end]

        found: bytes = await self._wire.ask(read)
        if found:
            yield found

    def _store(self, name: str, data: bytes) -> None:
        self._data[name] = data
        self._objects[name] = Blob(name, len(data), self._clock.now_ms())

    def _is_whole(self, folder: str, parts: Sequence[Part]) -> bool:
        return all(len(self._data.get(object_of(folder, part), b"-" * (part.size + 1))) == part.size for part in parts)
