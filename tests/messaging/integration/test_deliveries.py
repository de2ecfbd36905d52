"""Entries reach their webhooks in order and at least once, whatever the endpoint does."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from tests.support.servers.hook_endpoint import Endpoint, Posted, open_endpoint
from tidings import bounds
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.messaging.integration import deliveries
from tidings.messaging.integration.cursors import CURSORS, Cursor
from tidings.messaging.integration.hooks import NEWS
from tidings.model import Content, ContentPatch
from tidings.node import node as nodes
from tidings.node.node import Node
from tidings.stores.tables.records import Put, of_conversation

HOUR_MS = 3_600_000


async def say(node: Node, conversation_id: str, *texts: str) -> None:
    for text in texts:
        await node.core.sends.send("alice", conversation_id, None, Content(text))


async def test_entries_come_signed_and_in_order(node: Node, endpoint: Endpoint, conversation: str) -> None:
    await say(node, conversation, "before")
    hook = await node.core.integration.hooks.create(endpoint.url)
    await endpoint.until(lambda: node.core.clock.now_ms() > (hook.from_ms or 0))
    await say(node, conversation, "one", "two", "three")
    await endpoint.until(lambda: endpoint.taken(conversation) == [2, 3, 4])
    first = endpoint.posts[0]
    assert first.is_signed_with(hook.secret) and not first.is_signed_with("another")
    assert (first.body["webhook_id"], first.body["entries"][0]["text"]) == (hook.webhook_id, "one")
    assert len({post.key for post in endpoint.posts}) == len(endpoint.posts)
    await endpoint.until(lambda: node.core.metrics.webhooks["delivered"].value >= 1)


async def test_news_goes_when_everything_is_delivered(node: Node, endpoint: Endpoint, conversation: str) -> None:
    await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    await say(node, conversation, "one", "two")
    owner = of_conversation(conversation)
    async with asyncio.timeout(60):
        while endpoint.taken(conversation) != [1, 2] or await node.core.tables.records.page(owner, NEWS, limit=1):
            await asyncio.sleep(0.01)


async def test_kinds_that_are_not_wanted_are_passed_over(node: Node, endpoint: Endpoint, conversation: str) -> None:
    await node.core.integration.hooks.create(endpoint.url, kinds=["edit"], is_from_start=True)
    await say(node, conversation, "one", "two")
    await node.core.rewrites.edit("alice", conversation, 1, ContentPatch("better"))
    await endpoint.until(lambda: endpoint.posts)
    assert endpoint.taken(conversation) == [3]


async def test_a_webhook_from_the_start_gets_what_was_there(node: Node, endpoint: Endpoint, conversation: str) -> None:
    await say(node, conversation, *(f"text {n}" for n in range(bounds.WEBHOOK_ENTRIES_MAX + 20)))
    await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    await endpoint.until(lambda: len(endpoint.taken(conversation)) == bounds.WEBHOOK_ENTRIES_MAX + 20)
    assert endpoint.taken(conversation) == list(range(1, bounds.WEBHOOK_ENTRIES_MAX + 21))
    assert max(len(post.seqs) for post in endpoint.posts) == bounds.WEBHOOK_ENTRIES_MAX


async def test_an_endpoint_that_was_down_gets_the_same_requests_again(
    node: Node, endpoint: Endpoint, conversation: str
) -> None:
    endpoint.status = 503
    await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    await say(node, conversation, "one")
    await endpoint.until(lambda: endpoint.posts)
    await say(node, conversation, "two", "three")
    await endpoint.until(lambda: len(endpoint.posts) >= 2)
    endpoint.status = 204
    await endpoint.until(lambda: endpoint.taken(conversation) == [1, 2, 3])
    by_key: dict[str, list[int]] = {}
    for post in endpoint.posts:
        assert by_key.setdefault(post.key, post.seqs) == post.seqs
    seen = [seq for seqs in by_key.values() for seq in seqs]
    assert sorted(seen) == sorted(set(seen)), "an entry came under two keys"


async def test_a_hanging_endpoint_holds_up_no_other(node: Node, endpoint: Endpoint, conversation: str) -> None:
    async with open_endpoint() as slow:
        slow.gate = asyncio.Event()
        await node.core.integration.hooks.create(slow.url, is_from_start=True)
        await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
        await say(node, conversation, "one")
        await endpoint.until(lambda: endpoint.taken(conversation) == [1] and slow.posts)
        await say(node, conversation, "two")
        await endpoint.until(lambda: endpoint.taken(conversation) == [1, 2])
        slow.gate.set()
        await slow.until(lambda: slow.taken(conversation) == [1, 2])


async def test_refused_entries_pause_one_conversation_of_one_webhook(
    node: Node, endpoint: Endpoint, conversation: str
) -> None:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="fine")
    fine = view.head.conversation_id
    hook = await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    deliveries = node.core.integration.deliveries
    deliveries._backoff_s = lambda failures: 0.01  # type: ignore[method-assign]

    def refuse(post: Posted) -> int:
        return 422 if post.body["conversation_id"] == conversation else 200

    endpoint.status = refuse
    await say(node, conversation, "poison")
    await say(node, fine, "good")
    state = node.core.integration.lag.state
    async with asyncio.timeout(90):
        while not (paused := (await state(hook.webhook_id)).paused):
            await asyncio.sleep(0.02)
    assert [(one.conversation_id, one.from_seq, one.answer) for one in paused] == [(conversation, 1, "422")]
    assert endpoint.taken(fine) == [1]
    endpoint.status = 200
    count = len(endpoint.posts)
    await node.core.integration.lag.replay(hook.webhook_id, conversation, 1)
    await endpoint.until(lambda: len(endpoint.posts) > count)
    assert endpoint.posts[-1].key.endswith("/r1")
    async with asyncio.timeout(60):
        while (await state(hook.webhook_id)).paused:
            await asyncio.sleep(0.02)


async def test_a_poison_entry_holds_up_nothing_before_it_and_is_named(
    node: Node, endpoint: Endpoint, conversation: str
) -> None:
    await say(node, conversation, *(f"text {n}" for n in range(1, 31)))

    def refuse_one(post: Posted) -> int:
        return 422 if any(entry["text"] == "text 20" for entry in post.body["entries"]) else 200

    endpoint.status = refuse_one
    node.core.integration.deliveries._backoff_s = lambda failures: 0.01  # type: ignore[method-assign]
    hook = await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    state = node.core.integration.lag.state
    async with asyncio.timeout(90):
        while not (paused := (await state(hook.webhook_id)).paused):
            await asyncio.sleep(0.02)
    assert [one.from_seq for one in paused] == [20]
    taken = [seq for post in endpoint.posts if refuse_one(post) == 200 for seq in post.seqs]
    assert taken == list(range(1, 20))
    await node.core.integration.lag.replay(hook.webhook_id, conversation, 21)  # an operator passes over it
    await endpoint.until(lambda: 30 in [seq for post in endpoint.posts if refuse_one(post) == 200 for seq in post.seqs])
    taken = [seq for post in endpoint.posts if refuse_one(post) == 200 for seq in post.seqs]
    assert taken == [*range(1, 20), *range(21, 31)]


async def test_another_node_delivers_what_a_gone_node_left(settings: Settings, endpoint: Endpoint) -> None:
    async with nodes.open_node(settings) as first:
        view, _ = await first.core.directory.create("alice", kind="group", members=["bob"], name="two")
        conversation = view.head.conversation_id
        await first.core.integration.hooks.create(endpoint.url, is_from_start=True)
        await first.core.integration.deliveries.loop.stop()  # it stores, and delivers nothing
        await say(first, conversation, "one", "two")
        assert endpoint.posts == []
    async with nodes.open_node(settings):
        await endpoint.until(lambda: endpoint.taken(conversation) == [1, 2])


@pytest.fixture
def wide_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_WIDE_LOOK_S", 0.0)


def hour_ahead(self: Clock) -> int:
    return time.time_ns() // 1_000_000 + HOUR_MS


@pytest.mark.usefixtures("wide_looks")
async def test_a_clock_that_was_an_hour_ahead_holds_nothing_up(
    node: Node, endpoint: Endpoint, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.status = 503
    with monkeypatch.context() as wrong:
        wrong.setattr(Clock, "now_ms", hour_ahead)
        await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
        await say(node, conversation, "one", "two")
        await endpoint.until(lambda: endpoint.posts)
        async with asyncio.timeout(60):
            while not await news_an_hour_ahead(node, conversation):
                await asyncio.sleep(0.01)
    endpoint.posts.clear()  # all of these were refused
    endpoint.status = 204
    await endpoint.until(lambda: endpoint.taken(conversation) == [1, 2])


@pytest.mark.usefixtures("wide_looks")
async def test_what_a_node_with_a_wrong_clock_left_behind_is_delivered(
    settings: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes.open_node(settings) as first:
        view, _ = await first.core.directory.create("alice", kind="group", members=["bob"], name="two")
        conversation = view.head.conversation_id
        hook = await first.core.integration.hooks.create(endpoint.url, is_from_start=True)
        await first.core.integration.deliveries.loop.stop()
        with monkeypatch.context() as wrong:
            wrong.setattr(Clock, "now_ms", hour_ahead)
            await say(first, conversation, "one", "two")
        assert await news_an_hour_ahead(first, conversation)
        held = Cursor(acked_seq=0, holder="gone", held_until_ms=hour_ahead(first.core.clock))
        put = Put(of_conversation(conversation), CURSORS, hook.webhook_id, msgspec.json.encode(held))
        await first.core.tables.records.put([put])
    async with nodes.open_node(settings):
        await endpoint.until(lambda: endpoint.taken(conversation) == [1, 2])


async def news_an_hour_ahead(node: Node, conversation_id: str) -> bool:
    found = await node.core.tables.records.page(of_conversation(conversation_id), NEWS, limit=1)
    return any((record.due_ms or 0) > time.time() * 1000 + HOUR_MS // 2 for record in found)
