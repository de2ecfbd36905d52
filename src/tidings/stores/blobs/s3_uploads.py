"""Uploads in parts to S3: begun, listed, completed and aborted by the node, and sent by clients with signed URLs.

The URL of a part binds its number and its length, so nobody sends more than was announced. S3 itself is asked which
uploads and parts there are: nothing of an upload is remembered here or in the tables. The library signs the place of an
object, because it knows the rules of endpoints and buckets. Only the parameters are signed here. The node signs its own
requests in their headers, because Google's store takes no signed URL that makes a POST.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tidings.clock import Clock
from tidings.stores.aws.keys import Keys
from tidings.stores.aws.signatures import Signer, encoded_query
from tidings.stores.blobs.signed_requests import SignedRequests, named, texts


class UploadedPart(NamedTuple):
    size: int
    etag: str


class S3Uploads:
    def __init__(self, url_of: Callable[[str], Awaitable[str]], prefix: str, keys: Keys, clock: Clock) -> None:
        self._url_of = url_of  # name of an object -> a URL that the library has signed
        self._prefix = f"{prefix}/" if prefix else ""
        self._keys = keys
        self._clock = clock
        self._signer: Signer | None = None
        self._requests = SignedRequests(clock)

    async def begin(self, name: str, mime: str) -> str:
        """Begin an upload. Returns its id."""
        said = await self._ask("begin", "POST", await self._place(name), {"uploads": ""}, {"content-type": mime})
        return _text(said, "UploadId")

    async def sign_part(self, name: str, upload_id: str, number: int, size: int, expires_s: int) -> str:
        query = {"partNumber": str(number), "uploadId": upload_id}
        return await self._sign("PUT", name, query, {"content-length": str(size)}, expires_s)

    async def sign_read(self, name: str, mime: str, disposition: str, expires_s: int) -> str:
        query = {"response-content-type": mime, "response-content-disposition": disposition}
        return await self._sign("GET", name, query, {}, expires_s)

    async def list(self, below: str) -> AsyncIterator[tuple[str, str]]:
        """The name and the id of each upload under way whose name begins so."""
        place = urlsplit(await self._place("x"))
        bucket = place.path.rsplit("/", self._prefix.count("/") + 1)[0] or "/"
        markers: dict[str, str] = {}
        while True:
            query = {"uploads": "", "prefix": self._prefix + below, **markers}
            said = await self._ask("list", "GET", place._replace(path=bucket).geturl(), query)
            for upload in named(said, "Upload"):
                yield _text(upload, "Key").removeprefix(self._prefix), _text(upload, "UploadId")
            if _text(said, "IsTruncated") != "true":
                return
            markers = {
                "key-marker": _text(said, "NextKeyMarker"),
                "upload-id-marker": _text(said, "NextUploadIdMarker"),
            }

    async def parts(self, name: str, upload_id: str) -> dict[int, UploadedPart]:
        """The parts that came, by their number; at most 1,000. Raises Missing."""
        said = await self._ask("parts", "GET", await self._place(name), {"uploadId": upload_id})
        return {
            int(_text(part, "PartNumber")): UploadedPart(int(_text(part, "Size")), _text(part, "ETag"))
            for part in named(said, "Part")
        }

    async def complete(self, name: str, upload_id: str, parts: Mapping[int, UploadedPart]) -> None:
        """Make the object of these parts. Raises Missing: it was completed or aborted before."""
        lines = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(part.etag)}</ETag></Part>"
            for number, part in sorted(parts.items())
        )
        body = f"<CompleteMultipartUpload>{lines}</CompleteMultipartUpload>".encode()
        await self._ask("complete", "POST", await self._place(name), {"uploadId": upload_id}, body=body)

    async def abort(self, name: str, upload_id: str) -> None:
        """Raises Missing: there is no such upload."""
        await self._ask("abort", "DELETE", await self._place(name), {"uploadId": upload_id})

    async def _ask(
        self,
        op: str,
        method: str,
        url: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> ElementTree.Element:
        assert self._signer is not None
        url = f"{url}?{encoded_query(query)}"
        signed = self._signer.headers(await self._keys.key(), method, url, headers or {}, body)
        return await self._requests.ask(op, method, url, signed, body)

    async def _place(self, name: str) -> str:
        """The URL of an object, with nothing signed. The library also knows the region."""
        parts = urlsplit(await self._url_of(name))
        if self._signer is None:
            region = parse_qs(parts.query)["X-Amz-Credential"][0].split("/")[-3]
            self._signer = Signer("s3", region, self._clock)
        return parts._replace(query="").geturl()

    async def _sign(
        self, method: str, name: str, query: Mapping[str, str], headers: Mapping[str, str], expires_s: int
    ) -> str:
        url = await self._place(name)
        assert self._signer is not None
        return self._signer.url(await self._keys.key(), method, url, query, headers, expires_s)


def _text(element: ElementTree.Element, name: str) -> str:
    """The text of the first element of this name, or nothing."""
    return next(texts(element, name), "")
