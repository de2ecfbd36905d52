"""Files over a killed node: no message without its file, no orphan after a sweep; and a large file in little memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.support.nodes.node_process import SECRET, NodeProcess
from tidings.clock import Clock
from tidings.config.settings import Auth, Settings
from tidings.messaging.files.record import COLLECTION
from tidings.node.graph import open_core
from tidings.stores.tables.records import of_conversation

MIB = 1024 * 1024
LARGE = 200 * MIB


class Tomorrow(Clock):
    def now_ms(self) -> int:
        return super().now_ms() + 2 * 86_400_000


def as_alice(node: NodeProcess) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {node.token('alice')}"}
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.port}", headers=headers, timeout=120)


async def begun(http: httpx.AsyncClient, conversation_id: str, size: int) -> dict[str, Any]:
    body = {"name": "a.bin", "mime": "a/b", "bytes": size}
    answer = await http.post(f"/v1/conversations/{conversation_id}/uploads", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def complete(http: httpx.AsyncClient, conversation_id: str, upload: dict[str, Any]) -> None:
    path = f"/v1/conversations/{conversation_id}/uploads/{upload['file_id']}/complete"
    assert (await http.post(path)).status_code == 200


async def noise(size: int) -> AsyncIterator[bytes]:
    chunk = os.urandom(MIB)
    for at in range(0, size, MIB):
        yield chunk[: size - at]


async def whole(http: httpx.AsyncClient, conversation_id: str, size: int) -> str:
    upload = await begun(http, conversation_id, size)
    for part in upload["parts"]:
        length = part["to"] - part["from"]
        headers = {"Content-Length": str(length)}
        assert (await http.put(part["url"], content=noise(length), headers=headers)).status_code == 204
    await complete(http, conversation_id, upload)
    file_id: str = upload["file_id"]
    return file_id


def objects_of(data: Path) -> set[str]:
    return {path.parent.name for path in (data / "blobs").glob("*.files/**/*") if path.is_file()}


@pytest.mark.parametrize("turns", [0, 30, 600])
async def test_a_node_killed_between_complete_and_send_leaves_a_message_with_its_file_or_nothing(
    tmp_path: Path, turns: int
) -> None:
    data = tmp_path / "data"
    with NodeProcess(data).start() as node:
        conversation_id = node.create_group(["alice", "bob"])
        async with as_alice(node) as http:
            sent, unsent = [await whole(http, conversation_id, 1000) for _ in range(2)]
            half = await begun(http, conversation_id, 1000)
            await http.put(half["parts"][0]["url"], content=os.urandom(1000))
            body = {"message_id": "m1", "files": [sent]}
            path = f"/v1/conversations/{conversation_id}/messages"
            sending = asyncio.ensure_future(http.post(path, json=body))
            for _ in range(turns):
                await asyncio.sleep(0)
            node.kill_both()
            await asyncio.gather(sending, return_exceptions=True)
        assert {sent, unsent} <= objects_of(data)
        async with open_core(Settings(data=data, auth=Auth(secret=SECRET)), Tomorrow()) as core:
            await core.cold.archiving.run()
            entries = await core.tables.log.page(conversation_id, after=0, before=99, limit=99, newest_first=False)
            carried = {file.file_id for entry in entries if entry.content for file in entry.content.files}
            records = await core.tables.records.page(of_conversation(conversation_id), COLLECTION, limit=10)
        assert carried <= {sent}
        assert objects_of(data) == carried == {record.name for record in records}


@pytest.mark.long
async def test_a_large_file_passes_a_node_in_little_memory(tmp_path: Path) -> None:
    def rss_bytes() -> int:
        return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    most = 0
    with NodeProcess(tmp_path / "data", {"TIDINGS_FILES_MAX_BYTES": str(LARGE)}).start() as node:
        conversation_id = node.create_group(["alice", "bob"])
        async with as_alice(node) as http:
            await whole(http, conversation_id, 6 * MIB)  # what every first upload needs is there
            idle = rss_bytes()

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, rss_bytes())
                    await asyncio.sleep(0.02)

            watching = asyncio.ensure_future(watch())
            file_id = await whole(http, conversation_id, LARGE)
            link = (await http.get(f"/v1/conversations/{conversation_id}/files/{file_id}?link=1")).json()["url"]
            async with http.stream("GET", link) as answer:
                size = sum([len(chunk) async for chunk in answer.aiter_bytes()])
            watching.cancel()
        assert size == LARGE
        assert most - idle < 16 * MIB, f"{(most - idle) / MIB:.1f} MiB above idle"
