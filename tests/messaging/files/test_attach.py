from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import Wire
from tests.support.messaging.sharing import PIXEL, Sharing
from tidings.bounds import UPLOAD_S
from tidings.messaging.files.record import COLLECTION, value_of
from tidings.stores.tables.records import of_conversation


async def test_a_message_carries_its_files(shared: Sharing) -> None:
    facts: dict[str, Any] = {"width": 640, "height": 480, "blurhash": "LEHV6nWB2yk8pyo0adR*.7kCMdnj"}
    file_id = await shared.upload(**facts)
    assert (await shared.say(file_id, text="look"))[0] == 201
    (message,) = await shared.messages()
    told = {"file_id": file_id, "name": "photo.png", "mime": "image/png", "bytes": len(PIXEL)}
    assert (message["text"], message["files"]) == ("look", [told | facts])


async def test_a_message_with_files_needs_no_text_and_other_messages_have_no_files(shared: Sharing) -> None:
    first, second = await shared.upload(), await shared.upload()
    assert (await shared.say(first, second))[0] == 201
    assert (await shared.ask("POST", "/messages", {"text": "plain"}))[0] == 201
    plain, carrying = await shared.messages()
    assert [file["file_id"] for file in carrying["files"]] == [first, second]
    assert "files" not in plain


async def test_a_frame_carries_files_too_and_others_hear_of_them(shared: Sharing) -> None:
    file_id = await shared.upload(width=1, height=1)
    alice = await Wire.open(shared.node.port)
    bob = await Wire.open(shared.node.port)
    for wire, user_id in ((alice, "alice"), (bob, "bob")):
        await wire.connect(shared.node.token(user_id))
    place = {"conversation_id": shared.conversation_id, "message_id": "m1"}
    assert (await alice.ask("message.send", **place, files=["f1"]))["code"] == "bad_request"
    assert (await alice.ask("message.send", **place, files=[file_id]))["seq"] == 1
    while (heard := await bob.hear())["type"] != "message.new":
        pass
    assert heard["message"]["files"][0] == {
        "file_id": file_id,
        "name": "photo.png",
        "mime": "image/png",
        "bytes": len(PIXEL),
        "width": 1,
        "height": 1,
    }
    alice.drop()
    bob.drop()


async def test_a_resend_is_a_duplicate_and_other_files_are_a_conflict(shared: Sharing) -> None:
    first, second = await shared.upload(), await shared.upload()
    assert (await shared.say(first, message_id="m1"))[0] == 201
    assert (await shared.say(first, message_id="m1"))[0] == 200
    status, body = await shared.say(second, message_id="m1")
    assert (status, body["error"]["code"]) == (409, "conflict")
    status, body = await shared.ask("POST", "/messages", {"message_id": "m1", "text": "x"})
    assert (status, body["error"]["code"]) == (409, "conflict")


async def test_a_file_is_attached_once_whoever_sends_it_at_the_same_moment(shared: Sharing) -> None:
    file_id = await shared.upload()
    answers = await asyncio.gather(*(shared.say(file_id, message_id=f"m{n}") for n in range(8)))
    assert sorted(status for status, _ in answers) == [201] + [400] * 7
    assert sum("files" in message for message in await shared.messages()) == 1


async def test_a_file_of_nobody_of_another_or_half_of_one_cannot_be_sent(shared: Sharing) -> None:
    of_bob = await shared.upload(user_id="bob")
    half = (await shared.begin(PIXEL))["file_id"]
    elsewhere = (
        await shared.http.post(
            "/v1/conversations", json={"kind": "group", "name": "b", "members": []}, headers=shared.as_user("alice")
        )
    ).json()["conversation_id"]
    mine = await shared.upload()
    for file_id in (of_bob, half, "f123"):
        status, body = await shared.say(file_id)
        assert (status, body["error"]["code"]) == (400, "bad_request")
    shared.conversation_id, here = elsewhere, shared.conversation_id
    assert (await shared.say(mine))[0] == 400
    shared.conversation_id = here
    assert await shared.messages() == []  # a refused send takes no number
    assert (await shared.say(mine, mine))[0] == 400
    status, body = await shared.say(*(f"f{n}" for n in range(11)))
    assert (status, body["error"]["code"]) == (400, "bad_request")


async def test_an_edit_leaves_the_files_and_a_delete_takes_them(shared: Sharing) -> None:
    file_id = await shared.upload(os.urandom(100))
    await shared.say(file_id, text="at first")
    assert (await shared.ask("PATCH", "/messages/1", {"text": "before"}))[0] == 200
    message = (await shared.messages())[-1]
    assert (message["text"], message["files"][0]["file_id"]) == ("before", file_id)
    assert (await shared.ask("DELETE", "/messages/1"))[0] == 200
    records = await shared.core.tables.records.get(of_conversation(shared.conversation_id), COLLECTION, [file_id])
    assert value_of(records[file_id]).state == "gone"
    assert (await shared.read(file_id)).status_code == 404
    assert all("files" not in message for message in await shared.messages())


async def test_the_delete_of_an_archived_message_takes_its_files(shared: Sharing) -> None:
    file_id = await shared.upload()
    await shared.say(file_id)
    core = shared.core
    core.cold.archiving._after_ms = 0
    await core.cold.archiving.run()
    entry = (await core.tables.log.page(shared.conversation_id, after=0, before=9, limit=1, newest_first=False))[0]
    assert entry.s3_ref is not None
    assert (await shared.messages())[-1]["files"][0]["file_id"] == file_id
    assert (await shared.ask("DELETE", "/messages/1"))[0] == 200
    await shared.sweep()
    assert shared.objects() == []


async def put_scheduled(shared: Sharing, file_id: str, in_s: int) -> tuple[int, dict[str, Any]]:
    body = {
        "conversation_id": shared.conversation_id,
        "send_at": shared.core.clock.now_ms() + in_s * 1000,
        "files": [file_id],
        "mentions": ["bob"],
    }
    answer = await shared.http.put("/v1/scheduled/m1", json=body, headers=shared.as_user("alice"))
    return answer.status_code, answer.json()


@pytest.mark.parametrize("is_taken_back", [False, True])
async def test_a_scheduled_message_keeps_its_files_until_it_is_sent_or_taken_back(
    shared: Sharing, monkeypatch: pytest.MonkeyPatch, *, is_taken_back: bool
) -> None:
    file_id, now_ms = await shared.upload(), shared.core.clock.now_ms
    status, answer = await put_scheduled(shared, file_id, 3 * UPLOAD_S)
    assert (status, answer["files"], answer["mentions"]) == (201, [file_id], ["bob"])
    monkeypatch.setattr(shared.core.clock, "now_ms", lambda: now_ms() + 2 * UPLOAD_S * 1000)
    await shared.sweep()
    assert len(shared.objects()) == 1
    if is_taken_back:
        await shared.core.schedule.remove("alice", "m1")
    monkeypatch.setattr(shared.core.clock, "now_ms", lambda: now_ms() + (4 * UPLOAD_S + 60) * 1000)
    while not is_taken_back and await shared.core.schedule.all("alice"):
        await shared.core.timed.step()
    await shared.sweep()
    found = await shared.core.history.page("bob", shared.conversation_id, limit=10)
    sent = [
        (entry.mentions, [file.file_id for file in entry.content.files]) for entry in found.entries if entry.content
    ]
    assert sent == ([] if is_taken_back else [(("bob",), [file_id])])
    assert len(shared.objects()) == len(sent)


async def test_a_file_that_a_message_cannot_carry_is_refused_when_the_message_is_scheduled(shared: Sharing) -> None:
    begun = await shared.begin(PIXEL)
    theirs, sent = await shared.upload(user_id="bob"), await shared.upload()
    await shared.say(sent)
    for file_id in ("f1", begun["file_id"], theirs, sent):
        status, answer = await put_scheduled(shared, file_id, 60)
        assert status == 400 and file_id in answer["error"]["message"]
    assert await shared.core.schedule.all("alice") == []
