from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.sharing import PIXEL, Sharing, sharing
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.bounds import FILE_LINK_S
from tidings.config.settings import Settings
from tidings.messaging.lifecycle.expiry import Expiry


@pytest.fixture
def later(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Time passes on the node's wall clock."""
    clock, ahead_ms = shared.core.clock, 0

    def pass_(seconds: float) -> None:
        nonlocal ahead_ms
        ahead_ms += round(seconds * 1000)

    now_ms = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + ahead_ms, raising=False)
    return pass_


async def test_a_file_belongs_to_its_uploader_until_it_is_sent(shared: Sharing) -> None:
    file_id = await shared.upload()
    assert (await shared.read(file_id, "alice")).content == PIXEL
    assert (await shared.read(file_id, "bob")).status_code == 404
    await shared.say(file_id)
    assert (await shared.read(file_id, "bob")).content == PIXEL


async def test_a_stranger_gets_the_same_answer_as_for_a_file_that_does_not_exist(shared: Sharing) -> None:
    file_id = await shared.upload()
    await shared.say(file_id)
    answers = [await shared.read(id_, "eve") for id_ in (file_id, "f123")]
    assert answers[0].status_code == answers[1].status_code == 404
    assert answers[0].content == answers[1].content


async def test_a_link_is_dead_after_a_minute(shared: Sharing, later: Any) -> None:
    file_id = await shared.upload()
    await shared.say(file_id)
    _, link = await shared.ask("GET", f"/files/{file_id}?link=1", user_id="bob")
    assert (await shared.http.get(link["url"])).status_code == 200
    later(FILE_LINK_S + 1)
    assert (await shared.http.get(link["url"])).status_code == 404


async def test_a_removed_member_gets_no_new_link_and_the_old_one_dies_within_a_minute(
    shared: Sharing, later: Any
) -> None:
    file_id = await shared.upload()
    await shared.say(file_id)
    _, link = await shared.ask("GET", f"/files/{file_id}?link=1", user_id="bob")
    assert (await shared.ask("DELETE", "/members/bob"))[0] == 204
    assert (await shared.read(file_id, "bob")).status_code == 404
    later(FILE_LINK_S + 1)
    assert (await shared.http.get(link["url"])).status_code == 404


async def test_the_file_of_a_message_whose_time_is_over_is_not_read_though_the_delete_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def later(self: Expiry, record: object) -> None:
        """The server has not come to it."""

    monkeypatch.setattr(Expiry, "end", later)
    async with sharing() as shared:
        file_id = await shared.upload()
        assert (await shared.say(file_id, ttl_s=600))[0] == 201
        assert (await shared.read(file_id)).content == PIXEL
        now_ms = shared.core.clock.now_ms
        monkeypatch.setattr(shared.core.clock, "now_ms", lambda: now_ms() + 601_000, raising=False)
        assert (await shared.read(file_id)).status_code == 404


async def test_who_joined_later_sees_no_earlier_file_where_history_begins_with_the_member(shared: Sharing) -> None:
    body = {"kind": "group", "name": "late", "members": [], "history": "joined"}
    made = await shared.http.post("/v1/conversations", json=body, headers=shared.as_user("alice"))
    shared.conversation_id = made.json()["conversation_id"]
    early = await shared.upload()
    await shared.say(early)
    await shared.ask("POST", "/members", {"user_ids": ["carl"]})
    late = await shared.upload()
    await shared.say(late)
    assert (await shared.read(early, "carl")).status_code == 404
    assert (await shared.read(late, "carl")).status_code == 200
    _, page = await shared.ask("GET", "/files", user_id="carl")
    assert [file["file_id"] for file in page["files"]] == [late]


@pytest.mark.parametrize(
    ("mime", "how"),
    [
        ("image/png", "inline"),
        ("video/mp4", "inline"),
        ("audio/mpeg", "inline"),
        ("image/svg+xml", "attachment"),
        ("text/html", "attachment"),
        ("application/pdf", "attachment"),
    ],
)
async def test_only_known_media_are_shown_and_nothing_runs(shared: Sharing, mime: str, how: str) -> None:
    file_id = await shared.upload(b"<script>alert(1)</script>", mime=mime, name='né "x".bin')
    await shared.say(file_id)
    answer = await shared.read(file_id)
    assert answer.headers["content-disposition"].startswith(how)
    assert "filename*=UTF-8''n%C3%A9%20%22x%22.bin" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert (await shared.read(file_id, query="?download=1")).headers["content-disposition"].startswith("attachment")


async def test_an_object_store_shows_and_saves_what_a_node_does(s3: S3Server, s3_credentials: None) -> None:
    async with sharing(Settings(blobs=s3.url("downloads"))) as stored:
        for mime, how in (("image/png", "inline"), ("image/svg+xml", "attachment")):
            file_id = await stored.upload(b"<script>alert(1)</script>", mime=mime, name='né "x".bin')
            await stored.say(file_id)
            for query, expected in (("", how), ("?download=1", "attachment")):
                answer = await stored.read(file_id, query=query)
                shown = f"{expected}; filename*=UTF-8''n%C3%A9%20%22x%22.bin"
                assert (answer.headers["content-disposition"], answer.headers["content-type"]) == (shown, mime)


async def test_the_files_of_a_conversation_come_newest_first_page_by_page(shared: Sharing) -> None:
    sent = []
    for n in range(5):
        mime = "image/png" if n % 2 else "text/plain"
        sent.append(await shared.upload(mime=mime))
        await shared.say(sent[-1])
    await shared.upload()  # never sent
    _, first = await shared.ask("GET", "/files?limit=2", user_id="bob")
    _, second = await shared.ask("GET", f"/files?limit=9&cursor={first['next_cursor']}", user_id="bob")
    found = [*first["files"], *second["files"]]
    assert [file["file_id"] for file in found] == sent[::-1] and second["next_cursor"] is None
    status, wrong = await shared.ask("GET", "/files?cursor=zz", user_id="bob")
    assert (status, wrong["error"]["code"]) == (400, "bad_cursor")
    assert (found[0]["seq"], found[0]["sender_id"]) == (5, "alice")
    _, images = await shared.ask("GET", "/files?kind=image", user_id="bob")
    _, others = await shared.ask("GET", "/files?kind=file", user_id="bob")
    assert [file["file_id"] for file in images["files"]] == [sent[3], sent[1]]
    assert [file["file_id"] for file in others["files"]] == [sent[4], sent[2], sent[0]]
    assert (await shared.ask("GET", "/files?cursor=../x", user_id="bob"))[1]["error"]["code"] == "bad_cursor"


async def test_the_bytes_are_counted_both_ways(shared: Sharing) -> None:
    file_id = await shared.upload()
    await shared.read(file_id, "alice")
    counted = {name: count.value for name, count in shared.core.metrics.files_bytes.items()}
    assert counted == {"in": len(PIXEL), "out": len(PIXEL)}
