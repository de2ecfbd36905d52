"""People who share files in one group of a real node, over REST."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx

from tidings import testing
from tidings.config.settings import Settings
from tidings.node.graph import Core

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000005"
    "0001e226059b0000000049454e44ae426082"
)


class Sharing:
    """Alice and Bob are in the group. Eve is not."""

    def __init__(self, node: testing.TestServer, http: httpx.AsyncClient) -> None:
        self.node = node
        self.http = http
        self.conversation_id = ""

    @property
    def core(self) -> Core:
        return self.node.node.core

    @property
    def path(self) -> str:
        return f"/v1/conversations/{self.conversation_id}"

    def as_user(self, user_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.node.token(user_id)}"}

    async def ask(
        self, method: str, path: str, body: object = None, user_id: str = "alice"
    ) -> tuple[int, dict[str, Any]]:
        """Ask below the conversation. A redirect is not followed: its place is the answer."""
        answer = await self.http.request(method, self.path + path, json=body, headers=self.as_user(user_id))
        if answer.status_code == 302:
            return 302, {"location": answer.headers["location"]}
        return answer.status_code, answer.json() if answer.content else {}

    async def begin(self, data: bytes, user_id: str = "alice", **facts: object) -> dict[str, Any]:
        body = {"name": "photo.png", "mime": "image/png", "bytes": len(data)} | facts
        status, begun = await self.ask("POST", "/uploads", body, user_id)
        assert status == 201, begun
        return begun

    async def send_parts(self, begun: dict[str, Any], data: bytes) -> None:
        for part in begun["parts"]:
            answer = await self.http.put(part["url"], content=data[part["from"] : part["to"]], headers=part["headers"])
            assert answer.status_code in (200, 204), answer.text

    async def upload(self, data: bytes = PIXEL, user_id: str = "alice", **facts: object) -> str:
        """A complete upload: its file_id."""
        begun = await self.begin(data, user_id, **facts)
        await self.send_parts(begun, data)
        status, file = await self.ask("POST", f"/uploads/{begun['file_id']}/complete", user_id=user_id)
        assert status == 200, file
        file_id: str = file["file_id"]
        return file_id

    async def say(
        self, *file_ids: str, message_id: str | None = None, user_id: str = "alice", **fields: object
    ) -> tuple[int, dict[str, Any]]:
        body = {"files": list(file_ids), **({"message_id": message_id} if message_id else {}), **fields}
        return await self.ask("POST", "/messages", body, user_id)

    async def messages(self, user_id: str = "bob") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.ask("GET", "/messages?limit=100", user_id=user_id))[1]["messages"]
        return found

    async def read(self, file_id: str, user_id: str = "bob", query: str = "") -> httpx.Response:
        """The answer of the last place: the bytes, or the refusal."""
        headers = self.as_user(user_id)
        answer = await self.http.get(f"{self.path}/files/{file_id}{query}", headers=headers)
        return answer if answer.status_code != 302 else await self.http.get(answer.headers["location"])

    async def sweep(self) -> None:
        await self.core.cold.archiving.run()

    def objects(self) -> list[Path]:
        """The objects of files in the folder of the blobs."""
        root = self.core.settings.data / "blobs"
        return sorted(path for path in root.glob("*.files/**/*") if path.is_file())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@asynccontextmanager
async def sharing(settings: Settings | None = None) -> AsyncIterator[Sharing]:
    async with testing.server(settings) as node, httpx.AsyncClient(base_url=node.url, timeout=60) as http:
        made = Sharing(node, http)
        body = {"kind": "group", "name": "holidays", "members": ["bob"]}
        answer = await http.post("/v1/conversations", json=body, headers=made.as_user("alice"))
        made.conversation_id = answer.json()["conversation_id"]
        yield made
