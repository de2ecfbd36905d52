"""Workers: the rooms beside the way of a message are there, and start nothing by themselves."""

from __future__ import annotations

from tidings.bounds import CLASSES
from tidings.messaging.lifecycle.erasing import JOBS
from tidings.messaging.lifecycle.expiry import EXPIRING
from tidings.messaging.lifecycle.scheduled import SCHEDULED
from tidings.node.graph import Core


async def test_the_cold_tier_reads_a_log_that_was_never_archived(core: Core) -> None:
    view, _ = await core.directory.create("alice", kind="group", members=["bob"])
    page = await core.cold.messages.page(
        view.head.conversation_id, after=0, before=1 << 53, limit=10, newest_first=False
    )
    assert list(page) == [] and core.cold.archiving.last is None


def test_every_class_of_requests_has_a_limit(core: Core) -> None:
    assert set(CLASSES) >= {"send", "read", "connect"}
    assert core.limiting.reader is not None and core.pushing.providers == {}


async def test_each_kind_of_timed_work_is_done(core: Core) -> None:
    assert {EXPIRING, SCHEDULED} <= core.timed._works.keys()
    assert await core.timed.step() is False
    assert core.jobs._works.keys() == {JOBS}, "a step of an erasure holds up no scheduled message"
