"""Uploads under way, from a store that lists them in pages: moto lists all at once. The rest is in test_s3_files.py."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from tests.support.servers.http_server import Heard, serve
from tidings.clock import Clock
from tidings.stores.aws.keys import FixedKey
from tidings.stores.blobs.s3_uploads import S3Uploads


def page(number: int, *, is_last: bool) -> str:
    more = (
        "" if is_last else f"<NextKeyMarker>k{number}</NextKeyMarker><NextUploadIdMarker>u{number}</NextUploadIdMarker>"
    )
    upload = f"<Upload><Key>pre/fix/a/{number}</Key><UploadId>u{number}</UploadId></Upload>"
    return f"<R><IsTruncated>{'false' if is_last else 'true'}</IsTruncated>{more}{upload}</R>"


async def test_all_pages_of_uploads_are_read_at_the_place_of_the_bucket() -> None:
    heard: list[Heard] = []

    def answer(request: Heard) -> tuple[int, str]:
        heard.append(request)
        return 200, page(len(heard), is_last=len(heard) == 3)

    async with serve(answer) as url:

        async def url_of(name: str) -> str:
            return f"{url}bucket/pre/fix/{name}?X-Amz-Credential=id%2F20260101%2Feu-west-1%2Fs3%2Faws4_request"

        keys = FixedKey("id", "secret")
        found = [one async for one in S3Uploads(url_of, "pre/fix", keys, Clock()).list("a/")]
    assert found == [("a/1", "u1"), ("a/2", "u2"), ("a/3", "u3")]
    asked = [parse_qs(urlsplit(one.target).query, keep_blank_values=True) for one in heard]
    assert {urlsplit(one.target).path for one in heard} == {"/bucket"}
    assert [one.get("key-marker") for one in asked] == [None, ["k1"], ["k2"]]
    assert all(one["prefix"] == ["pre/fix/a/"] and one["uploads"] == [""] for one in asked)
    assert "/eu-west-1/s3/aws4_request" in heard[0].headers["authorization"]
