"""Reports: what members may report, and what a verdict does."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound


async def test_a_report_waits_with_its_message_and_a_verdict_ends_it(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1", "rude words")
    report_id = await a.core.reports.report("carol", group, 1, "rude")
    ((report, entry),) = await a.core.reports.waiting("", 10)
    assert (report.report_id, report.by, report.reason) == (report_id, "carol", "rude")
    assert entry is not None and entry.text == "rude words"
    await a.core.reports.settle(report_id, "dismiss", "key")
    assert await a.core.reports.waiting("", 10) == []
    assert (await a.log(group))[0].text == "rude words"
    with pytest.raises(NotFound):
        await a.core.reports.settle(report_id, "delete", "key")


async def test_a_ban_deletes_the_message_and_removes_its_author(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1", "rude words")
    report_id = await a.core.reports.report("carol", group, 1, "rude")
    await a.core.reports.settle(report_id, "ban", "key")
    assert (await a.log(group))[0].is_deleted
    assert await a.code("bob", group, "m2") == "not_found"
    assert await a.unread("carol") == 0


async def test_only_members_report_what_they_see(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1")
    for user_id, seq_no in (("mallory", 1), ("carol", 9)):
        with pytest.raises(NotFound):
            await a.core.reports.report(user_id, group, seq_no, "")
