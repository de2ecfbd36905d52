"""A server key makes a channel of many people in few calls, while everybody else is served, in bounded memory."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.nodes.node_process import NodeProcess
from tests.support.nodes.worker_processes import needs_linux
from tidings.bounds import MEMBERS_BULK_MAX, PAGE_MAX

pytestmark = needs_linux
CALL_S = 600.0  # a call may take long on a slow machine
BYTES_PER_MEMBER = 4_000  # of the node's memory, at its highest; a list of members has about 300 of them


class Backend:
    """The team's own server, which acts for alice."""

    def __init__(self, node: NodeProcess) -> None:
        made = node.tidings("key", "create", "--name", "backend", "--json")
        assert made.returncode == 0, made
        self._headers = {"X-Api-Key": json.loads(made.stdout)["key"], "X-User-Id": "alice"}
        self._port = node.port

    def call(self, method: str, path: str, body: Any = None) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=CALL_S)
        try:
            link.request(method, path, None if body is None else json.dumps(body), self._headers)
            answer = link.getresponse()
            content = answer.read()
            assert answer.status < 300, (answer.status, content[:500])
            return json.loads(content) if content else None
        finally:
            link.close()


def high_water_bytes(pid: int) -> int:
    """The most memory that the process had so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024


async def play(folder: Path, people: int, together: int) -> None:
    with NodeProcess(folder / "data", {"TIDINGS_LIMITS_HTTP": "off"}) as node:
        node.start()
        backend, names = Backend(node), [f"user{number:06}" for number in range(people)]
        made = backend.call("POST", "/v1/conversations", {"kind": "channel", "name": "all", "members": []})
        path, before = f"/v1/conversations/{made['conversation_id']}", high_water_bytes(node.pid)
        other = node.create_group(["carol", "dave"])
        is_over, served = asyncio.Event(), 0

        async def beside() -> None:
            nonlocal served
            while not is_over.is_set():
                body = {"message_id": f"m{served}", "text": "beside"}
                status, _ = await asyncio.to_thread(
                    node.rest, "POST", f"/v1/conversations/{other}/messages", body, "carol"
                )
                assert status == 201
                served += 1

        others = asyncio.create_task(beside(), name="beside")
        for start in range(0, people, together):
            so_far, wanted = served, {"user_ids": names[start : start + together]}
            await asyncio.to_thread(backend.call, "POST", f"{path}/members", wanted)
            assert served > so_far, "somebody else was served during the call"
        await asyncio.to_thread(backend.call, "POST", f"{path}/members", wanted)  # an answer that was lost
        is_over.set()
        await others
        assert high_water_bytes(node.pid) - before < 100_000_000 + people * BYTES_PER_MEMBER

        found, cursor = list[str](), ""
        while cursor is not None:
            page = backend.call("GET", f"{path}/members?limit={PAGE_MAX}&cursor={cursor}")
            found += [one["user_id"] for one in page["members"]]
            cursor = page["next_cursor"]
        assert found == ["alice", *names]
        posted = backend.call("POST", f"{path}/messages", {"message_id": "first", "text": "welcome"})
        for user_id in (names[0], names[people // 2], names[-1]):
            assert node.rest("GET", "/v1/unread", user_id=user_id)[1]["total_unread"] == 1
            assert node.rest("POST", f"{path}/read", {"up_to_seq": posted["seq"]}, user_id)[0] == 200
        receipts = backend.call("GET", f"{path}/messages/{posted['seq']}/receipts")
        assert (receipts["read"], receipts["next_cursor"]) == (names[:1], names[PAGE_MAX - 2])


async def test_people_join_in_bulk_while_others_are_served(tmp_path: Path) -> None:
    await play(tmp_path, people=1_200, together=600)


@pytest.mark.long
@pytest.mark.timeout(3_600)
async def test_100000_people_join_in_calls_of_10000(tmp_path: Path) -> None:
    await play(tmp_path, people=100_000 - 1, together=MEMBERS_BULK_MAX)
