"""Blobs of a simulated world: the port over a dict that all nodes share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.ports import Blob
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
