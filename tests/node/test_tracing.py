"""Traces: a batch is one trace with a span for each stage, its sends are linked to it; off it costs nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.otel_collector import Collector, running_collector
from tidings.clock import Clock
from tidings.config.settings import Otel, Settings
from tidings.errors import Unavailable
from tidings.model import Content
from tidings.node import node as nodes
from tidings.node.graph import open_core
from tidings.node.node import Node
from tidings.node.tracing import Tracing, open_tracing, traces_url
from tidings.telemetry.metrics import STAGES, Metrics
from tidings_proof.world.ports import free_port


async def send_some(node: Node, count: int) -> str:
    directory, sends = node.core.directory, node.core.sends
    conversation, _ = await directory.create("alice", kind="group", members=["bob"])
    for n in range(count):
        await sends.send("alice", conversation.head.conversation_id, f"m{n}", Content("a text that must not be told"))
    return conversation.head.conversation_id


async def traced(settings: Settings, collector: Collector, *, sends: int) -> None:
    """A node that did this, and was drained."""
    otel = Otel(endpoint=collector.url, every=1)
    async with nodes.open_node(dataclasses.replace(settings, otel=otel)) as node:
        await send_some(node, sends)


async def test_a_batch_is_a_trace_with_a_span_for_each_stage(settings: Settings) -> None:
    with running_collector() as collector:
        await traced(settings, collector, sends=1)
    (batch,) = collector.named("batch")
    stages = [span for span in collector.spans if span.parent_span_id == batch.span_id]
    assert [span.name for span in sorted(stages, key=lambda span: span.end_time_unix_nano)] == list(STAGES)
    assert {span.trace_id for span in stages} == {batch.trace_id}
    assert batch.attributes[0].key == "tidings.batch.size" and batch.attributes[0].value.int_value == 1
    for span in stages:
        assert batch.start_time_unix_nano <= span.end_time_unix_nano and span.start_time_unix_nano > 0
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert collector.paths == {"/v1/traces"}
    assert collector.resources[0]["service.name"] == "tidings"
    assert collector.resources[0]["service.instance.id"] == settings.node.id


async def test_a_send_is_linked_to_the_batch_that_carried_it_and_names_nobody(settings: Settings) -> None:
    with running_collector() as collector:
        await traced(settings, collector, sends=3)
    batches = {span.span_id: span for span in collector.named("batch")}
    sends = collector.named("send")
    assert len(sends) == 3
    for span in sends:
        (link,) = span.links
        assert link.span_id in batches and span.trace_id != link.trace_id
        assert span.end_time_unix_nano > span.start_time_unix_nano
    said = str(collector.spans)
    assert "alice" not in said and "must not be told" not in said


async def test_one_batch_in_so_many_is_traced_and_metrics_are_told_as_ever(settings: Settings) -> None:
    with running_collector() as collector:
        otel = Otel(endpoint=collector.url, every=5)
        async with nodes.open_node(dataclasses.replace(settings, otel=otel)) as node:
            await send_some(node, 20)
            page = node.core.metrics.render().decode()
    assert len(collector.named("batch")) == 4 == len(collector.named("store"))
    assert "tidings_send_seconds_count 20.0" in page and "tidings_messages_total 20.0" in page
    assert 'tidings_stage_seconds_count{stage="store"} 20.0' in page


async def test_a_batch_that_was_refused_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_collector() as collector:
        otel = Otel(endpoint=collector.url, every=1)
        async with nodes.open_node(dataclasses.replace(settings, otel=otel)) as node:
            conversation_id = await send_some(node, 1)

            async def down(*words: object) -> None:
                raise Unavailable("gone")

            monkeypatch.setattr(node.core.pipeline.store, "commit", down)
            with pytest.raises(Exception, match="does not answer"):
                await node.core.sends.send("alice", conversation_id, "m9", Content("x"))
    refused = [span for span in collector.named("batch") if span.status.message == "not acknowledged"]
    assert len(refused) == 1 and len(collector.named("batch")) == 2


async def test_off_it_adds_nothing_at_all(settings: Settings) -> None:
    metrics = Metrics()
    assert open_tracing(Otel(), metrics, Clock(), "n").measures is metrics
    async with open_core(settings) as core:
        assert core.sends._measures is core.metrics


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_collector_that_takes_nothing_holds_up_neither_a_send_nor_the_end(
    settings: Settings, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.node.tracing.OTEL_CLOSE_S", 0.3)
    with running_collector() as collector:
        collector.is_broken = True
        url = collector.url if is_there else f"http://127.0.0.1:{free_port()}"
        async with asyncio.timeout(60):
            async with nodes.open_node(dataclasses.replace(settings, otel=Otel(endpoint=url, every=1))) as node:
                await send_some(node, 5)
    assert collector.spans == []


async def test_a_hanging_shutdown_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    released = threading.Event()
    monkeypatch.setattr("tidings.node.tracing.OTEL_CLOSE_S", 0.05)

    class Hanging:
        def shutdown(self) -> None:
            released.wait(10)

    async with asyncio.timeout(60):
        await Tracing(Metrics(), Hanging()).close()  # type: ignore[arg-type]
    released.set()


def test_a_collectors_address_is_completed() -> None:
    assert traces_url("http://c:4318/") == "http://c:4318/v1/traces"
    assert traces_url("https://c/otlp/v1/traces") == "https://c/otlp/v1/traces"


def test_a_node_as_a_process_sends_its_traces_when_it_is_drained(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir(mode=0o700)
    with running_collector() as collector:
        with NodeProcess(data, {"TIDINGS_OTEL_ENDPOINT": collector.url, "TIDINGS_OTEL_EVERY": "1"}) as node:
            node.start()
            conversation_id = node.create_group(["u0", "u1"])
            status, _ = node.rest(
                "POST", f"/v1/conversations/{conversation_id}/messages", {"message_id": "m", "text": "t"}
            )
            assert status in (200, 201)
            node.stop()
        assert len(collector.named("send")) == 1
