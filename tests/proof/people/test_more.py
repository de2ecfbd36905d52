"""Acts beside plain messages: each can be done, is recorded, and is answered by a real node as people expect."""

from __future__ import annotations

import pytest

from tests.proof.people.test_device import records
from tests.support.waiting import eventually
from tidings_proof.judge.history import History
from tidings_proof.people import more
from tidings_proof.people.workload import Workload

ACTS = ("react", "pin", "save", "draft", "flag", "look")


@pytest.fixture
async def talked(people: Workload) -> Workload:
    """Everybody has said something everywhere, and everybody has it."""
    await eventually(lambda: all(one.is_live for one in people.devices))
    for device in people.devices:
        for id_, one in device.followed.items():
            if one.is_here:
                device.compose(id_)
    await eventually(lambda: all(one.is_settled for one in people.devices))
    return people


async def test_every_act_is_done_and_recorded(talked: Workload, history: History) -> None:
    for name in ACTS:
        for device in talked.devices:
            for _ in range(3):
                await getattr(more, name)(talked, device)
    done = {record.f for record in records(history) if record.type == "ok"}
    assert {"react", "pin", "save", "draft", "flag", "filter"} <= done
    assert {record.f for record in records(history) if record.type == "event"} >= {"filtered"}
    assert not [record for record in records(history) if record.f == "strange"]


async def test_messages_that_mention_count_for_nobody_or_end_are_sent_as_such(
    talked: Workload, history: History
) -> None:
    device = talked.devices[0]
    for act in (more.mention, more.whisper, more.burn):
        await act(talked, device)
    await eventually(lambda: device.is_settled)
    sent = [record for record in records(history) if record.f == "send" and record.type == "ok"][-3:]
    assert any(record.message_id.endswith(more.SILENT) for record in sent)
    assert any(record.message_id.endswith(more.FLEETING) for record in sent)


async def test_who_leads_groups_and_who_never_reads_block_nobody(talked: Workload, history: History) -> None:
    for device in talked.devices:
        for _ in range(5):
            await more.block(talked, device)
    assert not [record for record in records(history) if record.f == "block"], "four people are too few"
