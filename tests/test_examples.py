"""Every example runs as it stands, as a process of its own against a whole node, and does what it says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.paths import PYTHONPATH
from tests.support.waiting import eventually
from tidings import testing
from tidings.testing import TestServer
from tidings_client import MessageAppended, MessageNew

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 40


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with testing.server() as running:
        yield running


@asynccontextmanager
async def running(name: str, server: TestServer, *words: str, **env: str) -> AsyncIterator[Process]:
    """The example as a process; it is ended with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(words or (str(ROOT / "examples" / name),)),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "URL": server.url, **env},
        stdin=PIPE,
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


async def ended(process: Process, stdin: str = "") -> str:
    output, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 200)
    assert process.returncode == 0
    return output.decode().strip()


async def test_the_echo_bot_answers(server: TestServer) -> None:
    async with running("echo_bot.py", server, TOKEN=server.token("echo")) as bot:
        assert await said(bot) == "listening as echo"
        alice = await server.client("alice")
        conversation_id = await alice.direct("echo")
        answers = alice.messages(conversation_id)
        await alice.send(conversation_id, "hello")
        assert (await asyncio.wait_for(anext(answers), 60)).text == "you said: hello"


async def test_the_answering_bot_answers_once_and_goes_on_after_a_restart(server: TestServer, tmp_path: Path) -> None:
    key = await server.bot_key("helper")
    alice = await server.client("alice")
    conversation_id = await alice.direct("helper")
    answers = alice.messages(conversation_id)
    cursor = tmp_path / "cursor"
    env = {"KEY": key, "CURSOR": str(cursor)}
    async with running("answering_bot.py", server, **env) as bot:
        assert await said(bot) == "listening as helper"
        await alice.send(conversation_id, "who?")
        assert (await asyncio.wait_for(anext(answers), 60)).text == "You asked: who?"
        await eventually(cursor.exists)
    await alice.send(conversation_id, "why?")  # while it is away
    async with running("answering_bot.py", server, **env) as bot:
        assert (await asyncio.wait_for(anext(answers), 60)).text == "You asked: why?"
    said_once = [one.text async for one in alice.history(conversation_id) if one.sender_id == "helper"]
    assert said_once == ["You asked: why?", "You asked: who?"]


async def test_the_streaming_agent_answers_word_by_word(server: TestServer) -> None:
    async with running("streaming_agent.py", server, TOKEN=server.token("agent")) as agent:
        assert await said(agent) == "listening as agent"
        alice = await server.client("alice")
        conversation_id = await alice.direct("agent")
        heard = alice.events(MessageAppended, MessageNew)
        await alice.send(conversation_id, "why?")
        pieces: list[str] = []
        async with asyncio.timeout(60):
            async for event in heard:
                if isinstance(event, MessageAppended):
                    pieces.append(event.text)
                elif isinstance(event, MessageNew) and event.message.state == "done":
                    assert (event.message.text or "").startswith("You asked: why? I must")
                    break
        assert pieces and "You asked: why? ".startswith("".join(pieces)[:16])  # words of a busy moment come together
        assert (await alice.message(conversation_id, 2)).message_id == "re-1"


async def test_the_backend_sends_once_however_often_it_is_run(server: TestServer) -> None:
    for words in ("sent 1", "sent before 1"):
        async with running("send_from_backend.py", server, API_KEY=server.api_key) as process:
            assert await ended(process) == words
    assert (await server.server().account("alice").unread()).total_unread == 1


async def test_the_badge_follows_every_change(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    async with running("unread_badge.py", server, TOKEN=server.token("bob")) as badge:
        assert await said(badge) == "unread: 0"
        await alice.send(conversation_id, "hello")
        assert await said(badge) == "unread: 1"
        await bob.mark_read(conversation_id, 1)
        assert await said(badge) == "unread: 0"


async def test_the_suite_of_ones_own_passes(server: TestServer) -> None:
    file = str(ROOT / "examples" / "test_with_a_real_server.py")
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--asyncio-mode=auto", "-c", os.devnull, file)
    async with running("", server, *words) as process:
        assert "1 passed" in await ended(process)


async def test_old_messages_come_in_once_and_a_conversation_goes_out_whole(server: TestServer) -> None:
    old = [{"id": f"old-{n}", "from": "alice", "to": "bob", "text": f"text {n}", "ts": 1_000 + n} for n in range(5)]
    lines = "".join(json.dumps(line) + "\n" for line in old)
    for stored in ("stored 5", "stored 0"):
        async with running("import_history.py", server, API_KEY=server.api_key) as process:
            assert await ended(process, lines) == stored
    name = await server.server().account("bob").direct("alice")
    token = server.token("bob")
    async with running("export_conversation.py", server, TOKEN=token, CONVERSATION=name) as process:
        entries = [json.loads(line) for line in (await ended(process)).splitlines()]
    assert [(entry["text"], entry["ts"]) for entry in entries] == [(line["text"], line["ts"]) for line in old]


def snippets(file: str) -> list[str]:
    text = (ROOT / file).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


async def test_the_snippets_of_the_clients_readme_run_as_they_are(server: TestServer) -> None:
    blocks = snippets("clients/python/README.md")
    assert len(blocks) == 2
    for block in blocks:
        code = block.replace("http://127.0.0.1:8000", server.url)
        env = {"TOKEN": server.token("alice"), "API_KEY": server.api_key}
        async with running("", server, "-c", code, **env) as process:
            await ended(process)
    assert (await server.server().account("bob").unread()).total_unread == 1
    assert (await server.server().account("alice").unread()).total_unread == 1


def test_every_example_is_short_and_run_by_a_test() -> None:
    tests = "".join(file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py")))
    for file in EXAMPLES:
        assert len(file.read_text("utf-8").splitlines()) < LINES_MAX, file.name
        assert file.name in tests, file.name
