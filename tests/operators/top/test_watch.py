"""Nodes are read again and again; one that is lost is said to be, and is taken up again when it is back."""

from __future__ import annotations

import pytest

from tests.conftest import Connect
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.config.values import SettingsError
from tidings.node.node import Node
from tidings.operators.top.servers import WatchedServers
from tidings.operators.top.watch import Watch, Watched, local_url, metrics_url, open_client
from tidings_proof.world.ports import free_port

NO_SERVERS = WatchedServers((), {}, 0, Clock())


async def test_a_node_at_work_is_seen_at_work(node: Node, connect: Connect) -> None:
    async with open_client() as client:
        watch = Watch([Watched(f"http://127.0.0.1:{node.port}", client, Clock())], NO_SERVERS, Clock())
        first = await watch.look()
        assert first.nodes[0].figures is None and first.all is None and not first.is_lost
        alice = await connect("alice")
        conversation, _ = await node.core.directory.create("alice", kind="group", members=["bob"])
        await alice.say(conversation.head.conversation_id, "m1")
        view = await watch.look()
    figures = view.nodes[0].figures
    assert figures is not None and figures == view.all
    assert figures.connections == 1 and figures.messages > 0 and figures.ack.p50_ms is not None
    assert all(latency.p50_ms is not None for latency in figures.stages.values())


async def test_a_lost_node_does_not_hide_the_others(node: Node) -> None:
    lost = f"http://127.0.0.1:{free_port()}"
    async with open_client() as client:
        nodes = [Watched(url, client, Clock()) for url in (lost, f"http://127.0.0.1:{node.port}")]
        watch = Watch(nodes, NO_SERVERS, Clock())
        await watch.look()
        view = await watch.look()
    assert view.nodes[0].lost and view.nodes[0].figures is None
    assert view.nodes[1].figures is not None and not view.is_lost


async def test_a_page_that_is_not_metrics_is_a_lost_node(node: Node) -> None:
    async with open_client() as client:
        watch = Watch([Watched(f"http://127.0.0.1:{node.port}/healthz", client, Clock())], NO_SERVERS, Clock())
        view = await watch.look()
    assert "not the /metrics" in view.nodes[0].lost and view.is_lost


def test_addresses_are_understood_with_and_without_their_parts() -> None:
    assert metrics_url("10.0.0.1:8000") == metrics_url("http://10.0.0.1:8000/") == "http://10.0.0.1:8000/metrics"
    assert metrics_url("https://chat.example.com/x/metrics") == "https://chat.example.com/x/metrics"
    assert metrics_url("me:secret@host:80") == "http://me:secret@host:80/metrics"
    assert metrics_url("[::1]:8000") == "http://[::1]:8000/metrics"
    for wrong in ("ftp://10.0.0.1", "foo", "me@host"):
        with pytest.raises(SettingsError, match="not an http:// or https:// address"):
            metrics_url(wrong)


def test_the_local_node_is_the_one_of_the_settings() -> None:
    assert local_url(Settings()) == "http://127.0.0.1:8000"
    assert local_url(Settings(host="0.0.0.0", port=9)) == "http://127.0.0.1:9"
    assert local_url(Settings(host="::", port=9)) == "http://[::1]:9"
    with pytest.raises(SettingsError):
        local_url(Settings(port=0))
