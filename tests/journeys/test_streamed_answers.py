"""A long streamed answer: two numbered entries, few row writes, and a killed node loses two seconds at most."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from tests.support.nodes.node_process import SECRET, NodeProcess
from tidings import testing
from tidings.messaging.streaming.bounds import STREAM_SAVE_S
from tidings_client import Client, MessageAppended, Problem, sign_token
from tidings_proof.world.valkey import start_valkey

TOKENS, PER_SECOND, WATCHERS = 4_000, 100, 50
WRITES_MAX = 25


@pytest.mark.long
async def test_an_answer_of_four_thousand_tokens_is_two_entries_and_few_writes() -> None:
    async with testing.server() as node:
        watchers = [f"w{n}" for n in range(WATCHERS)]
        group = await node.server().account("agent").create("group", watchers, name="watching")
        clients = [await node.client(user_id) for user_id in watchers]
        streams = [client.events(MessageAppended) for client in clients]
        agent = await node.client("agent")
        writes = node.node.core.metrics.writes
        tables = ("messages", "records")
        before = {table: writes[table].value for table in tables}
        whole = ""
        async with agent.streaming(group.conversation_id) as out:
            began_s = time.monotonic()
            for n in range(TOKENS):
                await asyncio.sleep(max(0.0, began_s + n / PER_SECOND - time.monotonic()))
                token = f"t{n} "
                whole += token
                await out.write(token)
        page = await agent.page(group.conversation_id, limit=100)
        assert [entry.kind for entry in page.messages] == ["edit", "message"]
        assert (page.messages[1].text, page.messages[1].state) == (whole, "done")
        took_s = time.monotonic() - began_s
        allowed = WRITES_MAX + max(0.0, took_s - TOKENS / PER_SECOND) / STREAM_SAVE_S  # a slow machine takes longer
        assert sum(writes[table].value - before[table] for table in tables) <= allowed
        for client, stream in zip(clients, streams, strict=True):
            heard = "".join([(await anext(stream)).text for _ in range(len(stream))])
            assert whole.startswith(heard) and heard
            assert (await client.unread()).total_unread == 1


@pytest.mark.long
async def test_a_killed_node_loses_two_seconds_of_tokens_at_most(tmp_path: Path) -> None:
    valkey = start_valkey(tmp_path / "v")
    env = {"TIDINGS_KEYSPACE": f"{valkey.url}?prefix=s.", "TIDINGS_TABLES": f"sqlite://{tmp_path}/shared.db"}
    try:
        with NodeProcess(tmp_path / "a", env) as first, NodeProcess(tmp_path / "b", env) as second:
            first.start(), second.start()
            conversation_id = first.create_group(["u0", "u1"])
            written: list[tuple[float, int]] = []  # when, and how many characters
            length = 0
            agent = Client(f"http://127.0.0.1:{first.port}", sign_token(SECRET, "u0"))
            await agent.connect()
            out = agent.streaming(conversation_id, message_id="re-1")
            await out.__aenter__()
            while not written or written[-1][0] - written[0][0] < STREAM_SAVE_S + 1.5:
                await out.write("token ")
                length += len("token ")
                written.append((time.monotonic(), length))
                await asyncio.sleep(0.01)
            killed_s = time.monotonic()
            first.kill()
            with contextlib.suppress(Problem, ConnectionError):
                await agent.close()
            text = second.rest("GET", f"/v1/conversations/{conversation_id}/messages/1")[1]["text"]
            safe = max(count for at_s, count in written if at_s <= killed_s - STREAM_SAVE_S)
            assert len(text) >= safe > 0 and ("token " * length).startswith(text)
    finally:
        valkey.stop()
