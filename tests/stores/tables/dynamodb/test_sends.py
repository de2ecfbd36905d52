"""Ten thousand sends of two nodes while DynamoDB throttles, conflicts and loses replies: all exact at the end."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.stores.tables.dynamodb.test_adapter import TROUBLE
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts, faults
from tidings.clock import Clock
from tidings.config.settings import Node, Settings
from tidings.errors import Problem
from tidings.model import Content, Entry
from tidings.node import graph
from tidings.node import stores as opening
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.ports import Tables
from tidings.telemetry.metrics import Metrics
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.dynamodb_shim import Faults

CONVERSATIONS = 20
MEMBERS = ("alice", "bob", "carol")
WINDOW = 25  # sends of one member under way
ROUNDS = 10_000 // (CONVERSATIONS * WINDOW)


@pytest.fixture
async def nodes(
    dynamodb: DynamoLocal,
    settings: Settings,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[list[graph.Core]]:
    """Two, on one keyspace and one set of tables."""
    url = dynamodb.url(fresh_prefix())
    await dynamodb_adapter.create(url, Clock())

    async def open_tables(settings: Settings, clock: Clock, metrics: Metrics) -> Tables:
        return await counts.open(url)

    monkeypatch.setattr(opening, "open_tables", open_tables)
    async with AsyncExitStack() as stack:
        named = [dataclasses.replace(settings, node=Node(id=node_id)) for node_id in ("a", "b")]
        yield [await stack.enter_async_context(graph.open_core(one)) for one in named]


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_ten_thousand_sends_in_trouble_are_all_there_once(dynamodb: DynamoLocal, nodes: list[graph.Core]) -> None:
    ids = [await _group(nodes[0], number) for number in range(CONVERSATIONS)]
    acknowledged: dict[str, dict[str, int]] = {id_: {} for id_ in ids}
    trouble = Faults(seed=11, **TROUBLE)
    with faults(dynamodb, trouble):
        for round_ in range(ROUNDS):
            await asyncio.gather(*(_send(nodes, id_, n, round_, acknowledged[id_]) for n, id_ in enumerate(ids)))
    assert set(trouble.injected) == set(TROUBLE) and sum(trouble.injected.values()) > 500
    for id_ in ids:
        await _check(nodes[1], id_, acknowledged[id_])
    for node in nodes:
        await node.sends.drain()
    assert (await nodes[0].verify.run(None, repair=False)).wrong == []
    for user_id in (f"{member}{n}" for member in MEMBERS for n in range(CONVERSATIONS)):
        await _check_counts(nodes[1], user_id, ids)


async def _group(node: graph.Core, number: int) -> str:
    members = [f"{member}{number}" for member in MEMBERS]
    view, _ = await node.directory.create(members[0], kind="group", members=members[1:])
    return view.head.conversation_id


async def _send(
    nodes: list[graph.Core], conversation_id: str, number: int, round_: int, acknowledged: dict[str, int]
) -> None:
    """A window of one member, each again and again until it is acknowledged; now and then to the other node."""
    sender_id = f"{MEMBERS[round_ % len(MEMBERS)]}{number}"

    async def until_acknowledged(message_id: str) -> None:
        tries = 0
        while True:
            node = nodes[(number + tries) % 2]
            try:
                sent = await node.sends.send(sender_id, conversation_id, message_id, Content(f"text of {message_id}"))
            except Problem as problem:
                assert problem.is_temporary, problem
                tries += 1
                continue
            assert acknowledged.setdefault(message_id, sent.entry.seq_no) == sent.entry.seq_no
            return

    await asyncio.gather(*(until_acknowledged(f"r{round_}-{at}") for at in range(WINDOW)))
    again = await nodes[(number + 1) % 2].sends.send(
        sender_id, conversation_id, f"r{round_}-0", Content(f"text of r{round_}-0")
    )
    assert again.is_duplicate and again.entry.seq_no == acknowledged[f"r{round_}-0"]


async def _check(node: graph.Core, conversation_id: str, acknowledged: dict[str, int]) -> None:
    """Every acknowledged id once, under its number, with its text; no slot open; the head as high as the log."""
    assert len(acknowledged) == ROUNDS * WINDOW
    log = await _closed(node, conversation_id)
    head = (await node.tables.conversations.heads([conversation_id]))[conversation_id]
    assert [entry.seq_no for entry in log] == list(range(1, head.head + 1))
    messages = [entry for entry in log if entry.kind == "message"]
    assert Counter(entry.message_id for entry in messages) == Counter(acknowledged.keys())
    assert {entry.message_id: entry.seq_no for entry in messages} == acknowledged
    assert all(entry.text == f"text of {entry.message_id}" for entry in messages)
    assert head.last_seq == messages[-1].seq_no and head.preview == messages[-1].text


async def _closed(node: graph.Core, conversation_id: str) -> list[Entry]:
    """The log, once its readers have closed what nobody filled."""
    deadline_s = time.monotonic() + 60
    while True:
        await node.log.after(conversation_id, 0, 100_000)
        log = await _log(node, conversation_id)
        if len(log) == log[-1].seq_no or time.monotonic() > deadline_s:
            return log
        await asyncio.sleep(0.2)


async def _log(node: graph.Core, conversation_id: str) -> list[Entry]:
    return await node.tables.log.page(conversation_id, after=0, before=1 << 53, limit=100_000, newest_first=False)


async def _check_counts(node: graph.Core, user_id: str, ids: list[str]) -> None:
    number = int("".join(char for char in user_id if char.isdigit()))
    log = await _log(node, ids[number])
    unread = sum(entry.kind == "message" and entry.sender_id != user_id for entry in log)
    assert (await node.unread.totals(user_id)).total_unread == unread
