"""Acts in threads: each can be done, is recorded, and is answered by a real node as people expect."""

from __future__ import annotations

from tests.proof.people.test_device import records
from tests.proof.people.test_more import talked
from tests.support.waiting import eventually
from tidings_proof.judge.history import History
from tidings_proof.people import threads
from tidings_proof.people.more import REPLY
from tidings_proof.people.workload import Workload

__all__ = ["talked"]


async def test_people_reply_follow_read_and_list(talked: Workload, history: History) -> None:
    for act in (threads.reply, threads.follow, threads.read_thread, threads.list_threads):
        for device in talked.devices:
            for _ in range(2):
                await act(talked, device)
        await eventually(lambda: all(one.is_settled for one in talked.devices))
    done = {record.f for record in records(history) if record.type == "ok"}
    assert {"follow", "thread-read", "list"} <= done
    assert any(record.message_id.endswith(REPLY) for record in records(history) if record.type == "ok")
    lists = [record.value for record in records(history) if record.f == "threads"]
    assert lists and all(len(counts) == (total or 0) for counts, total in lists)
    assert not [record for record in records(history) if record.f == "strange"]
