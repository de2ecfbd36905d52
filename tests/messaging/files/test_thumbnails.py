from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.messaging.bombs import BOMBS
from tests.support.messaging.sharing import Sharing, sharing
from tidings.messaging.files.thumbnails import Look

Image = pytest.importorskip("PIL.Image", reason="the extra `thumbnails` is not installed")


@pytest.fixture
async def shared() -> AsyncIterator[Sharing]:
    async with sharing() as made:
        yield made


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, kind)
    return out.getvalue()


async def test_a_picture_gets_its_size_and_a_small_one(shared: Sharing) -> None:
    file_id = await shared.upload(picture(1200, 600))
    await shared.say(file_id)
    (message,) = await shared.messages()
    assert (message["files"][0]["width"], message["files"][0]["height"]) == (1200, 600)
    answers = [await shared.read(file_id, query="/thumbnail?size=320") for _ in range(2)]
    assert {answer.headers["content-type"] for answer in answers} == {"image/webp"}
    assert Image.open(io.BytesIO(answers[0].content)).size == (320, 160)
    assert answers[0].content == answers[1].content


async def test_a_stranger_gets_no_thumbnail_and_a_delete_takes_it(shared: Sharing) -> None:
    file_id = await shared.upload(picture(400, 400))
    await shared.say(file_id)
    assert (await shared.read(file_id, query="/thumbnail")).status_code == 200
    assert (await shared.read(file_id, "eve", query="/thumbnail")).status_code == 404
    assert len(shared.objects()) == 2
    await shared.ask("DELETE", "/messages/1")
    await shared.sweep()
    assert shared.objects() == []
    assert (await shared.read(file_id, query="/thumbnail")).status_code == 404


NO_PICTURES = {**BOMBS, "no picture": b"<svg/>", "nothing": b"", "cut": picture(9, 9)[:40]}


@pytest.mark.parametrize("data", NO_PICTURES.values(), ids=NO_PICTURES)
async def test_what_is_no_picture_has_no_thumbnail_and_is_kept_as_it_is(shared: Sharing, data: bytes) -> None:
    file_id = await shared.upload(data, name="bomb.png")
    await shared.say(file_id)
    status, body = await shared.ask("GET", f"/files/{file_id}/thumbnail", user_id="bob")
    assert (status, body["error"]["code"]) == (404, "not_found")
    assert (await shared.read(file_id)).content == data


async def test_a_thumbnail_has_one_of_a_few_sizes(shared: Sharing) -> None:
    file_id = await shared.upload(picture(10, 10))
    assert (await shared.ask("GET", f"/files/{file_id}/thumbnail?size=321"))[0] == 400


async def test_without_pillow_the_answer_says_so(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    file_id = await shared.upload(picture(10, 10))
    look: Any = Look(shared.core.files, is_possible=False)
    monkeypatch.setattr(shared.core.filing.thumbnails, "look", look)
    status, body = await shared.ask("GET", f"/files/{file_id}/thumbnail")
    assert status == 404 and "thumbnails" in body["error"]["message"]
