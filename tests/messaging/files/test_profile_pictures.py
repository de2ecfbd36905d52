"""Profile pictures that people upload: made small, one for each person, and gone with the person."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadRequest, NotFound, TooLarge
from tidings.messaging.files.profile_pictures import PICTURE_BYTES_MAX, PICTURES_PATH
from tidings.model import User

Image = pytest.importorskip("PIL.Image")


def picture(color: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (600, 400), color).save(out, "PNG")
    return out.getvalue()


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1_000):
        yield data[at : at + 1_000]


def objects(folder: Path) -> list[Path]:
    return [path for path in folder.glob("blobs/*.pictures/*/*") if path.is_file()]


async def test_a_picture_is_made_small_and_replaces_the_one_before(a: FaultyNode, tmp_path: Path) -> None:
    pictures = a.core.profile_pictures
    await a.core.directory.introduce(User(user_id="ann", name="Ann"))
    first = await pictures.put("ann", chunks(picture("red")))
    second = await pictures.put("ann", chunks(picture("blue")))
    user = await a.tables.accounts.user("ann")
    assert user is not None and (user.name, user.avatar_url) == ("Ann", second) and first != second
    owner, name = second.removeprefix(PICTURES_PATH).split("/")
    with Image.open(io.BytesIO(await pictures.open(owner, name))) as shown:
        assert (shown.format, max(shown.size)) == ("WEBP", 256)
    with pytest.raises(NotFound):
        await pictures.open(*first.removeprefix(PICTURES_PATH).split("/"))
    assert len(objects(tmp_path)) == 1
    await pictures.remove("ann")
    user = await a.tables.accounts.user("ann")
    assert user is not None and (user.name, user.avatar_url) == ("Ann", None) and objects(tmp_path) == []


async def test_only_a_picture_of_some_size_is_taken(a: FaultyNode) -> None:
    pictures = a.core.profile_pictures
    with pytest.raises(BadRequest, match="no picture"):
        await pictures.put("ann", chunks(b"<svg onload=alert(1)>"))
    with pytest.raises(TooLarge):
        await pictures.put("ann", chunks(b"x" * (PICTURE_BYTES_MAX + 1)))
    for owner, name in (("..", "x"), ("0" * 32, "0" * 32), ("0" * 32, "../../auth.secret")):
        with pytest.raises(NotFound):
            await pictures.open(owner, name)


async def test_an_erased_person_has_no_picture(a: FaultyNode, tmp_path: Path) -> None:
    await a.core.profile_pictures.put("ann", chunks(picture("red")))
    await a.core.erasing.run((await a.core.erasing.begin("ann", "remove")).job_id)
    assert objects(tmp_path) == []
