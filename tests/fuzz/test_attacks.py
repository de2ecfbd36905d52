"""Attacks that no other suite has, on a whole node; and the page that names the test of each known attack is true."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.nodes.attacked_node import CANARY, Attacked

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "inside" / "security-tests.md"


async def test_the_message_id_of_another_sender_tells_nothing_and_takes_nothing(attack: Attacked) -> None:
    ann, bob = attack.fresh("ann"), attack.fresh("bob")
    c = attack.group(ann, bob, messages=0)
    path = f"/v1/conversations/{c}/messages"
    body = {"message_id": "shared", "text": f"{CANARY} mine"}
    first = await attack.rest(ann, "POST", path, body)
    second = await attack.rest(bob, "POST", path, {**body, "text": f"{CANARY} other words"})
    assert (first[0], second[0]) == (201, 201)
    assert (first[1]["seq"], second[1]["seq"]) == (1, 2)


async def test_the_event_of_a_delete_carries_no_text(attack: Attacked) -> None:
    ann, bob = attack.fresh("ann"), attack.fresh("bob")
    c = attack.group(ann, bob, messages=1)
    wire = await attack.wire(bob)
    status, _ = await attack.rest(ann, "DELETE", f"/v1/conversations/{c}/messages/1")
    assert status == 200
    event = await wire.hear()
    while event["type"] != "message.new":
        event = await wire.hear()
    wire.drop()
    assert (event["message"]["kind"], event["message"]["target_seq"]) == ("delete", 1)
    assert CANARY not in str(event)
    _, page = await attack.rest(bob, "GET", f"/v1/conversations/{c}/messages")
    assert CANARY not in str(page)


async def test_a_flood_of_typing_uses_up_a_budget_of_its_own(attack: Attacked) -> None:
    ann = attack.fresh("ann")
    c = attack.group(ann, attack.fresh("bob"), messages=0)
    wire = await attack.wire(ann)
    for number in range(700):
        wire.say(id=1_000 + number, type="typing", conversation_id=c, typing=True)
    answers = [await wire.answer_to(1_000 + number) for number in range(700)]
    refused = [answer for answer in answers if answer["type"] == "error"]
    assert len(refused) == 100 and {answer["code"] for answer in refused} == {"rate_limited"}
    sent = await wire.ask("message.send", conversation_id=c, message_id="m", text=f"{CANARY} still")
    wire.drop()
    assert sent["type"] == "ok"


async def test_no_text_is_ever_in_the_keyspace(attack: Attacked) -> None:
    ann, bob = attack.fresh("ann"), attack.fresh("bob")
    c = attack.group(ann, bob)
    await attack.rest(bob, "POST", f"/v1/conversations/{c}/read", {"up_to_seq": 2})
    await attack.rest(ann, "PATCH", f"/v1/conversations/{c}/messages/1", {"text": f"{CANARY} edited"})
    keyspace = attack.node.keyspace()
    seen = 0
    for key in keyspace.scan_iter(count=1_000):
        seen += 1
        assert CANARY.encode() not in key
        assert CANARY.encode() not in (keyspace.dump(key) or b"")
    keyspace.close()
    assert seen > 5


def test_the_page_names_every_attack_once_and_tests_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(int(number) for number in rows) == list(range(1, len(rows) + 1)) and len(rows) >= 70
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text("utf-8"))
    assert len(named) > 60
    missing = [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text("utf-8")]
    assert missing == []
