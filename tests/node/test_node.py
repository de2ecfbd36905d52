"""How a node goes: in order, and within its time, whatever hangs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.devices.plain_client import token_for
from tests.support.gateway.raw_websocket import Wire, http
from tests.support.waiting import eventually
from tidings.bounds import Limit
from tidings.clock import Clock
from tidings.config.settings import Limits, Settings
from tidings.errors import Problem, Unavailable
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.send.takeover import Takeover
from tidings.model import Content
from tidings.node import node, stores
from tidings.pushes import ConversationAdded

_STUCK = """
import asyncio, os, signal, sys, threading
from tidings.node import node
from tidings.telemetry.logs import configure_logs

async def main():
    asyncio.current_task().set_name("end of something")
    stop = node.Stop()
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()
    {hang}

configure_logs("json", "info", "n1")
node.END_S = 0.01
asyncio.run(main())
"""


def causes(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [vars(record)["cause"] for record in caplog.records if record.message == event]


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_node_that_cannot_finish_leaves_in_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node, "DRAIN_S", node.PARTS_END_S + stores.STORE_END_S + 0.1)
    async with node.open_node(settings) as leaving:
        monkeypatch.setattr(leaving.core.sends, "drain", hangs)
    assert causes(caplog, "node left with work unfinished") == ["out of time"]


async def test_receipts_are_written_also_where_the_keyspace_is_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flushed = []

    async def gone() -> None:
        raise Unavailable("no keyspace")

    async def flush() -> None:
        flushed.append(True)

    async with node.open_node(settings) as leaving:
        monkeypatch.setattr(leaving.core.sends, "drain", gone)
        monkeypatch.setattr(leaving.core.receipts, "flush", flush)
    assert flushed == [True] and causes(caplog, "node left with work unfinished") == ["no keyspace"]


async def test_nothing_of_a_node_outlives_its_stores_though_the_tables_refuse(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0

    async def refuses(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise Unavailable("the tables refuse")

    before = asyncio.all_tasks()
    async with node.open_node(settings) as leaving:
        core = leaving.core
        view, _ = await core.directory.create("alice", kind="direct", members=["bob"])
        sent = await core.sends.send("alice", view.head.conversation_id, None, Content(text="hello"))
        monkeypatch.setattr(core.tables.statuses, "deliver", refuses)
        monkeypatch.setattr(core.tables.inboxes, "touch", refuses)
        core.receipts.delivered("bob", {view.head.conversation_id: sent.entry.seq_no})
        await eventually(lambda: tried > 0)
    assert asyncio.all_tasks() == before and tried > 0
    core.receipts.delivered("bob", {view.head.conversation_id: sent.entry.seq_no})
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("part", [(Overrides, "refresh"), (Takeover, "finish_own")], ids=lambda part: part[1])
async def test_a_start_that_fails_leaves_nothing_running(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, part: tuple[type, str]
) -> None:
    async def refuses(_: object) -> None:
        raise Unavailable("no tables")

    before = asyncio.all_tasks()
    monkeypatch.setattr(*part, refuses)
    with pytest.raises(Unavailable, match="no tables"):
        async with node.open_node(settings):
            pytest.fail("the node started without its limits")
    assert asyncio.all_tasks() == before


async def test_announcements_end_before_the_stores(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def hangs_here(*_: object) -> None:
        begun.set()
        await hangs()

    before = asyncio.all_tasks()
    async with node.open_node(settings) as leaving:
        core = leaving.core
        monkeypatch.setattr(core.router, "may_reach", lambda _: True)
        monkeypatch.setattr(core.registry, "is_online", hangs_here)
        core.announcements.announce([("bob", "c1")], ConversationAdded)
        await begun.wait()
    assert asyncio.all_tasks() == before


async def test_a_store_or_a_part_that_does_not_end_is_named_and_holds_up_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def open_stuck(*args: Any) -> object:
        return replace(await opened(*args), close=hangs)

    opened: Callable[..., Awaitable[Any]] = stores.open_tables
    monkeypatch.setattr(stores, "open_tables", open_stuck)
    monkeypatch.setattr(stores, "STORE_END_S", 0.1)
    monkeypatch.setattr(node, "PARTS_END_S", 0.1)
    async with asyncio.timeout(60), node.open_node(settings) as leaving:
        monkeypatch.setattr(leaving.gateway, "stop", hangs)
        close = leaving.core.tables.close
    named = [vars(record)["part"] for record in caplog.records if record.message == "part did not end"]
    assert (named[0], named[-1]) == ("gateway", "tables")
    assert close is hangs and not leaving.core.keyspace.is_up()


@pytest.mark.parametrize("hang", ["await asyncio.Event().wait()", "threading.Event().wait()"])
def test_a_process_that_does_not_end_is_ended_and_says_what_hangs(hang: str) -> None:
    """The second loop hangs itself, so that it runs nothing any more."""
    ended = subprocess.run(
        [sys.executable, "-c", _STUCK.format(hang=hang)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    assert "node ends by force" in ended.stderr and "end of something" in ended.stderr


class OffClock(Clock):
    """A machine that nobody has set by NTP."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    def now_ms(self) -> int:
        return super().now_ms() + round(self.off_s * 1000)


@pytest.mark.parametrize("off_s", [12, -4.5, 2])
async def test_a_node_whose_clock_is_off_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture, off_s: float
) -> None:
    async with node.open_node(settings, OffClock(off_s)):
        [record] = [record for record in caplog.records if "clock" in record.message]
        assert record.levelname == "WARNING" and abs(vars(record)["ahead_s"] - off_s) < 1


async def test_a_node_whose_clock_is_right_says_nothing_of_it(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.open_node(settings):
        assert "clock" not in caplog.text


async def test_what_is_refused_leaves_nothing_to_the_garbage_collector(settings: Settings) -> None:
    """A refusal that is part of a cycle stays, with all the frames it went through, until the collector stops the loop
    for it. Thousands of refusals a second did so for 10 ms and more."""
    async with node.open_node(replace(settings, limits=Limits(create=Limit(1, 3600)))) as refusing:
        token = token_for(refusing, "ann")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        wire = await Wire.open(refusing.port)
        await wire.connect(token)
        strangers = {"conversation_id": "no-such", "message_id": "m1", "text": "hi"}
        requests: list[tuple[str, str, Any, int]] = [
            ("POST", "/v1/conversations", {"kind": "group", "members": ["bob"]}, 429),
            ("POST", "/v1/conversations", {"kind": "nonsense"}, 400),
            ("GET", "/v1/conversations/no-such", None, 404),
            ("POST", "/v1/conversations/no-such/messages", {"message_id": "m1", "text": "hi"}, 404),
            ("PUT", "/v1/inbox", None, 405),
        ]
        await http(refusing.port, *requests[0][:3], headers)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for method, path, body, status in requests:
                assert (await http(refusing.port, method, path, body, headers))[0] == status
            assert (await wire.ask("message.send", **strangers))["code"] == "not_found"
            assert (await wire.ask("auth.refresh", token="nonsense"))["type"] == "error"
            gc.collect()
            kept = [type(one).__name__ for one in gc.garbage if isinstance(one, Problem)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            wire.drop()
    assert kept == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a slack of timers that a process may set")
def test_the_timers_of_a_nodes_threads_fire_on_time() -> None:
    code = (
        "import os, threading\n"
        "from tidings.node.node import sharpen_the_timers\n"
        "sharpen_the_timers()\n"
        "def show(): print(open(f'/proc/{threading.get_native_id()}/timerslack_ns').read())\n"
        "one = threading.Thread(target=show); one.start(); one.join()\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) == node.TIMER_SLACK_NS
