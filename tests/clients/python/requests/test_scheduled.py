"""Scheduled messages through the client: put, listed, taken back, sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidings.testing import TestServer
from tidings_client import ScheduledFailed
from tidings_client.errors import NotFound


async def test_a_message_is_scheduled_listed_taken_back_and_sent(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    name = await alice.direct("bob")
    in_an_hour = server.node.core.clock.now_ms() + 3_600_000
    later = await alice.scheduled.put(name, "later", send_at=in_an_hour, message_id="later")
    assert (later.message_id, later.text, later.send_at) == ("later", "later", in_an_hour)
    came = bob.messages(name)
    now = await alice.scheduled.put(name, "now", send_at=1, ttl_s=3600)
    async with asyncio.timeout(60):
        sent = await anext(came)
    assert sent.message_id == now.message_id and sent.expires_at == sent.sent_at + 3_600_000
    assert [one.message_id for one in await alice.scheduled.all()] == ["later"]
    await alice.scheduled.remove("later")
    with pytest.raises(NotFound):
        await alice.scheduled.remove("later")


async def test_a_scheduled_message_takes_all_that_a_send_takes(server: TestServer, tmp_path: Path) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    name = await alice.direct("bob")
    root = await alice.send(name, "root")
    (tmp_path / "notes.txt").write_text("words")
    waiting = await alice.scheduled.put(
        name,
        send_at=server.node.core.clock.now_ms() + 3_600_000,
        files=[tmp_path / "notes.txt"],
        mentions=["bob"],
        mention="all",
        thread_seq=root.seq,
        also_here=True,
        message_id="m1",
    )
    assert await alice.scheduled.all() == [waiting]
    assert (waiting.mentions, waiting.mention, waiting.thread_seq, waiting.also_here) == (("bob",), "all", 1, True)
    came = bob.messages(name)
    await alice.scheduled.put(name, "now", send_at=1, files=[tmp_path / "notes.txt"], mentions=["bob"], thread_seq=1)
    async with asyncio.timeout(60):
        while (sent := await anext(came)).message_id == root.message_id:
            pass
    assert ([file.name for file in sent.files], sent.mentions, sent.thread_seq) == (["notes.txt"], ("bob",), 1)


async def test_a_refusal_is_an_event_and_stays_in_the_list(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    name = await alice.direct("bob")
    failures = alice.events(ScheduledFailed)
    await bob.block("alice")
    await alice.scheduled.put(name, "hello?", send_at=1, message_id="m1")
    async with asyncio.timeout(60):
        failed = await anext(failures)
    assert (failed.message_id, failed.code) == ("m1", "forbidden")
    assert [one.failed for one in await alice.scheduled.all()] == ["forbidden"]
