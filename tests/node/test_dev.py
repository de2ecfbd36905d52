"""What `serve --dev` adds to a node: a key for the admin page, and a bot that greets and answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.support.nodes.node_process import SECRET, NodeProcess
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.config.settings import Auth, Settings
from tidings.node import dev
from tidings.node.dev import GREETER, admin_key
from tidings.node.events import Events
from tidings_client import Client, Message
from tidings_client.errors import Forbidden, RateLimited

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
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
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


async def test_the_bots_of_two_nodes_leave_each_other_alone(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", words=("--dev",)) as node:
        node.start()
        url, events = f"http://127.0.0.1:{node.port}", Events()
        async with (
            dev.greeting(Settings(dev=True, auth=Auth(secret=SECRET)), events, Clock(), node.port),
            httpx.AsyncClient(base_url=url, timeout=60) as http,
        ):
            events.signed_in_on_page("alice")  # the bot beside the node greets alice, and the node's own greets bob
            for user_id in ("alice", "bob"):
                body = {"user_id": user_id, "welcome": user_id == "bob"}
                token = (await http.post("/v1/dev/token", json=body)).json()["token"]
                async with Client(url, token) as me:
                    await texts_of(me, await me.direct(GREETER), 1)
        assert "greeter begins again" not in node.said()
        node.stop()


async def test_the_key_of_the_banner_opens_the_admin_page_at_each_start(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", words=("--dev",)) as node:
        node.start()
        key = admin_key(Settings(dev=True, auth=Auth(secret=SECRET)))
        await eventually(lambda: f"/admin#key={key}" in node.said())  # it is printed after the node listens
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.port}", timeout=60) as http:
            answer = await http.get("/v1/admin/me", headers={"X-Api-Key": key})
            assert (answer.status_code, answer.json()["role"]) == (200, "admin")
        node.stop()


async def test_the_bot_connects_again_after_an_error_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        """A client whose every use fails in a way that nobody foresaw."""

        def __init__(self, *words: object, **named: object) -> None:
            tries.append(self)

        async def __aenter__(self) -> Broken:
            raise RuntimeError("not foreseen")

        async def __aexit__(self, *raised: object) -> None: ...

    tries: list[Broken] = []
    monkeypatch.setattr(dev, "Client", Broken)
    monkeypatch.setattr(dev, "_AGAIN_S", 0)
    settings = Settings(dev=True, auth=Auth(secret=SECRET))
    async with dev.greeting(settings, Events(), Clock(), 1):
        await eventually(lambda: len(tries) > 2)


async def test_a_greeting_that_the_limits_put_off_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limited:
        """A client that is over its limit at first, and whom bob has blocked."""

        async def direct(self, user_id: str) -> str:
            asked.append(user_id)
            if user_id == "bob":
                raise Forbidden
            if asked.count(user_id) < 3:
                raise RateLimited(retry_after_ms=1)
            return user_id

        async def send(self, conversation_id: str, text: str, *, message_id: str) -> None:
            greeted.put_nowait(conversation_id)

    asked: list[str] = []
    greeted: asyncio.Queue[str] = asyncio.Queue()
    waiting: asyncio.Queue[str] = asyncio.Queue(10)
    for user_id in ("alice", "bob", "carol"):
        waiting.put_nowait(user_id)
    monkeypatch.setattr(dev, "_AGAIN_S", 0)
    greeting = asyncio.ensure_future(dev._greet(Limited(), waiting))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        assert {await greeted.get(), await greeted.get()} == {"alice", "carol"}
    greeting.cancel()
    assert asked.count("bob") == 1
