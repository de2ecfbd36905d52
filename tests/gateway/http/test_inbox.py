from __future__ import annotations

import pytest

from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import INBOX_KEYS
from tidings.messaging.reading.flags import FlagChange


async def test_the_inbox_is_a_page_of_rows(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("GET", "/v1/inbox?limit=500&cursor=abc")
    assert status == 200 and list(body["conversations"][0]) == INBOX_KEYS
    assert (body["next_cursor"], body["total_unread"], body["stale"]) == ("next", 12, False)
    assert gateway.inbox.calls == [("alice", 100, "abc")]
    assert gateway.limiter.asked == [("http", "alice")]


async def test_a_reader_names_the_fields_of_a_row_and_gets_these_alone(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("GET", "/v1/inbox?fields=unread_count,name,draft,name")
    assert status == 200
    assert body["conversations"] == [{"conversation_id": "c1", "unread_count": 3, "name": "Crew"}]
    assert (body["next_cursor"], body["total_unread"], body["stale"]) == ("next", 12, False)
    assert gateway.inbox.has_records


async def test_a_page_has_the_fields_of_its_own_that_are_named(gateway: Gateway) -> None:
    body = (await gateway.rest("GET", "/v1/inbox?fields=name,next_cursor"))[2]
    assert body == {"conversations": [{"conversation_id": "c1", "name": "Crew"}], "next_cursor": "next"}


async def test_a_page_without_drafts_and_rules_reads_no_records(gateway: Gateway) -> None:
    await gateway.rest("GET", "/v1/inbox?fields=name")
    assert not gateway.inbox.has_records
    await gateway.rest("GET", "/v1/inbox")
    assert gateway.inbox.has_records


@pytest.mark.parametrize("bad", ["nothing", "name,", "name,%20kind", "__class__"])
async def test_a_field_that_no_row_has_is_refused(gateway: Gateway, bad: str) -> None:
    status, _, body = await gateway.rest("GET", f"/v1/inbox?fields={bad}")
    assert (status, body["error"]["code"]) == (400, "bad_request")
    assert "fields" in body["error"]["message"]
    assert gateway.inbox.calls == []


async def test_flags_that_are_not_named_stay(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("PATCH", "/v1/inbox/c1", {"muted": True})
    assert status == 200 and body["conversation_id"] == "c1"
    assert gateway.inbox.calls == [("alice", "c1", FlagChange(muted=True))]


@pytest.mark.parametrize("bad", ["%7B%7D", "a%3Ab", "a%20b", "x" * 10_240])
async def test_an_id_that_is_not_safe_in_a_key_is_refused(gateway: Gateway, bad: str) -> None:
    status, _, body = await gateway.rest("PATCH", f"/v1/inbox/{bad}", {"muted": True})
    assert (status, body["error"]["code"]) == (400, "bad_request")
    assert gateway.inbox.calls == []


async def test_the_badge_and_the_budgets(gateway: Gateway) -> None:
    assert (await gateway.rest("GET", "/v1/unread"))[2] == {"total_unread": 12, "unread_conversations": 3}
    limits = (await gateway.rest("GET", "/v1/rate_limits"))[2]["rate_limits"]
    assert limits == {"send": {"limit": 100, "remaining": 99, "reset_ms": 60_000}}
