"""Attacks by people: strangers, those who left, members without the role, ids that are none.

"Not yours" and "does not exist" are the same answer, everywhere: the matrix below is made from the node's own list of
endpoints, so a new one cannot be forgotten.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.gateway.raw_websocket import Wire
from tests.support.nodes.attacked_node import BAD_IDS, CANARY, Attacked

MISSING = "c-00000000000000000000000000000000"  # a well-formed id that nobody has
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/inbox/{conversation_id}"): {"muted": True},
    ("PATCH", "/v1/conversations/{conversation_id}"): {"name": "mine now"},
    ("POST", "/v1/conversations/{conversation_id}/members"): {"user_ids": ["friend"]},
    ("PATCH", "/v1/conversations/{conversation_id}/members/{user_id}"): {"role": "owner"},
    ("POST", "/v1/conversations/{conversation_id}/messages"): {"message_id": "x", "text": CANARY},
    ("PATCH", "/v1/conversations/{conversation_id}/messages/{seq}"): {"text": CANARY},
    ("POST", "/v1/conversations/{conversation_id}/read"): {"up_to_seq": 1},
    ("POST", "/v1/conversations/{conversation_id}/unread"): {"from_seq": 1},
    ("POST", "/v1/conversations/{conversation_id}/uploads"): {"name": "a.txt", "mime": "text/plain", "bytes": 1},
    ("PUT", "/v1/drafts/{conversation_id}"): {"text": CANARY, "version": 0},
}
FORGETTING = (
    "DELETE",
    "/v1/saved/{conversation_id}/{seq}",
)  # of one's own list: it answers the same whatever was in it
FRAMES: dict[str, dict[str, Any]] = {
    "message.send": {"message_id": "x", "text": CANARY},
    "message.read": {"up_to_seq": 1},
    "message.unread": {"from_seq": 1},
    "message.abandon": {"message_id": "x"},
    "history": {},
    "typing": {"typing": True},
}


# --- people who are not members -------------------------------------------------------------------


async def outsider(attack: Attacked, kind: str) -> tuple[str, str, str]:
    """(a conversation, its owner, somebody who is not in it)."""
    owner, other, who = attack.fresh("owner"), attack.fresh("other"), attack.fresh(kind)
    if kind == "stranger":
        return attack.group(owner, other), owner, who
    c = attack.group(owner, other, who)
    by = who if kind == "leaver" else owner
    status, _ = await attack.rest(by, "DELETE", f"/v1/conversations/{c}/members/{who}")
    assert status == 204
    return c, owner, who


async def conversation_endpoints(attack: Attacked) -> list[tuple[str, str]]:
    """As the node itself lists them."""
    _, document = await attack.rest("anyone", "GET", "/openapi.json")
    methods = ("get", "post", "put", "patch", "delete")
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if "{conversation_id}" in path and method in methods
    ]


@pytest.mark.parametrize("kind", ["stranger", "leaver", "removed"])
async def test_every_endpoint_tells_an_outsider_what_it_tells_of_nothing(attack: Attacked, kind: str) -> None:
    c, owner, who = await outsider(attack, kind)
    endpoints = await conversation_endpoints(attack)
    assert len(endpoints) >= 14 and set(BODIES) <= set(endpoints)
    for method, path in endpoints:
        for user_id in (owner, who) if "{user_id}" in path else ("",):
            named = dict.fromkeys(re.findall(r"{(\w+)}", path), "x") | {"user_id": user_id, "seq": 1}
            asked = [path.format(**named | {"conversation_id": id_}) for id_ in (c, MISSING)]
            body = BODIES.get((method, path))
            foreign, missing = [await attack.rest(who, method, one, body) for one in asked]
            is_for_operators = path.startswith("/v1/admin/")  # no user's token gets anywhere there
            refusal = 403 if is_for_operators else 204 if (method, path) == FORGETTING else 404
            assert foreign[0] == refusal, (method, path, foreign)
            assert foreign == missing, (method, path)
    status, page = await attack.rest(owner, "GET", f"/v1/conversations/{c}/messages")
    assert status == 200
    messages = [one for one in page["messages"] if one["kind"] == "message"]
    assert [one["text"] for one in messages] == [f"{CANARY} {n}" for n in (2, 1, 0)], "nothing was changed"


@pytest.mark.parametrize("kind", ["stranger", "leaver", "removed"])
async def test_every_frame_tells_an_outsider_what_it_tells_of_nothing(attack: Attacked, kind: str) -> None:
    c, _, who = await outsider(attack, kind)
    wire = await attack.wire(who)
    for type_, fields in FRAMES.items():
        answers = [await wire.ask(type_, conversation_id=id_, **fields) for id_ in (c, MISSING)]
        for answer in answers:
            answer.pop("id")
        assert answers[0] == answers[1], type_
        if type_ in ("message.send", "message.read", "message.unread", "history"):
            assert (answers[0]["type"], answers[0]["code"], answers[0]["temporary"]) == ("error", "not_found", False)
    watched = [await wire.ask("watch", conversation_ids=[id_]) for id_ in (c, MISSING)]
    assert watched[0]["type"] == watched[1]["type"]
    wire.drop()


async def test_resume_tells_an_outsider_what_it_tells_of_nothing(attack: Attacked) -> None:
    c, _, who = await outsider(attack, "leaver")
    wire = await Wire.open(attack.port)
    wire.say(id=1, type="connect", token=attack.token(who), resume={c: 0, MISSING: 0})
    assert (await wire.hear())["type"] == "hello"
    told = [await wire.hear(), await wire.hear()]
    assert sorted(one.pop("conversation_id") for one in told) == sorted([c, MISSING])
    assert told == [{"type": "conversation.removed"}] * 2
    wire.drop()


async def test_who_left_hears_nothing_more(attack: Attacked) -> None:
    owner, who = attack.fresh("owner"), attack.fresh("leaver")
    c = attack.group(owner, who)
    wire = await attack.wire(who)
    await attack.rest(owner, "DELETE", f"/v1/conversations/{c}/members/{who}")
    told = await wire.hear()
    while told["type"] != "conversation.removed":
        told = await wire.hear()
    await attack.rest(owner, "POST", f"/v1/conversations/{c}/messages", {"message_id": "after", "text": CANARY})
    wire.say(id=99, type="ping")
    assert (await wire.hear()) == {"type": "pong", "id": 99}, "nothing came in between"
    _, inbox = await attack.rest(who, "GET", "/v1/inbox")
    assert (inbox["conversations"], inbox["total_unread"]) == ([], 0)
    wire.drop()


async def test_a_foreign_receipt_marks_nothing(attack: Attacked) -> None:
    owner, other, who = attack.fresh("owner"), attack.fresh("other"), attack.fresh("stranger")
    c = attack.group(owner, other)
    wire, reader = await attack.wire(who), await attack.wire(other)
    answers = [await wire.ask("message.delivered", acks={id_: 3}) for id_ in (c, MISSING)]
    assert [one["type"] for one in answers] == ["ok", "ok"]
    await wire.ask("message.read", conversation_id=c, up_to_seq=3)
    path = f"/v1/conversations/{c}/messages/1/receipts"
    _, receipts = await attack.rest(owner, "GET", path)
    assert receipts == {"read": [], "delivered": [], "pending": [other]}
    await reader.ask("message.read", conversation_id=c, up_to_seq=3)
    _, receipts = await attack.rest(owner, "GET", path)
    assert list(receipts.pop("times")) == [other]
    assert receipts == {"read": [other], "delivered": [], "pending": []}, "the answer can change"
    wire.drop()
    reader.drop()


async def test_a_cursor_of_another_user_is_refused(attack: Attacked) -> None:
    owner, who = attack.fresh("owner"), attack.fresh("stranger")
    for _ in range(3):
        attack.group(owner, who, messages=1)
    _, page = await attack.rest(owner, "GET", "/v1/inbox?limit=1")
    cursor = page["next_cursor"]
    status, following = await attack.rest(owner, "GET", f"/v1/inbox?limit=1&cursor={cursor}")
    assert status == 200 and following["conversations"] != page["conversations"]
    for forged in (cursor, cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "!", "AAAA", "0" * 512):
        status, answer = await attack.rest(who, "GET", f"/v1/inbox?limit=1&cursor={quote(forged)}")
        assert (status, answer["error"]["code"]) == (400, "bad_cursor"), forged
    wire = await attack.wire(who)
    assert (await wire.ask("inbox", cursor=cursor))["code"] == "bad_cursor"
    wire.drop()


def message(message_id: str) -> dict[str, str]:
    return {"message_id": message_id, "text": CANARY}


async def test_nobody_says_who_the_sender_is_or_which_number_it_gets(attack: Attacked) -> None:
    owner, victim = attack.fresh("owner"), attack.fresh("victim")
    c = attack.group(owner, victim, messages=1)
    forged = {"sender": victim, "sender_id": victim, "user_id": victim, "seq": 9, "sent_at": 1, "kind": "void"}
    wire = await attack.wire(owner)
    for number, (name, value) in enumerate(forged.items()):
        fields = {name: value, "id": 7 + number, "type": "message.send", "conversation_id": c} | message("f1")
        wire.say_text(json.dumps(fields))
        said = await wire.answer_to(7 + number)
        assert said["code"] == "bad_request" and f"`{name}`" in said["message"]
        status, said = await attack.rest(
            owner, "POST", f"/v1/conversations/{c}/messages", {name: value} | message("f2")
        )
        assert status == 400 and f"`{name}`" in said["error"]["message"]
    _, page = await attack.rest(victim, "GET", f"/v1/conversations/{c}/messages")
    assert [(one["seq"], one["sender_id"], one["kind"]) for one in page["messages"]] == [(1, owner, "message")]
    status, _ = await attack.rest(owner, "GET", "/v1/inbox", X_User_Id=victim)
    assert status == 200, "without a server key the header says nothing"
    _, inbox = await attack.rest(owner, "GET", "/v1/inbox", X_User_Id=victim)
    assert inbox["total_unread"] == 0, "it is the owner's own"
    wire.drop()


async def test_a_member_without_the_role_is_forbidden(attack: Attacked) -> None:
    owner, member = attack.fresh("owner"), attack.fresh("member")
    c = attack.group(owner, member)
    attempts = [
        ("PATCH", f"/v1/conversations/{c}", {"name": "mine"}),
        ("DELETE", f"/v1/conversations/{c}", None),
        ("POST", f"/v1/conversations/{c}/members", {"user_ids": ["friend"]}),
        ("DELETE", f"/v1/conversations/{c}/members/{owner}", None),
        ("PATCH", f"/v1/conversations/{c}/members/{member}", {"role": "owner"}),
        ("PATCH", f"/v1/conversations/{c}/messages/1", {"text": CANARY}),
        ("DELETE", f"/v1/conversations/{c}/messages/1", None),
    ]
    for method, path, body in attempts:
        status, answer = await attack.rest(member, method, path, body)
        assert (status, answer["error"]["code"]) == (403, "forbidden"), (method, path)
    status, _ = await attack.rest(member, "POST", "/v1/users/anyone/revoke")
    assert status == 403
    status, _ = await attack.rest(member, "GET", f"/v1/users/{owner}")
    assert status == 404, "profiles of others do not exist"


# --- ids that are none ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
async def test_an_id_that_is_none_is_refused_on_every_way_in(attack: Attacked, bad: str) -> None:
    who = attack.fresh("who")
    if bad:
        for path in ("/v1/conversations/{}/messages", "/v1/conversations/{}", "/v1/users/{}"):
            status, answer = await attack.rest(who, "GET", path.format(quote(bad, safe="")))
            assert (status, answer["error"]["code"]) == (400, "bad_request"), path
    status, answer = await attack.rest(who, "POST", "/v1/conversations", {"kind": "direct", "members": [bad]})
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    wire = await attack.wire(who)
    c = attack.group(who, messages=0)
    frames: list[tuple[str, dict[str, Any]]] = [
        ("message.send", {"conversation_id": bad, "message_id": "m", "text": CANARY}),
        ("message.send", {"conversation_id": c, "message_id": bad, "text": CANARY}),
        ("history", {"conversation_id": bad}),
        ("message.read", {"conversation_id": bad, "up_to_seq": 1}),
        ("message.delivered", {"acks": {bad: 1}}),
        ("watch", {"conversation_ids": [bad]}),
    ]
    for type_, fields in frames:
        answer = await wire.ask(type_, **fields)
        assert (answer["type"], answer.get("code")) == ("error", "bad_request"), (type_, answer)
    wire.drop()
    device = await Wire.open(attack.port)
    device.say(id=1, type="connect", token=attack.token(who), device=bad)
    assert (await device.hear())["code"] == "bad_request"
    device.drop()
