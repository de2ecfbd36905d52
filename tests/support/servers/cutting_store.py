"""An object store behind a network that is cut: once in each upload, in the middle of a part or before its answer.

The first upload is cut in the middle of its first part, the second before the answer to its second, and so on: six
uploads of three parts are cut in all ways. `sent` has the numbers of the parts that were begun, for each upload.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.servers.azurite import CREDENTIALS as AZURE
from tests.support.servers.azurite import Azurite
from tests.support.servers.moto_server import CREDENTIALS as S3
from tests.support.servers.moto_server import GOOGLE_CREDENTIALS as GOOGLE
from tests.support.servers.moto_server import S3Server
from tests.support.servers.store_front import Request, StoreFront, fronted
from tidings.bounds import FILE_PART_BYTES

PARTS = 3
KINDS = [  # a store, and the number of uploads. Google's is asked as S3 is, and refuses more.
    *(("google", 2), ("azure", 2)),
    *(pytest.param(kind, 6, marks=pytest.mark.long) for kind in ("s3", "google", "azure")),
]
CREDENTIALS = {**S3, **GOOGLE, **AZURE}


class CuttingStore(StoreFront):
    def __init__(self, target: int) -> None:
        super().__init__(target)
        self._cut: set[str] = set()  # uploads that were cut
        self.sent: dict[str, list[int]] = {}  # upload -> numbers of parts

    def check(self, uploads: int) -> None:
        """So many uploads came, each with one part twice: the one that was cut."""
        expected = [sorted([1, 2, 3, number % PARTS + 1]) for number in range(uploads)]
        assert [sorted(parts) for parts in self.sent.values()] == expected, self.sent

    def where(self, request: Request) -> str:
        if request.method != "PUT" or (part := _part_of(request)) is None:
            return ""
        upload, number = part
        self.sent.setdefault(upload, []).append(number)
        at = list(self.sent).index(upload)
        if upload in self._cut or number != at % PARTS + 1:
            return ""
        self._cut.add(upload)
        return "middle" if at % 2 == 0 else "answer"


def _part_of(request: Request) -> tuple[str, int] | None:
    """The upload and the number of a part, in S3 and in Azure."""
    if "partNumber" in request.query:
        return request.query["uploadId"], int(request.query["partNumber"])
    if request.query.get("comp") == "block":
        return request.path, int(base64.b64decode(request.query["blockid"])) // FILE_PART_BYTES + 1
    return None


@asynccontextmanager
async def cutting(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[CuttingStore]:
    """The store of a kind behind such a network: "s3", "google" or "azure". Its keys are in the environment."""
    store: S3Server | Azurite = request.getfixturevalue("azurite" if kind == "azure" else "s3")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = store.google_url("cut") if kind == "google" and isinstance(store, S3Server) else store.url("cut")
    async with fronted(store, url, CuttingStore) as cut:
        yield cut
