"""The admin routes of a whole node show figures that are true, to operators alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.devices.operator_client import operator
from tests.support.devices.plain_client import Client, token_for
from tests.support.gateway.raw_websocket import http
from tidings import __version__
from tidings.node.node import Node

Connect = Callable[..., Awaitable[Client]]
LOOKS = (
    *("me", "overview", "activity", "users/ann", "users/ann/verify", "conversations/c1"),
    *("rejects", "audit", "push", "cold", "settings", "doctor"),
)


async def until(look: Callable[[], Awaitable[Any]], is_so: Callable[[Any], bool]) -> Any:
    """Repeat `look` until its answer satisfies `is_so`."""
    async with asyncio.timeout(60):
        while not is_so(found := await look()):
            await asyncio.sleep(0.05)
    return found


@pytest.fixture
async def group(node: Node) -> str:
    view, _ = await node.core.directory.create("ann", kind="group", members=["bob"], name="Two")
    return view.head.conversation_id


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LOOKS)
async def test_a_user_token_gets_nowhere(node: Node, path: str) -> None:
    token = {"Authorization": f"Bearer {token_for(node, 'ann')}"}
    for headers, refusal in (({}, 401), (token, 403), ({**token, "X-User-Id": "ann"}, 403), ({"X-Api-Key": "tk"}, 401)):
        assert (await http(node.port, "GET", f"/v1/admin/{path}", None, headers))[0] == refusal


async def test_the_page_itself_is_open_and_says_nothing(node: Node) -> None:
    status, headers, page = await http(node.port, "GET", "/admin")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in headers["content-security-policy"] and "'unsafe" not in str(headers)
    assert "set-cookie" not in headers and node.core.node_id not in page


async def test_a_readonly_key_looks(node: Node) -> None:
    reader = await operator(node, "readonly")
    me = await reader.look("me")
    assert me == {"name": "ops-readonly", "role": "readonly", "node_id": node.core.node_id, "is_dev": False}
    for path in ("overview", "users/ann", "rejects", "settings"):
        assert (await reader.ask("GET", path))[0] == 200


# --- what is shown --------------------------------------------------------------------------------


async def test_the_overview_counts_what_went_through(node: Node, connect: Connect, group: str) -> None:
    ann, _, ops = await connect("ann"), await connect("bob"), await operator(node)
    sent = 0

    async def talk() -> Any:
        nonlocal sent
        sent += 1
        await ann.say(group, f"m{sent}")
        return await ops.look("overview")

    seen = await until(talk, lambda found: any(point["messages"] > 0 for point in found["points"]))
    assert 0 < seen["messages"] <= sent and seen["deliveries"] == seen["messages"] and seen["step_ms"] == 2000
    point = next(one for one in seen["points"] if one["messages"] > 0)
    assert point["connections"] == 2 and point["deliveries"] == point["messages"]
    assert point["ack"]["p50_ms"] > 0 and point["stages"]["store"]["p99_ms"] > 0
    (me,) = seen["nodes"]
    assert (me["node_id"], me["is_here"], me["version"]) == (node.core.node_id, True, __version__)
    assert (me["connections"], me["users"], me["is_draining"]) == (2, 2, False)
    assert me["memory_bytes"] > 1_000_000 and me["seen_at"] > me["started_at"]
    last_ms = seen["points"][-1]["at_ms"]
    assert all(one["at_ms"] > last_ms for one in (await ops.look(f"overview?since={last_ms}"))["points"])


async def test_a_user_and_a_conversation_are_looked_up(node: Node, connect: Connect, group: str) -> None:
    ann, ops = await connect("ann", device="phone"), await operator(node)
    await ann.say(group, "m1", "not for operators")
    user = await ops.look("users/bob")
    assert (user["total_unread"], user["is_online"]) == (1, False)
    assert (await ops.look("users/ann"))["connections"][0]["device"] == "phone"
    assert (await ops.look("users/bob/verify"))["wrong"] == []
    shown = await ops.look(f"conversations/{group}")
    assert (shown["head"], [one["user_id"] for one in shown["members"]]) == (1, ["ann", "bob"])
    assert "not for operators" not in str(user) + str(shown)
    assert (await ops.ask("GET", "conversations/c-nowhere"))[0] == 404
    assert (await ops.ask("GET", "users/a{b"))[0] == 400
    assert (await ops.ask("GET", "users/bob?cursor=forged"))[0] == 400


async def test_settings_come_with_their_source_and_without_secrets(node: Node) -> None:
    ops = await operator(node)
    found = await ops.look("settings")
    settings = {one["path"]: one for one in found["settings"]}
    assert settings["auth.secret"]["value"] == "********"
    assert str(node.core.settings.auth.secret) not in str(found)
    assert (settings["port"]["source"], settings["members_max"]["source"]) == ("program", "default")


async def test_doctor_runs_once_for_all_who_ask_and_names_its_fixes(node: Node) -> None:
    ops = await operator(node)
    one, other = await asyncio.gather(ops.look("doctor"), ops.look("doctor"))
    assert one == other, "they shared a run"
    levels = [finding["level"] for finding in one["findings"]]
    assert levels == sorted(levels, key=("wrong", "advice", "unknown", "ok").index), "the worst is first"
    assert all(finding["fix"] for finding in one["findings"] if finding["level"] == "wrong")
    assert one["keyspace"][0]["keys_total"] > 0


async def test_the_rest_answers_on_a_quiet_node(node: Node) -> None:
    ops = await operator(node)
    assert len((await ops.look("activity"))["daily"]) == 30
    assert (await ops.look("rejects?minutes=15"))["minutes"] == 15
    assert (await ops.ask("GET", "rejects?minutes=0"))[0] == 400
    assert (await ops.look("audit"))["entries"] == []
    assert (await ops.look("push"))["dead_letters"] == []
    assert (await ops.look("cold"))["segments"] == 0
