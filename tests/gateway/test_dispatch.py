from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import Recorder
from tidings.bounds import IN_FLIGHT_PER_USER_MAX
from tidings.clock import Clock
from tidings.errors import Missing, NotFound, Throttled, Unavailable
from tidings.gateway.dispatch import Dispatch, content_of, problem_of
from tidings.gateway.fairness import Refusals
from tidings.protocol import client_frames as protocol
from tidings.protocol.bodies import NewMessage, Written
from tidings.protocol.own_bodies import NewScheduled


def dispatch_of(gateway: Gateway) -> Dispatch:
    cases = gateway.cases()
    return Dispatch(cases, Clock(), Refusals(cases.audit))


async def asked(gateway: Gateway, frame: Any) -> dict[str, Any]:
    answer = await dispatch_of(gateway).answer(Recorder(), frame)
    assert answer is not None
    found: dict[str, Any] = json.loads(answer)
    return found


async def test_each_request_reaches_its_use_case_and_asks_its_class(gateway: Gateway) -> None:
    gateway.log.entries["c1"] = []
    frames: list[tuple[str, Any, str]] = [
        ("read", protocol.Read(id=1, conversation_id="c1", up_to_seq=42), "read_seq"),
        ("read", protocol.Unread(id=1, conversation_id="c1", from_seq=40), "read_seq"),
        ("read", protocol.Inbox(id=1), "conversations"),
        ("read", protocol.History(id=1, conversation_id="c1"), "messages"),
        ("reaction", protocol.Reaction(id=1, conversation_id="c1", seq=41, key="👍", on=True), "reactions"),
        ("typing", protocol.Typing(id=1, conversation_id="c1", typing=True), "id"),
        ("typing", protocol.Watch(id=1, conversation_ids=["c1"]), "id"),
    ]
    for class_name, frame, key in frames:
        answer = await asked(gateway, frame)
        assert (answer["type"], answer["id"]) == ("ok", 1) and key in answer
        assert gateway.limiter.asked[-1] == (class_name, "alice")


@pytest.mark.parametrize("kind", ["message.send", "message.begin", "post", "scheduled"])
def test_null_for_an_optional_field_of_a_message_is_the_same_as_leaving_it_out(kind: str) -> None:
    def decoded(asked: dict[str, Any]) -> protocol.Send | Written:
        if kind in ("post", "scheduled"):
            return msgspec.convert(asked, NewMessage if kind == "post" else NewScheduled)
        frame = protocol.decode_frame(json.dumps({"type": kind, **asked}))
        assert isinstance(frame, protocol.Send)
        return frame

    of = {"post": {}, "scheduled": {"conversation_id": "c1", "send_at": 5}}
    given = of.get(kind, {"conversation_id": "c1", "message_id": "m1"}) | {"data": {"a": 1}}
    for optional in Written.__struct_fields__:
        expected = given | {"text": "hi"} if optional in ("text", "data") else given
        expected = {name: value for name, value in expected.items() if name != optional}
        assert content_of(decoded(expected | {optional: None})) == content_of(decoded(expected)), optional


async def test_a_limit_above_100_is_served_as_100(gateway: Gateway) -> None:
    await asked(gateway, protocol.Inbox(id=1, limit=5000))
    await asked(gateway, protocol.History(id=1, conversation_id="c1", limit=5000))
    assert gateway.inbox.calls[-1][1] == 100
    assert gateway.log.calls[-1][2]["limit"] == 100


async def test_a_refused_class_is_answered_with_when_to_come_back(gateway: Gateway) -> None:
    gateway.limiter.refused.add("read")
    answer = await asked(gateway, protocol.Inbox(id=1))
    assert (answer["code"], answer["temporary"], answer["retry_after_ms"]) == ("rate_limited", True, 1200)
    assert gateway.inbox.calls == []


async def test_too_many_requests_under_way_refuse_pages_and_no_send(gateway: Gateway) -> None:
    for _ in range(IN_FLIGHT_PER_USER_MAX):
        gateway.limiter.in_flight.begin("read", "alice")
    answer = await asked(gateway, protocol.Inbox(id=1))
    assert (answer["code"], answer["temporary"]) == ("rate_limited", True) and answer["retry_after_ms"] > 0
    assert gateway.inbox.calls == []
    assert (await gateway.rest("GET", "/v1/inbox"))[0] == 429
    sent = await gateway.rest("POST", "/v1/conversations/c1/messages", {"message_id": "m1", "text": "hi"})
    assert sent[0] in (200, 201), "the reserve is for sends"
    for _ in range(IN_FLIGHT_PER_USER_MAX):
        gateway.limiter.in_flight.end("alice")
    assert (await asked(gateway, protocol.Inbox(id=1)))["type"] == "ok"
    assert (await gateway.rest("GET", "/v1/inbox"))[0] == 200
    assert gateway.limiter.in_flight._all == 0


@pytest.mark.parametrize("error", [Unavailable(), Throttled(), Missing()])
async def test_a_store_in_trouble_is_unavailable(gateway: Gateway, error: Exception) -> None:
    gateway.log.error = error
    assert (await asked(gateway, protocol.History(id=1, conversation_id="c1")))["code"] == "unavailable"


async def test_a_store_in_trouble_is_logged_with_its_operation_and_the_reason(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.log.error = Unavailable("timeout after 5 s", store="tables", op="page")
    await asked(gateway, protocol.History(id=1, conversation_id="c1"))
    (line,) = caplog.records
    fields = vars(line)
    assert (line.message, fields["store"], fields["op"]) == ("store unavailable", "tables", "page")
    assert fields["cause"] == "timeout after 5 s"


async def test_our_own_mistake_is_logged_by_reference_and_says_nothing_of_the_text(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.log.error = ValueError("canary text of a message")
    answer = await asked(gateway, protocol.History(id=1, conversation_id="c1"))
    assert answer["code"] == "internal" and answer["temporary"] is True
    (line,) = caplog.records
    assert vars(line)["reference"] in answer["message"]
    assert vars(line)["error"] == "ValueError" and "canary" not in str(vars(line)) + str(answer)


async def test_a_request_without_id_is_carried_out_and_not_answered(gateway: Gateway) -> None:
    dispatch = dispatch_of(gateway)
    assert await dispatch.answer(Recorder(), protocol.Unread(conversation_id="c1", from_seq=2)) is None
    assert gateway.marks.calls == [("unread", "c1", 2)]


async def test_typing_reaches_whoever_hears_it(gateway: Gateway) -> None:
    dispatch = dispatch_of(gateway)
    await dispatch.answer(Recorder(), protocol.Typing(conversation_id="c1", typing=True))
    await dispatch.answer(Recorder(), protocol.Watch(conversation_ids=["c1"]))
    assert gateway.live_status.calls == [("alice", "c1", True, "r1"), ["c1"]]


def test_a_problem_is_told_as_it_is() -> None:
    problem = NotFound()
    assert problem_of(problem, Clock()) is problem
