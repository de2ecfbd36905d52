"""Acts of files and search: people share and find, and the stranger finds nothing."""

from __future__ import annotations

from tests.proof.people.test_device import records
from tests.proof.people.test_more import talked
from tests.support.waiting import eventually
from tidings_proof.judge.history import History
from tidings_proof.people import finding
from tidings_proof.people.workload import Workload

__all__ = ["talked"]


async def test_a_file_is_uploaded_and_carried_by_its_message(talked: Workload, history: History) -> None:
    for device in talked.devices:
        await finding.share(talked, device)
    await eventually(lambda: all(one.is_settled for one in talked.devices))
    carried = {id_ for record in records(history) for entry in record.entries for id_ in entry.files}
    assert talked.shared and carried <= {one.file_id for one in talked.shared}
    assert not [record for record in records(history) if record.type == "fail" and record.f in ("upload", "send")]


async def test_people_search_for_words_that_somebody_said(talked: Workload, history: History) -> None:
    for device in talked.devices:
        await finding.tell(talked, device)
    await eventually(lambda: all(one.is_settled for one in talked.devices))
    for _ in range(4):
        for device in talked.devices:
            await finding.seek(talked, device)
    found = [record for record in records(history) if record.f == "found"]
    assert {record.user_id for record in found} > {"stranger"}
    assert all(not record.value[1] for record in found if record.user_id == "stranger")
