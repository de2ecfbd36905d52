from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.messaging.sharing import PIXEL, Sharing, sha256, sharing
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.bounds import FILE_PART_BYTES, Limit
from tidings.config.settings import Files, Limits, Settings
from tidings_proof.world.ports import free_port


async def test_parts_come_in_any_order_and_more_than_once(shared: Sharing) -> None:
    data = os.urandom(2 * FILE_PART_BYTES + 1)
    begun = await shared.begin(data, sha256=sha256(data))
    assert [(part["from"], part["to"]) for part in begun["parts"]] == [
        (0, FILE_PART_BYTES),
        (FILE_PART_BYTES, 2 * FILE_PART_BYTES),
        (2 * FILE_PART_BYTES, len(data)),
    ]
    begun["parts"] = [*reversed(begun["parts"]), begun["parts"][1]]
    await shared.send_parts(begun, data)
    status, file = await shared.ask("POST", f"/uploads/{begun['file_id']}/complete")
    assert (status, file["bytes"]) == (200, len(data))
    assert (await shared.read(begun["file_id"], "alice")).content == data


async def test_a_part_that_is_missing_can_still_be_sent(shared: Sharing) -> None:
    data = os.urandom(FILE_PART_BYTES + 9)
    begun = await shared.begin(data)
    first, second = begun["parts"]
    await shared.send_parts({"parts": [first]}, data)
    complete = f"/uploads/{begun['file_id']}/complete"
    assert (await shared.ask("POST", complete))[0] == 400
    await shared.send_parts({"parts": [second]}, data)
    assert (await shared.ask("POST", complete))[0] == (await shared.ask("POST", complete))[0] == 200


@pytest.mark.parametrize("sent", [b"", PIXEL[:-1], PIXEL + b"x"], ids=["nothing", "too little", "too much"])
async def test_a_part_of_another_size_is_refused_whole(shared: Sharing, sent: bytes) -> None:
    begun = await shared.begin(PIXEL)
    answer = await shared.http.put(begun["parts"][0]["url"], content=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert shared.objects() == []


async def test_nothing_can_be_changed_after_complete(shared: Sharing) -> None:
    begun = await shared.begin(PIXEL)
    await shared.send_parts(begun, PIXEL)
    await shared.ask("POST", f"/uploads/{begun['file_id']}/complete")
    answer = await shared.http.put(begun["parts"][0]["url"], content=b"x" * len(PIXEL))
    assert answer.status_code == 400
    assert (await shared.read(begun["file_id"], "alice")).content == PIXEL


async def test_bytes_with_another_digest_are_refused(shared: Sharing) -> None:
    begun = await shared.begin(PIXEL, sha256=sha256(b"another"))
    await shared.send_parts(begun, PIXEL)
    status, body = await shared.ask("POST", f"/uploads/{begun['file_id']}/complete")
    assert status == 400 and "sha256" in body["error"]["message"]
    assert (await shared.say(begun["file_id"]))[0] == 400


async def test_bytes_with_another_digest_are_hashed_once_and_go(shared: Sharing) -> None:
    begun = await shared.begin(PIXEL, sha256=sha256(b"another"))
    await shared.send_parts(begun, PIXEL)
    complete = f"/uploads/{begun['file_id']}/complete"
    assert [(await shared.ask("POST", complete))[0] for _ in range(3)] == [400, 404, 404]
    assert (await shared.http.put(begun["parts"][0]["url"], content=PIXEL)).status_code == 404
    await shared.sweep()
    assert shared.objects() == []


@pytest.mark.parametrize("size", [9, FILE_PART_BYTES + 9], ids=["one part", "two parts"])
async def test_bytes_in_s3_have_the_digest_that_was_announced(s3: S3Server, s3_credentials: None, size: int) -> None:
    data = os.urandom(size)
    async with sharing(Settings(blobs=s3.url("digests"))) as shared:
        assert await shared.upload(data, sha256=sha256(data))
        begun = await shared.begin(data, sha256=sha256(b"another"))
        await shared.send_parts(begun, data)
        status, body = await shared.ask("POST", f"/uploads/{begun['file_id']}/complete")
        assert status == 400 and "sha256" in body["error"]["message"]
        assert (await shared.say(begun["file_id"]))[0] == 400


async def test_an_upload_that_cannot_begin_takes_nothing_from_the_day(
    s3_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.bounds.BLOBS_RETRIES", 1)
    nobody = f"s3://bucket/files?endpoint=http://127.0.0.1:{free_port()}&region=eu-west-1"
    body = {"name": "a", "mime": "image/png", "bytes": FILE_PART_BYTES + 1}
    async with sharing(Settings(blobs=nobody, files=Files(per_day_bytes=FILE_PART_BYTES + 1))) as shared:
        for _ in range(2):
            status, answer = await shared.ask("POST", "/uploads", body)
            assert (status, answer["error"]["code"]) == (503, "unavailable")


async def test_a_stranger_can_neither_begin_nor_complete(shared: Sharing) -> None:
    body = {"name": "a", "mime": "text/plain", "bytes": 1}
    assert (await shared.ask("POST", "/uploads", body, "eve"))[0] == 404
    begun = await shared.begin(PIXEL)
    await shared.send_parts(begun, PIXEL)
    for user_id in ("bob", "eve"):
        assert (await shared.ask("POST", f"/uploads/{begun['file_id']}/complete", user_id=user_id))[0] == 404


async def test_an_empty_file_can_be_sent(shared: Sharing) -> None:
    file_id = await shared.upload(b"", name="empty.txt", mime="text/plain")
    assert (await shared.say(file_id))[0] == 201
    assert (await shared.read(file_id)).content == b""


async def test_the_operator_decides_on_size_and_type() -> None:
    async with sharing(Settings(files=Files(max_bytes=10, types=("image/*", "text/plain")))) as shared:
        body = {"name": "a", "mime": "image/png", "bytes": 11}
        status, answer = await shared.ask("POST", "/uploads", body)
        assert (status, answer["error"]["code"]) == (413, "too_large")
        assert (await shared.ask("POST", "/uploads", body | {"bytes": 10}))[0] == 201
        assert (await shared.ask("POST", "/uploads", body | {"bytes": 1, "mime": "Text/Plain"}))[0] == 201
        status, answer = await shared.ask("POST", "/uploads", body | {"bytes": 1, "mime": "text/html"})
        assert (status, answer["error"]["code"]) == (400, "bad_request")


async def test_of_uploads_at_the_same_moment_only_as_many_pass_as_the_day_has_bytes() -> None:
    async with sharing(Settings(files=Files(per_day_bytes=50))) as shared:
        body = {"name": "a", "mime": "image/png", "bytes": 10}
        answers = await asyncio.gather(*(shared.ask("POST", "/uploads", body) for _ in range(8)))
        assert sorted(status for status, _ in answers) == [201] * 5 + [429] * 3
        refused = next(answer for status, answer in answers if status == 429)
        assert refused["error"]["retry_after_ms"] > 0
        assert (await shared.ask("POST", "/uploads", body, "bob"))[0] == 201


async def test_uploads_have_a_limit_of_their_own() -> None:
    async with sharing(Settings(limits=Limits(upload=Limit(2, 60)))) as shared:
        body = {"name": "a", "mime": "image/png", "bytes": 1}
        statuses = [(await shared.ask("POST", "/uploads", body))[0] for _ in range(3)]
        assert statuses == [201, 201, 429]
        assert (await shared.ask("POST", "/messages", {"text": "hi"}))[0] == 201


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "mime": "a/b", "bytes": 1},
        {"name": "a/b", "mime": "a/b", "bytes": 1},
        {"name": "a\u202eb", "mime": "a/b", "bytes": 1},
        {"name": "a", "mime": "ab", "bytes": 1},
        {"name": "a", "mime": "a/b\r\nx: y", "bytes": 1},
        {"name": "a", "mime": "a/b", "bytes": -1},
        {"name": "a", "mime": "a/b", "bytes": 1, "sha256": "x"},
        {"name": "a", "mime": "a/b", "bytes": 1, "more": 1},
    ],
)
async def test_an_announcement_of_another_form_is_refused(shared: Sharing, body: object) -> None:
    status, answer = await shared.ask("POST", "/uploads", body)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
