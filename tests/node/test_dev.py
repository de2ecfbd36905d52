"""What `serve --dev` adds to a node: a key for the admin page, and a bot that greets and answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2 as httpx

from tests.support.nodes.node_process import SECRET, NodeProcess
from tests.support.waiting import eventually
from tidings.config.settings import Auth, Settings
from tidings.node.dev import GREETER, admin_key
from tidings_client import Client, Message

ANSWER_S = 60


async def texts_of(client: Client, conversation_id: str, count: int) -> list[Message]:
    """The messages of the conversation as soon as there are so many."""
    async with asyncio.timeout(ANSWER_S):
        stream = client.messages(conversation_id, own=True)
        found = [message async for message in client.history(conversation_id)][::-1]
        while len(found) < count:
            message = await anext(stream)
            if message.seq > max((one.seq for one in found), default=0):
                found.append(message)
        return found


async def test_the_bot_greets_once_whom_the_page_signs_in_and_answers(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", words=("--dev",)) as node:
        node.start()
        url = f"http://127.0.0.1:{node.port}"
        async with httpx.AsyncClient(base_url=url) as http:
            plain = await http.post("/v1/dev/token", json={"user_id": "carl"})
            for _ in range(2):
                signed_in = await http.post("/v1/dev/token", json={"user_id": "alice", "welcome": True})
        async with Client(url, signed_in.json()["token"]) as alice, Client(url, plain.json()["token"]) as carl:
            with_bot = await alice.direct(GREETER)
            (hello,) = await texts_of(alice, with_bot, 1)
            assert hello.sender_id == GREETER and "Welcome" in (hello.text or "")
            await alice.send(with_bot, "hi")
            _, mine, answer = await texts_of(alice, with_bot, 3)
            assert (mine.text, answer.sender_id) == ("hi", GREETER)
            assert (await carl.inbox()).conversations == []
        node.stop()


async def test_the_key_of_the_banner_opens_the_admin_page_at_each_start(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", words=("--dev",)) as node:
        node.start()
        key = admin_key(Settings(dev=True, auth=Auth(secret=SECRET)))
        await eventually(lambda: f"/admin#key={key}" in node.said())  # it is printed after the node listens
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.port}") as http:
            answer = await http.get("/v1/admin/me", headers={"X-Api-Key": key})
            assert (answer.status_code, answer.json()["role"]) == (200, "admin")
        node.stop()
