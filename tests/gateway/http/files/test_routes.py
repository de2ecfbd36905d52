from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.sharing import PIXEL, Sharing, sharing


@pytest.fixture
async def shared() -> AsyncIterator[Sharing]:
    async with sharing() as made:
        yield made


async def test_an_upload_says_where_and_until_when_its_parts_go(shared: Sharing) -> None:
    begun = await shared.begin(PIXEL)
    (part,) = begun["parts"]
    assert set(begun) == {"file_id", "parts", "expires_at"}
    assert set(part) == {"method", "url", "headers", "from", "to"} and part["method"] == "PUT"
    assert begun["expires_at"] > shared.core.clock.now_ms() + 3_600_000


async def test_a_link_is_a_redirect_or_a_body(shared: Sharing) -> None:
    file_id = await shared.upload()
    status, redirect = await shared.ask("GET", f"/files/{file_id}")
    assert status == 302 and redirect["location"].startswith("/v1/downloads/")
    status, link = await shared.ask("GET", f"/files/{file_id}?link=1")
    assert status == 200 and set(link) == {"url", "expires_at"}


async def test_a_name_that_is_no_file_id_is_refused(shared: Sharing) -> None:
    status, body = await shared.ask("GET", "/files/a%20b")
    assert (status, body["error"]["code"]) == (400, "bad_request")


async def test_the_teams_own_server_uploads_for_a_user(shared: Sharing) -> None:
    headers = {"X-Api-Key": shared.node.api_key, "X-User-Id": "alice"}
    body = {"name": "a.txt", "mime": "text/plain", "bytes": 2}
    begun = (await shared.http.post(f"{shared.path}/uploads", json=body, headers=headers)).json()
    await shared.send_parts(begun, b"hi")
    answer = await shared.http.post(f"{shared.path}/uploads/{begun['file_id']}/complete", headers=headers)
    assert answer.status_code == 200
    assert (await shared.say(begun["file_id"]))[0] == 201
