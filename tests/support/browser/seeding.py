"""What people find when they arrive: conversations and messages, made over the public protocol as any client would."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess

WAIT_S = 90
BURST = 100  # sends under way at a time; the socket takes 256

_ids = itertools.count(1)


class Seeds:
    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self._clients: dict[str, Client] = {}

    async def __aenter__(self) -> Seeds:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            await client.close()

    async def client(self, user_id: str) -> Client:
        if user_id not in self._clients:
            self._clients[user_id] = await Client(self.node.port, self.node.token(user_id)).connect()
        return self._clients[user_id]

    async def direct(self, user_id: str, other_id: str) -> str:
        return await self.create(user_id, "direct", [other_id])

    async def create(self, user_id: str, kind: str, members: Sequence[str], name: str | None = None) -> str:
        body = {"kind": kind, "members": list(members), "name": name}
        status, answer = await asyncio.to_thread(self.node.rest, "POST", "/v1/conversations", body, user_id)
        assert status in (200, 201), answer
        return str(answer["conversation_id"])

    async def introduce(self, user_id: str, name: str) -> None:
        """The name by which others see somebody."""
        path, body = f"/v1/users/{user_id}", {"name": name, "avatar_url": None}
        status, answer = await asyncio.to_thread(self.node.rest, "PUT", path, body, user_id)
        assert status == 200, answer

    async def say(self, user_id: str, conversation_id: str, *texts: str) -> None:
        """In this order, as fast as they are taken."""
        client = await self.client(user_id)
        for start in range(0, len(texts), BURST):
            burst = texts[start : start + BURST]
            asked = [
                client.ask("message.send", conversation_id=conversation_id, message_id=f"s{next(_ids)}", text=text)
                for text in burst
            ]
            answers = await asyncio.gather(*asked)
            assert all(answer["type"] == "ok" for answer in answers), answers

    async def reply(self, user_id: str, conversation_id: str, thread_seq: int, text: str) -> None:
        """In a thread, whose first reply follows it."""
        client = await self.client(user_id)
        facts = {"conversation_id": conversation_id, "message_id": f"s{next(_ids)}", "text": text}
        answer = await client.ask("message.send", thread_seq=thread_seq, **facts)
        assert answer["type"] == "ok", answer

    async def read(
        self, user_id: str, conversation_id: str, path: str, is_wanted: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Read something of a conversation until it is as wanted."""
        whole = f"/v1/conversations/{conversation_id}/{path}".rstrip("/")
        async with asyncio.timeout(WAIT_S):
            while not is_wanted((await asyncio.to_thread(self.node.rest, "GET", whole, None, user_id))[1]):
                await asyncio.sleep(0.05)

    async def log_of(self, user_id: str, conversation_id: str) -> list[str]:
        """The texts that the server has, oldest first."""
        texts: list[str] = []
        after: int | None = 0
        while after is not None:
            path = f"/v1/conversations/{conversation_id}/messages?after_seq={after}&limit=100"
            status, page = await asyncio.to_thread(self.node.rest, "GET", path, None, user_id)
            assert status == 200, page
            texts += [entry["text"] for entry in reversed(page["messages"]) if entry["kind"] == "message"]
            after = page["next_after_seq"]
        return texts
