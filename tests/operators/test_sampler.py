"""A sample says what a node has counted so far, and whether it is about to leave."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import Device
from tidings.model import Content
from tidings.node.graph import Core
from tidings.operators.sampler import Sampler


async def test_a_sample_has_what_the_node_counted(core: Core) -> None:
    is_draining = False
    sampler = Sampler(core.hub, core.metrics, core.cold.archiving, core.clock, "n1", lambda: is_draining)
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    await core.sends.send("alice", view.head.conversation_id, "m1", Content("hello"))
    for number in ("1", "2"):
        core.hub.attach(Device("alice", number))
    sample = sampler.take()
    assert (sample.node_id, sample.messages, sample.connections, sample.users) == ("n1", 1, 2, 1)
    assert sample.commands > 0 and sample.memory_bytes > 0 and sample.cpu_s > 0 and sample.archive_last_ms == 0
    assert sample.ack[-1] == 1 and not sample.is_draining
    is_draining = True
    assert sampler.take().is_draining
