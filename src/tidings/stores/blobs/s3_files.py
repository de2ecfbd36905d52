"""The bytes of files in S3, and in Google's store, which speaks S3's protocol. Every file is a multipart upload.

The upload is begun under the last name of the file: the store shows nothing there until `finish`, and takes no part
after it. The node says the type when the upload begins, so the uploader cannot choose another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.aws.keys import Keys
from tidings.stores.blobs.folder_files import object_of, parts_of
from tidings.stores.blobs.ports import Part, Signed
from tidings.stores.blobs.s3_uploads import S3Uploads
from tidings.stores.blobs.signed_files import SignedFiles


class S3Files(SignedFiles):
    def __init__(self, store: Any, keys: Keys, clock: Clock) -> None:
        super().__init__(store, {})
        self._uploads = S3Uploads(lambda name: self._sign("GET", name, 1), store.prefix or "", keys, clock)

    def parts(self, size: int) -> list[Part]:
        return parts_of(size)

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        name = object_of(folder, parts[0])
        upload_id = await self._uploads.begin(name, mime)
        return [
            Signed(await self._uploads.sign_part(name, upload_id, number, part.size, expires_s))
            for number, part in enumerate(parts, 1)
        ]

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        return await self._uploads.sign_read(name, mime, disposition, expires_s)

    async def finish(self, folder: str, parts: Sequence[Part], mime: str) -> None:
        name, size = object_of(folder, parts[0]), parts[-1].end
        if await self._size(name) == size:
            return
        with suppress(Missing):  # it was finished at this very moment, or a day after it began
            await self._complete(name, parts)
        if await self._size(name) != size:
            raise Missing("a part is not there", store="blobs", op="finish")

    async def unfinished(self, folder: str) -> AsyncIterator[str]:
        async for name, _ in self._uploads.list(f"{folder}/"):
            yield name

    async def abandon(self, folder: str) -> None:
        name = object_of(folder, Part(0, 0))
        async for found, upload_id in self._uploads.list(name):
            if found == name:
                with suppress(Missing):
                    await self._uploads.abort(name, upload_id)

    async def _complete(self, name: str, parts: Sequence[Part]) -> None:
        """Complete the upload that has all parts. There are two when the answer to its beginning was lost."""
        sizes = {number: part.size for number, part in enumerate(parts, 1)}
        async for found, upload_id in self._uploads.list(name):
            came = await self._uploads.parts(name, upload_id) if found == name else {}
            if {number: part.size for number, part in came.items()} == sizes:
                return await self._uploads.complete(name, upload_id, came)
