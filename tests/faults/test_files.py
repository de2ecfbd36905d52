"""Files over a killed node: no message without its file, no orphan after a sweep; and large files in little memory."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.support.messaging.bombs import BOMBS
from tests.support.nodes.node_process import SECRET, NodeProcess
from tests.support.servers.moto_server import CREDENTIALS, S3Server
from tests.support.servers.moto_server import s3 as s3
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


async def begun(http: httpx.AsyncClient, conversation_id: str, size: int, mime: str = "a/b") -> dict[str, Any]:
    body = {"name": "a.bin", "mime": mime, "bytes": size}
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


async def whole(http: httpx.AsyncClient, conversation_id: str, given: int | bytes, mime: str = "a/b") -> str:
    """Upload these bytes, or so many."""
    upload = await begun(http, conversation_id, given if isinstance(given, int) else len(given), mime)
    for part in upload["parts"]:
        length = part["to"] - part["from"]
        headers = {"Content-Length": str(length)}
        headers |= part["headers"]
        content = noise(length) if isinstance(given, int) else given[part["from"] : part["to"]]
        assert (await http.put(part["url"], content=content, headers=headers)).is_success
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


class Accounts:
    """The kernel's account of a process, and of the children that it waited for."""

    def __init__(self, pid: int) -> None:
        self._place = Path(f"/proc/{pid}")

    def peak_bytes(self) -> int:
        """The most memory that the process itself ever had."""
        found = re.search(r"^VmHWM:\s+(\d+) kB$", (self._place / "status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def children_ticks(self) -> int:
        """The processor time of its children."""
        fields = (self._place / "stat").read_text().rpartition(")")[2].split()
        return int(fields[13]) + int(fields[14])

    def libraries(self) -> str:
        return (self._place / "maps").read_text()


async def test_a_bomb_is_opened_by_another_process_and_costs_the_node_nothing(tmp_path: Path) -> None:
    """Each bomb would take 50 MiB or more in the process that opens it."""
    image = pytest.importorskip("PIL.Image", reason="the extra `thumbnails` is not installed")
    photo = io.BytesIO()
    image.effect_noise((1_200, 900), 90).convert("RGB").save(photo, "PNG")
    with NodeProcess(tmp_path / "data").start() as node:
        conversation_id, accounts = node.create_group(["alice", "bob"]), Accounts(node.pid)

        async def thumbnail_of(http: httpx.AsyncClient, data: bytes) -> int:
            file_id = await whole(http, conversation_id, data, mime="image/png")
            path = f"/v1/conversations/{conversation_id}/files/{file_id}/thumbnail"
            return (await http.get(path)).status_code

        async with as_alice(node) as http:
            assert await thumbnail_of(http, photo.getvalue()) == 302  # what every first picture needs is there
            for name, data in BOMBS.items():
                peak_bytes, ticks = accounts.peak_bytes(), accounts.children_ticks()
                assert await thumbnail_of(http, data) == 404, name
                assert accounts.children_ticks() > ticks, name
                assert accounts.peak_bytes() - peak_bytes < 16 * MIB, name
        libraries = accounts.libraries()
        assert "apsw" in libraries and "PIL" not in libraries and "pillow" not in libraries


class Usage:
    """The memory of a process, and the processor time since the last look."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used_s = 0.0
        self.cpu_s()
        self.idle_bytes = self.most_bytes = self._rss_bytes()

    def _rss_bytes(self) -> int:
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        before, self._used_s = self._used_s, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return self._used_s - before

    def above_idle_mib(self) -> float:
        return (self.most_bytes - self.idle_bytes) / MIB

    async def watch(self) -> None:
        while True:
            self.most_bytes = max(self.most_bytes, self._rss_bytes())
            await asyncio.sleep(0.02)


async def there_and_back(http: httpx.AsyncClient, conversation_id: str, size: int) -> None:
    file_id = await whole(http, conversation_id, size)
    link = (await http.get(f"/v1/conversations/{conversation_id}/files/{file_id}?link=1")).json()["url"]
    async with httpx.AsyncClient(base_url=http.base_url, timeout=120) as plain, plain.stream("GET", link) as answer:
        assert sum([len(chunk) async for chunk in answer.aiter_bytes()]) == size


async def used(node: NodeProcess, size: int) -> tuple[float, float, float]:
    """Processor seconds of a small file and of a large one, and the MiB above idle while the large one is under way."""
    conversation_id = node.create_group(["alice", "bob"])
    async with as_alice(node) as http:
        await there_and_back(http, conversation_id, 6 * MIB)  # what every first upload needs is there
        usage = Usage(node.pid)
        await there_and_back(http, conversation_id, MIB)
        small_s = usage.cpu_s()
        watching = asyncio.ensure_future(usage.watch())
        await there_and_back(http, conversation_id, size)
        watching.cancel()
        return small_s, usage.cpu_s(), usage.above_idle_mib()


@pytest.mark.long
async def test_a_large_file_passes_a_node_in_little_memory(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", {"TIDINGS_FILES_MAX_BYTES": str(LARGE)}).start() as node:
        _, _, above_mib = await used(node, LARGE)
        assert above_mib < 16, f"{above_mib:.1f} MiB above idle"


@pytest.mark.long
async def test_the_bytes_of_a_large_file_in_s3_never_pass_the_node(tmp_path: Path, s3: S3Server) -> None:
    blobs = {"TIDINGS_BLOBS": s3.url("large"), "TIDINGS_FILES_MAX_BYTES": str(LARGE), **CREDENTIALS}
    with NodeProcess(tmp_path / "data", blobs).start() as node:
        small_s, large_s, above_mib = await used(node, LARGE)
        async with as_alice(node) as http:
            assert len((await begun(http, node.create_group(["alice", "bob"]), LARGE))["parts"]) == 40
        assert large_s - small_s < 0.5, f"{large_s:.2f} s of the node's processor, {small_s:.2f} s for a small file"
        assert above_mib < 4, f"{above_mib:.1f} MiB above idle"
