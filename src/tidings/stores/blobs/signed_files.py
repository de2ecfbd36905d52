"""The bytes of files in an object store: they go past the node, by URLs that the node signs.

An upload is one request here, because the library signs whole objects, and neither parts of one nor how it is shown;
s3_files.py and azure_files.py add both. The object is put under `<folder>.new`. `finish` lets the store copy it to its
last name, so whoever still has the URL of the upload can no longer change the file. The node never touches the bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions

from tidings.bounds import FILE_CHUNK_BYTES
from tidings.errors import Missing
from tidings.stores.blobs.folder_files import NEW, object_of
from tidings.stores.blobs.obstore import as_store_error, asked
from tidings.stores.blobs.ports import BadSize, Part, Signed, no_names


class SignedFiles:
    is_direct = True

    def __init__(self, store: Any, upload_headers: dict[str, str]) -> None:
        self._store = store
        self._upload_headers = upload_headers  # that the store wants with a PUT, beside the type

    async def origin(self) -> str:
        parts = urlsplit(await self._sign("GET", "origin", 1))
        return f"{parts.scheme}://{parts.netloc}"

    def parts(self, size: int) -> list[Part]:
        return [Part(0, size)]

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        (part,) = parts
        url = await self._sign("PUT", object_of(folder + NEW, part), expires_s)
        return [Signed(url, {"Content-Type": mime, **self._upload_headers})]

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        return await self._sign("GET", name, expires_s)

    async def write(self, folder: str, part: Part, chunks: AsyncIterator[bytes]) -> None:
        raise AssertionError("clients write to the store themselves")

    async def put(self, folder: str, size: int, chunks: AsyncIterator[bytes]) -> None:
        name = object_of(folder, Part(0, size))
        await asked("put", self._store.put_async(name, chunks))
        if await self._size(name) != size:
            await asked("put", self._store.delete_async(name))
            raise BadSize

    async def finish(self, folder: str, parts: Sequence[Part], mime: str) -> None:
        name, new, size = object_of(folder, parts[0]), object_of(folder + NEW, parts[0]), parts[-1].end
        if await self._size(name) == size:
            return
        if await self._size(new) != size:
            await self._join(new, parts, mime)
        await asked("finish", self._store.copy_async(new, name))
        if await self._size(name) != size:  # the object was replaced at this very moment
            raise Missing("a part is not there", store="blobs", op="finish")
        await asked("finish", self._store.delete_async(new))

    def unfinished(self, folder: str) -> AsyncIterator[str]:
        return no_names()

    async def abandon(self, folder: str) -> None:
        pass  # what came is an object below `<folder>.new`

    async def read(self, folder: str, parts: Sequence[Part], start: int, end: int) -> AsyncIterator[bytes]:
        if start == end:
            return
        name = object_of(folder, parts[0])
        found = await asked("read", self._store.get_async(name, options={"range": (start, end)}))
        try:
            async for chunk in found.stream(min_chunk_size=FILE_CHUNK_BYTES):
                yield bytes(chunk)
        except (exceptions.BaseError, OSError) as error:
            raise as_store_error("read", error) from None

    async def _join(self, new: str, parts: Sequence[Part], mime: str) -> None:
        """Make one object of the parts that came. Raises Missing."""
        raise Missing("a part is not there", store="blobs", op="finish")

    async def _size(self, name: str) -> int | None:
        try:
            found = await asked("head", self._store.head_async(name))
        except Missing:
            return None
        size: int = found["size"]
        return size

    async def _sign(self, method: Any, name: str, expires_s: int) -> str:
        signed = obstore.sign_async(self._store, method, name, timedelta(seconds=expires_s))
        url: str = await asked("sign", signed)
        return url
