"""What each device has acknowledged or was told of."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.push_node import PostOffice, open_office
from tidings.bounds import ACKS_TTL_S
from tidings.config.settings import Settings
from tidings.messaging.push import device_acks as module
from tidings.messaging.push.device_acks import notified


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[PostOffice]:
    async with open_office(settings) as made:
        yield made


async def test_the_highest_of_what_a_device_has_or_was_told_of_counts(office: PostOffice) -> None:
    office.acks.note("bob", "phone", {"c1": 5, "c2": 9})
    office.acks.note("bob", "phone", {"c1": 4})
    await office.acks.flush()
    await office.core.keyspace.run(
        office.acks.set_calls("bob", {notified("tablet", "c1"): 7, notified("phone", "c2"): 3})
    )
    assert await office.acks.seqs([("bob", ["phone", "tablet", "watch"]), ("carol", ["phone"])], "c1") == [
        [5, 7, 0],
        [0],
    ]
    assert await office.acks.seqs([("bob", ["phone", "tablet"])], "c2") == [[9, 0]]
    assert 0 < await office.command("TTL", office.core.keys.acks("bob")) <= ACKS_TTL_S


async def test_a_badge_that_nobody_gave_is_not_known(office: PostOffice) -> None:
    await office.core.keyspace.run(office.acks.set_calls("bob", {"phone": 0}))
    assert await office.acks.badges("bob", ["phone", "tablet"]) == [0, -1]


async def test_a_flush_with_nothing_to_write_asks_nothing(office: PostOffice) -> None:
    await office.acks.flush()
    assert office.acks.set_calls("bob", {}) == []


async def test_a_user_with_far_too_many_is_forgotten(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACKS_FIELDS_MAX", 10)
    for user_id, count in (("bob", 11), ("carol", 10)):
        office.acks.note(user_id, "phone", {f"c{n}": 1 for n in range(count)})
    await office.acks.flush()
    assert [await office.command("HLEN", office.core.keys.acks(name)) for name in ("bob", "carol")] == [0, 10]


async def test_what_waits_to_be_written_is_bounded(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PUSH_NOTES_MAX", 2)
    for user_id in ("a", "b", "c", "a"):
        office.acks.note(user_id, "phone", {"c1": 1})
    assert list(office.acks._late) == ["a", "b"]
