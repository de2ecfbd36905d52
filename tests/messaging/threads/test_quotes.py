"""Quotes: `reply_to` names a message that its sender may see, and an accepted quote stays accepted."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import Connect
from tests.support.devices.plain_client import token_for
from tests.support.messaging.faulty_stores import FaultyNode, code_of, down
from tests.support.nodes.node_process import rest
from tidings.errors import BadRequest, NotFound, Problem
from tidings.messaging.lifecycle.scheduled import Scheduled
from tidings.model import Content, ContentPatch, Sent
from tidings.node.node import Node


async def quote(node: FaultyNode, user_id: str, id_: str, name: str, seq_no: int) -> Sent:
    return await node.core.sends.send(user_id, id_, name, Content(name, reply_to=seq_no))


async def code(node: FaultyNode, user_id: str, id_: str, name: str, seq_no: int | None) -> str:
    try:
        return code_of(await node.core.sends.send(user_id, id_, name, Content(name, reply_to=seq_no)))
    except Problem as problem:
        return problem.code


async def test_a_quote_of_no_message_is_refused_by_the_name_of_its_field(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.directory.add("alice", group, ["dan"], is_server=True)  # the entry 2 is no message
    for seq_no in (0, 2, 3, 99, 1 << 52):
        with pytest.raises(BadRequest, match="`reply_to`"):
            await quote(a, "bob", group, f"to {seq_no}", seq_no)
    assert (await quote(a, "bob", group, "to 1", 1)).entry.seq_no == 3  # what was refused used no number
    assert await a.wrong() == []


async def test_rest_and_socket_answer_bad_request(node: Node, connect: Connect) -> None:
    alice, token = await connect("alice"), token_for(node, "alice")
    new = {"kind": "direct", "members": ["bob"]}
    id_ = (await asyncio.to_thread(rest, node.port, "POST", "/v1/conversations", new, token))[1]["conversation_id"]
    wrong = {"message_id": "m1", "text": "hi", "reply_to": 9}
    path = f"/v1/conversations/{id_}/messages"
    status, body = await asyncio.to_thread(rest, node.port, "POST", path, wrong, token)
    assert (status, body["error"]["code"]) == (400, "bad_request") and "reply_to" in body["error"]["message"]
    for type_ in ("message.send", "message.begin"):
        frame = await alice.request(type_, conversation_id=id_, **wrong)
        assert frame["code"] == "bad_request" and "reply_to" in frame["message"]
    assert (await alice.say(id_, "m1"))["seq"] == 1
    right = {"message_id": "m2", "text": "hi", "reply_to": 1}
    assert (await alice.request("message.send", conversation_id=id_, **right))["seq"] == 2


async def test_a_resend_stays_a_duplicate_after_the_quoted_message_is_deleted_or_removed(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    await quote(a, "bob", group, "q", 1)
    await a.core.rewrites.delete("alice", group, 1)
    assert await code(a, "bob", group, "q", 1) == "duplicate"
    assert await code(a, "carol", group, "late", 1) == "stored"
    await a.tables.archive.cut(group, up_to_seq=1)
    assert [entry.seq_no for entry in await a.log(group)] == [2, 3, 4]
    assert await code(a, "bob", group, "q", 1) == "duplicate"


async def test_who_joined_later_cannot_quote_what_is_hidden_from_them(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    assert await code(b, "bob", group, "q1", 1) == "stored"
    await a.core.directory.add("alice", group, ["dan"], is_server=True)
    for node in (a, b):
        with pytest.raises(BadRequest, match="`reply_to`"):
            await quote(node, "dan", group, "q2", 1)
    await a.send("alice", group, "m2")
    assert await code(b, "dan", group, "q2", 4) == "stored"


async def test_a_stranger_learns_nothing_of_the_quoted_message(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    for seq_no in (1, 9):
        with pytest.raises(NotFound, match="no such conversation"):
            await quote(a, "mallory", group, "q", seq_no)


async def test_a_message_that_only_its_sender_sees_is_quoted_by_nobody_else(a: FaultyNode, group: str) -> None:
    await a.core.sends.send("alice", group, "m1", Content("hidden", only_sender=True))
    assert await code(a, "bob", group, "q1", 1) == "bad_request"
    assert await code(a, "alice", group, "q2", 1) == "stored"


async def test_an_entry_of_the_same_batch_is_not_there_yet(a: FaultyNode, group: str) -> None:
    sent = (code(a, "alice", group, "m1", None), code(a, "bob", group, "q", 1), code(a, "carol", group, "m2", None))
    assert list(await asyncio.gather(*sent)) == ["stored", "bad_request", "stored"]
    assert [entry.message_id for entry in await a.log(group)] == ["m1", "m2"]


async def test_a_store_that_does_not_answer_holds_up_the_quote_alone(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    a.faulty_log.page_faults.append(down)
    sent = (code(a, "alice", group, "m2", None), code(a, "bob", group, "q", 1), code(a, "carol", group, "m3", None))
    assert list(await asyncio.gather(*sent)) == ["stored", "unavailable", "stored"]
    assert await code(a, "bob", group, "q", 1) == "stored"


async def test_a_message_without_a_quote_reads_nothing_for_it(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    a.faulty_log.pages = 0
    await a.send("bob", group, "m2")
    assert a.faulty_log.pages == 0
    await quote(a, "bob", group, "q", 1)
    assert a.faulty_log.pages == 1


async def test_an_edit_and_a_delete_of_a_quote_look_at_no_quoted_message(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await quote(a, "bob", group, "q", 1)
    await a.core.rewrites.delete("alice", group, 1)
    await a.tables.archive.cut(group, up_to_seq=1)
    edited = await a.core.rewrites.edit("bob", group, 2, ContentPatch("new"))
    assert edited.entry.content is not None and edited.entry.content.reply_to == 1
    await a.core.rewrites.delete("bob", group, 2)


async def test_a_scheduled_message_with_a_wrong_quote_stays_in_the_list_as_failed(a: FaultyNode, group: str) -> None:
    send_at = a.clock.now_ms() + 60_000
    await a.send("alice", group, "m1")
    for name, seq_no in (("right", 1), ("wrong", 9)):
        await a.core.schedule.put("bob", Scheduled(group, Content(name, reply_to=seq_no), send_at, name))
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert [(one.message_id, one.failed) for one in await a.core.schedule.all("bob")] == [("wrong", "bad_request")]
    assert [entry.message_id for entry in await a.log(group)] == ["m1", "right"]
