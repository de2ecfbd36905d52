"""The before-send hook decides between admit and number: no holes, in order, once, and nobody else waits."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec import UNSET

from tests.support.messaging.faulty_stores import Device, FaultyNode, code_of, open_faulty, told
from tests.support.servers.hook_endpoint import Endpoint, Posted, open_endpoint
from tests.support.waiting import eventually
from tidings.bounds import LANES
from tidings.config.settings import Hooks, Settings
from tidings.errors import Forbidden, NotFound, StoreUnavailable
from tidings.gateway.encode import sent_of
from tidings.messaging.send.draft import Draft
from tidings.model import Content, ContentPatch
from tidings.pushes import MessageNew

LONG_MS = 10_000


def says(verdict: str, **fields: Any) -> str:
    return json.dumps({"verdict": verdict, **fields})


def by_text(post: Posted) -> str:
    """The verdict that the text asks for."""
    text = post.body["message"]["text"]
    return {
        "bad": says("refuse", reason="not here\n"),
        "rude": says("rewrite", text="polite", data={"by": "hook"}),
        "spam": says("sender_only"),
    }.get(text, says("allow"))


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as endpoint:
        endpoint.answer = by_text
        yield endpoint


@pytest.fixture
async def node(settings: Settings, endpoint: Endpoint) -> AsyncIterator[FaultyNode]:
    hooks = Hooks(private_addresses=True, before_send_url=endpoint.url, timeout_ms=LONG_MS)
    async with open_faulty(dataclasses.replace(settings, hooks=hooks), "n1") as node:
        yield node


@pytest.fixture
async def group(node: FaultyNode) -> str:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="two")
    return view.head.conversation_id


async def test_a_refused_message_has_no_number(node: FaultyNode, group: str, endpoint: Endpoint) -> None:
    answers = await asyncio.gather(*(node.submit("alice", group, text, text) for text in ("one", "bad", "two")))
    assert list(map(code_of, answers)) == ["stored", "forbidden", "stored"]
    assert str(answers[1]) == "not here"
    assert told(await node.log(group)) == [(1, "message", "one"), (2, "message", "two")]
    bodies = {post.key: post.body for post in endpoint.posts}  # all are asked about side by side
    assert bodies[f"before-send/{group}/alice/one"] == {
        "conversation_id": group,
        "message": {"kind": "message", "message_id": "one", "sender_id": "alice", "text": "one"},
    }
    counts = {verdict: count.value for verdict, count in node.core.metrics.before_send.items()}
    assert counts == {"allow": 2, "refuse": 1, "rewrite": 0, "sender_only": 0, "failed": 0}


async def test_a_rewritten_message_is_stored_and_its_author_is_told(node: FaultyNode, group: str) -> None:
    first, again = [await node.send("alice", group, "m1", "rude") for _ in range(2)]
    (entry,) = await node.log(group)
    assert entry.content == Content("polite", {"by": "hook"})
    assert (first.is_duplicate, again.is_duplicate, first.is_other, again.is_other) == (False, True, True, True)
    assert sent_of(again).text == "polite"
    assert sent_of(await node.send("alice", group, "m2", "fine")).text is UNSET
    assert await node.code("alice", group, "m1", "polite") == "conflict"


async def test_a_resend_is_not_judged_again(node: FaultyNode, group: str, endpoint: Endpoint) -> None:
    assert await node.code("alice", group, "m1", "fine") == "stored"
    endpoint.answer = says("refuse")
    assert await node.code("alice", group, "m1", "fine") == "duplicate"
    assert len(endpoint.posts) == 1
    assert await node.code("alice", group, "m2", "fine") == "forbidden"


async def test_a_message_for_its_sender_only_is_a_void_to_everybody_else(node: FaultyNode, group: str) -> None:
    alice, bob = Device("alice", "a1"), Device("bob", "b1")
    for device in (alice, bob):
        node.core.hub.attach(device)
    assert await node.code("alice", group, "m1", "spam") == "stored"
    await eventually(lambda: alice.seqs() == [1] and bob.seqs() == [1])
    kinds = {
        device.user_id: [one.entry.kind for one in device.events if isinstance(one, MessageNew)]
        for device in (alice, bob)
    }
    assert kinds == {"alice": ["message"], "bob": ["void"]}
    for user_id, kind, text in (("alice", "message", "spam"), ("bob", "void", None)):
        (entry,) = (await node.core.history.page(user_id, group)).entries
        one = await node.core.history.entry(user_id, group, 1)
        assert (entry.kind, entry.text, one.text) == (kind, text, text)
    assert await node.unread("bob") == 0
    await node.core.rewrites.edit("alice", group, 1, ContentPatch("more spam"))
    assert [entry.text for entry in (await node.core.history.page("bob", group)).entries] == [None, None]
    assert await node.wrong() == []


async def test_an_edit_is_judged_like_a_message(node: FaultyNode, group: str, endpoint: Endpoint) -> None:
    await node.send("alice", group, "m1", "fine")
    for text in ("bad", "spam"):
        with pytest.raises(Forbidden):
            await node.core.rewrites.edit("alice", group, 1, ContentPatch(text))
    await node.core.rewrites.edit("alice", group, 1, ContentPatch("rude"))
    assert endpoint.posts[-1].body["message"]["target_seq"] == 1
    assert [entry.text for entry in await node.log(group)] == ["polite", "polite"]
    count = len(endpoint.posts)
    await node.core.rewrites.delete("alice", group, 1)
    assert len(endpoint.posts) == count, "a delete says nothing"


async def in_the_same_lane(node: FaultyNode, conversation_id: str) -> str:
    while True:
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="other")
        if zlib.crc32(view.head.conversation_id.encode()) % LANES == zlib.crc32(conversation_id.encode()) % LANES:
            return view.head.conversation_id


async def test_a_group_that_waits_holds_up_nobody_else_and_keeps_its_order(
    node: FaultyNode, group: str, endpoint: Endpoint
) -> None:
    endpoint.gate, endpoint.gated = asyncio.Event(), lambda post: post.body["conversation_id"] == group
    other = await in_the_same_lane(node, group)
    waiting = [node.submit("alice", group, f"m{n}", origin="phone") for n in range(3)]
    await endpoint.until(lambda: endpoint.posts)
    waiting += [node.submit("alice", group, f"m{n}", origin="phone") for n in range(3, 6)]
    assert await node.code("alice", other, "m1") == "stored"
    assert not any(one.done() for one in waiting)
    endpoint.gate.set()
    assert {code_of(one) for one in await asyncio.gather(*waiting)} == {"stored"}
    assert [entry.message_id for entry in await node.log(group)] == [f"m{n}" for n in range(6)]


@pytest.mark.parametrize(("on_failure", "code"), [("allow", "stored"), ("refuse", "unavailable")])
async def test_a_hook_that_fails_is_passed_over_or_refuses_for_now(
    settings: Settings, endpoint: Endpoint, on_failure: str, code: str
) -> None:
    hooks = Hooks(private_addresses=True, before_send_url=endpoint.url, timeout_ms=LONG_MS, on_failure=on_failure)
    async with open_faulty(dataclasses.replace(settings, hooks=hooks), "n1") as node:
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="two")
        group = view.head.conversation_id
        wrong = [
            "",
            "{}",
            says("perhaps"),
            says("rewrite"),
            says("rewrite", text=" "),
            says("rewrite", text="x" * 20_000),
        ]
        for number, answer in enumerate(wrong):
            endpoint.answer = answer
            assert await node.code("alice", group, f"m{number}") == code
        endpoint.answer, endpoint.status = says("allow"), 302
        assert await node.code("alice", group, "redirected") == code
        assert node.core.metrics.before_send["failed"].value == len(wrong) + 1
        endpoint.status = 200
        assert await node.code("alice", group, "again") == "stored"


async def test_a_late_verdict_is_none(settings: Settings, endpoint: Endpoint) -> None:
    hooks = Hooks(private_addresses=True, before_send_url=endpoint.url, timeout_ms=10, on_failure="refuse")
    endpoint.gate = asyncio.Event()
    async with open_faulty(dataclasses.replace(settings, hooks=hooks), "n1") as node:
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="two")
        group = view.head.conversation_id
        first = await node.submit("alice", group, "m1", origin="phone")
        assert isinstance(first, StoreUnavailable)
        later = await node.code("alice", group, "m2", origin="phone")
        assert later == "held", "a later send of the device does not overtake"
        assert await node.log(group) == []


async def test_two_nodes_that_get_one_message_store_it_once(settings: Settings, endpoint: Endpoint) -> None:
    hooks = Hooks(private_addresses=True, before_send_url=endpoint.url, timeout_ms=LONG_MS)
    settings = dataclasses.replace(settings, hooks=hooks)
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(open_faulty(settings, name)) for name in ("n1", "n2")]
        view, _ = await nodes[0].core.directory.create("alice", kind="group", members=["bob"], name="two")
        group = view.head.conversation_id
        codes = await asyncio.gather(*(node.code("alice", group, "m1", "rude") for node in nodes for _ in range(3)))
        assert sorted(codes) == ["duplicate"] * 5 + ["stored"]
        assert [entry.text for entry in await nodes[0].log(group)] == ["polite"]


async def test_without_a_hook_there_is_no_such_stage(a: FaultyNode) -> None:
    assert a.core.integration.review is None


async def test_the_author_of_a_streamed_message_is_told_that_its_end_was_refused(node: FaultyNode, group: str) -> None:
    streams, key = node.core.streams, (group, "alice", "s1")
    await streams.begin(Draft(sender_id="alice", conversation_id=group, message_id="s1", content=Content("so ")))
    streams.append(key, 3, "far")
    with pytest.raises(Forbidden, match="not here"):
        await streams.end(key, "bad")
    assert (await node.core.history.entry("bob", group, 1)).content == Content("so ", state="interrupted")
    assert [entry.kind for entry in await node.log(group)] == ["message", "edit"]
    with pytest.raises(NotFound):
        await streams.end(key, "bad")
