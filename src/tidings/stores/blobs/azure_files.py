"""The bytes of files in Azure. A file of several parts is put as blocks, so after a cut one block goes again.

The right that the library signs is for the whole blob, so a client may do with `<folder>.new` what it likes, for a day.
The node lists the blocks that came, joins them, and lets the store copy the result to the last name of the file.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.folder_files import NEW, object_of, parts_of
from tidings.stores.blobs.obstore import asked
from tidings.stores.blobs.ports import Part, Signed
from tidings.stores.blobs.signed_files import SignedFiles
from tidings.stores.blobs.signed_requests import SignedRequests, named, texts

_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
_SIGNED = (  # in this order
    *("sp", "st", "se", "RESOURCE", "si", "sip", "spr", "sv", "sr", "snapshot", "ses"),
    *("rscc", "rscd", "rsce", "rscl", "rsct"),
)
_REQUEST_S = 300  # a URL that the node signs for itself lives so long: all tries of a request


class AzureFiles(SignedFiles):
    def __init__(self, store: Any, clock: Clock) -> None:
        super().__init__(store, {"x-ms-blob-type": "BlockBlob"})  # Azure refuses a PUT that does not say what it makes
        self._requests = SignedRequests(clock)
        self._account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        self._key = next((os.environ[name] for name in _KEYS if os.environ.get(name)), "")

    def parts(self, size: int) -> list[Part]:
        return parts_of(size)

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        if len(parts) == 1:
            return await super().sign_parts(folder, parts, mime, expires_s=expires_s)
        url = await self._sign("PUT", object_of(folder + NEW, parts[0]), expires_s)
        return [Signed(f"{url}&comp=block&blockid={quote(block_id(part), safe='')}") for part in parts]

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        """Sign the library's URL again, with how the blob is shown. Without the account's key it stays as it is."""
        parts = urlsplit(await self._sign("GET", name, expires_s))
        asked = dict(parse_qsl(parts.query))
        if asked.get("sig") == self._signature(name, asked):
            asked |= {"rscd": disposition, "rsct": mime}
            asked["sig"] = self._signature(name, asked)
        return parts._replace(query=urlencode(asked, quote_via=quote)).geturl()

    async def abandon(self, folder: str) -> None:
        """Put an empty blob in place of the blocks, and delete it. Azure itself forgets blocks after a week."""
        name = object_of(folder + NEW, Part(0, 0))
        await asked("abandon", self._store.put_async(name, b"", use_multipart=False))
        await asked("abandon", self._store.delete_async(name))

    def _signature(self, name: str, asked: Mapping[str, str]) -> str:
        path = "/".join(filter(None, (self._account, self._store.config["container_name"], self._store.prefix, name)))
        signed = {**asked, "RESOURCE": f"/blob/{path}"}
        text = "\n".join(signed.get(field, "") for field in _SIGNED)
        return base64.b64encode(hmac.digest(base64.b64decode(self._key), text.encode(), "sha256")).decode()

    async def _join(self, new: str, parts: Sequence[Part], mime: str) -> None:
        url = await self._sign("GET", new, _REQUEST_S)
        said = await self._requests.ask("blocks", "GET", f"{url}&comp=blocklist&blocklisttype=uncommitted")
        came = {next(texts(block, "Name")): int(next(texts(block, "Size"))) for block in named(said, "Block")}
        ids = [block_id(part) for part in parts]
        if [came.get(one) for one in ids] != [part.size for part in parts]:
            raise Missing("a part is not there", store="blobs", op="finish")
        body = f"<BlockList>{''.join(f'<Uncommitted>{one}</Uncommitted>' for one in ids)}</BlockList>".encode()
        url = await self._sign("PUT", new, _REQUEST_S)
        await self._requests.ask("join", "PUT", f"{url}&comp=blocklist", {"x-ms-blob-content-type": mime}, body)


def block_id(part: Part) -> str:
    """The name of a block. All blocks of a blob have names of the same length."""
    return base64.b64encode(f"{part.start:016d}".encode()).decode()
