"""Profile pictures that people upload: made small by the process that looks at pictures, and served by the node.

The picture that is stored is the one that our own process wrote, never the bytes of a stranger. It has the digest of
its content in its name, so a browser keeps it for ever, and another picture has another name. The name of the folder is
a digest of the user id. A person has one picture: the one before goes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from tidings.errors import BadRequest, Missing, NotFound, TooLarge
from tidings.messaging.files.thumbnails import Look
from tidings.model import User
from tidings.stores.blobs.ports import Blobs
from tidings.stores.tables.ports import Accounts

PICTURES_PATH = "/v1/pictures/"
PICTURE_BYTES_MAX = 5 * 1024 * 1024  # of an upload: a photo of a phone
PICTURE_PIXELS = 256  # width or height of what is kept
_DIGEST = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(eq=False, repr=False)
class ProfilePictures:
    accounts: Accounts
    introduce: Callable[[User], Awaitable[None]]
    look: Look
    blobs: Blobs
    archive_id: Callable[[], Awaitable[str]]

    async def put(self, user_id: str, chunks: AsyncIterator[bytes]) -> str:
        """Make it the picture of the user, and return its path. Raises TooLarge, BadRequest."""
        if not self.look.is_possible:
            raise BadRequest("this server takes no pictures: it needs the extra `thumbnails`")
        small = await self.look.small(await _whole(chunks), PICTURE_PIXELS)
        if small is None:
            raise BadRequest("this is no picture that can be shown")
        name = hashlib.sha256(small).hexdigest()[:32]
        folder = await self._folder(_owner(user_id))
        await self.blobs.put(f"{folder}/{name}", small)
        path = f"{PICTURES_PATH}{_owner(user_id)}/{name}"
        await self._show(user_id, path)
        await self._clear(folder, but=name)
        return path

    async def remove(self, user_id: str) -> None:
        """Take the uploaded picture away, in the profile too."""
        user = await self.accounts.user(user_id)
        if user is not None and (user.avatar_url or "").startswith(PICTURES_PATH):
            await self._show(user_id, None)
        await self.forget(user_id)

    async def forget(self, user_id: str) -> None:
        """Remove the bytes alone."""
        await self._clear(await self._folder(_owner(user_id)))

    async def open(self, owner: str, name: str) -> bytes:
        """Raises NotFound."""
        if not _DIGEST.match(owner) or not _DIGEST.match(name):
            raise NotFound("no such picture")
        try:
            return await self.blobs.get(f"{await self._folder(owner)}/{name}")
        except Missing:
            raise NotFound("no such picture") from None

    async def _show(self, user_id: str, path: str | None) -> None:
        before = await self.accounts.user(user_id)
        await self.introduce(User(user_id=user_id, name=before.name if before else None, avatar_url=path))

    async def _folder(self, owner: str) -> str:
        return f"{await self.archive_id()}.pictures/{owner}"

    async def _clear(self, folder: str, but: str = "") -> None:
        async for chunk in self.blobs.list(folder):
            for blob in chunk:
                if blob.name.rpartition("/")[2] != but:
                    await self.blobs.delete(blob.name)


def _owner(user_id: str) -> str:
    return hashlib.sha256(user_id.encode()).hexdigest()[:32]


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > PICTURE_BYTES_MAX:
            raise TooLarge(f"a picture has {PICTURE_BYTES_MAX} bytes at most")
    return bytes(data)
