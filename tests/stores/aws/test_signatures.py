from __future__ import annotations

import datetime

import pytest

from tests.support.servers.http_server import Heard, serve
from tidings.clock import Clock
from tidings.stores.aws.keys import FixedKey
from tidings.stores.aws.profiles import ProfileKey
from tidings.stores.aws.signatures import Signer
from tidings.stores.blobs.s3_uploads import S3Uploads, UploadedPart

auth = pytest.importorskip("botocore.auth", reason="the extra `aws` is not installed")
awsrequest = pytest.importorskip("botocore.awsrequest")
credentials = pytest.importorskip("botocore.credentials")

AT_S = 1_440_938_160


def theirs(monkeypatch: pytest.MonkeyPatch, key: ProfileKey, method: str, url: str, headers: dict[str, str]) -> str:
    """The URL that botocore signs at the same time."""
    at = datetime.datetime.fromtimestamp(AT_S, datetime.UTC)
    monkeypatch.setattr(auth, "get_current_datetime", lambda remove_tzinfo=True: at.replace(tzinfo=None))
    request = awsrequest.AWSRequest(method=method, url=url, headers=headers)
    made = credentials.Credentials(key.id, key.secret, key.token)
    auth.S3SigV4QueryAuth(made, "s3", "eu-west-1", expires=60).add_auth(request)
    signed: str = request.url
    return signed


@pytest.mark.parametrize("token", [None, "a+token/with=signs"], ids=["a key", "a key of a session"])
@pytest.mark.parametrize(
    ("method", "query", "headers"),
    [
        ("PUT", {"partNumber": "2", "uploadId": "a b/c+d~e"}, {"content-length": "5242880"}),
        (
            "GET",
            {"response-content-disposition": "inline; filename*=UTF-8''%C3", "response-content-type": "a/b"},
            {},
        ),
    ],
    ids=["a part", "a download"],
)
def test_a_signed_url_is_the_one_that_another_client_makes(
    monkeypatch: pytest.MonkeyPatch, token: str | None, method: str, query: dict[str, str], headers: dict[str, str]
) -> None:
    clock, key = Clock(), ProfileKey("AKIDEXAMPLE", "a-secret", token, None)
    monkeypatch.setattr(clock, "now_ms", lambda: AT_S * 1000)
    url = "http://127.0.0.1:9000/bucket/pre%20fix/%C3%A4/0000"
    ours = Signer("s3", "eu-west-1", clock).url(key, method, url, query, headers, 60)
    asked = "&".join(f"{auth.quote(name)}={auth.quote(value, safe='-_.~')}" for name, value in query.items())
    expected = theirs(monkeypatch, key, method, f"{url}?{asked}", headers)
    assert split(ours) == split(expected)


def split(url: str) -> tuple[str, list[str]]:
    """A URL without the order of its parameters."""
    path, _, query = url.partition("?")
    return path, sorted(query.split("&"))


@pytest.mark.parametrize("token", [None, "a+token/with=signs"], ids=["a key", "a key of a session"])
async def test_a_request_on_the_wire_has_the_signature_that_another_client_makes(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """Every request of the node for an upload in parts, as a store hears it."""
    heard: list[Heard] = []

    def answer(request: Heard) -> tuple[int, str]:
        heard.append(request)
        return 200, "<R><UploadId>a b/c+d~e</UploadId><IsTruncated>false</IsTruncated></R>"

    async with serve(answer) as url:

        async def url_of(name: str) -> str:
            return f"{url}bucket/pre%20fix/{name}?X-Amz-Credential=id%2F20260101%2Feu-west-1%2Fs3%2Faws4_request"

        uploads = S3Uploads(url_of, "pre fix", FixedKey("AKIDEXAMPLE", "a-secret", token), Clock())
        upload_id = await uploads.begin("a/0", "text/plain; charset=utf-8")
        await uploads.parts("a/0", upload_id)
        await uploads.complete("a/0", upload_id, {1: UploadedPart(5, '"etag"')})
        await uploads.abort("a/0", upload_id)
        assert [one async for one in uploads.list("a/ä")] == []
    assert [one.method for one in heard] == ["POST", "GET", "POST", "DELETE", "GET"]
    for one in heard:
        signed = one.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        assert ("x-amz-security-token" in signed) == (token is not None)
        request = awsrequest.AWSRequest(
            method=one.method, url=url.rstrip("/") + one.target, data=one.body, headers=sent_by_us(one, signed)
        )
        at = datetime.datetime.strptime(one.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        monkeypatch.setattr(auth, "get_current_datetime", lambda remove_tzinfo=True, at=at: at)
        made = credentials.Credentials("AKIDEXAMPLE", "a-secret", token)
        auth.S3SigV4Auth(made, "s3", "eu-west-1").add_auth(request)
        assert request.headers["Authorization"] == one.headers["authorization"]


def sent_by_us(heard: Heard, signed: list[str]) -> dict[str, str]:
    return {name: heard.headers[name] for name in signed if not name.startswith("x-amz-") and name != "host"}
