from __future__ import annotations

import json
from typing import Any

import pytest
import structlog

from tests.gateway.conftest import Gateway
from tests.gateway.standins import Recorder
from tidings.clock import Clock
from tidings.errors import Missing, NotFound, Throttled, Unavailable
from tidings.gateway import protocol
from tidings.gateway.dispatch import Dispatch, problem_of


async def asked(gateway: Gateway, frame: Any) -> dict[str, Any]:
    answer = await Dispatch(gateway.cases(), Clock()).answer(Recorder(), frame)
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
        ("typing", protocol.Typing(id=1, conversation_id="c1", typing=True), "id"),
        ("typing", protocol.Watch(id=1, conversation_ids=["c1"]), "id"),
    ]
    for class_name, frame, key in frames:
        answer = await asked(gateway, frame)
        assert (answer["type"], answer["id"]) == ("ok", 1) and key in answer
        assert gateway.limiter.asked[-1] == (class_name, "alice")


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


@pytest.mark.parametrize("error", [Unavailable(), Throttled(), Missing()])
async def test_a_store_in_trouble_is_unavailable(gateway: Gateway, error: Exception) -> None:
    gateway.log.error = error
    assert (await asked(gateway, protocol.History(id=1, conversation_id="c1")))["code"] == "unavailable"


async def test_our_own_mistake_is_logged_by_reference_and_says_nothing_of_the_text(gateway: Gateway) -> None:
    gateway.log.error = ValueError("canary text of a message")
    with structlog.testing.capture_logs() as logs:
        answer = await asked(gateway, protocol.History(id=1, conversation_id="c1"))
    assert answer["code"] == "internal" and answer["temporary"] is True
    (line,) = logs
    assert line["reference"] in answer["message"]
    assert line["error"] == "ValueError" and "canary" not in str(logs) + str(answer)


async def test_a_request_without_id_is_carried_out_and_not_answered(gateway: Gateway) -> None:
    dispatch = Dispatch(gateway.cases(), Clock())
    assert await dispatch.answer(Recorder(), protocol.Unread(conversation_id="c1", from_seq=2)) is None
    assert gateway.marks.calls == [("unread", "c1", 2)]


async def test_typing_reaches_whoever_hears_it(gateway: Gateway) -> None:
    heard: list[Any] = []

    class Signals:
        async def typing(self, *facts: Any) -> None:
            heard.append(facts)

        async def watch(self, outbound: Any, conversation_ids: Any) -> None:
            heard.append(conversation_ids)

    cases: Any = gateway.cases()
    changed = type(cases)(**{name: getattr(cases, name) for name in cases.__slots__} | {"signals": Signals()})
    dispatch = Dispatch(changed, Clock())
    await dispatch.answer(Recorder(), protocol.Typing(conversation_id="c1", typing=True))
    await dispatch.answer(Recorder(), protocol.Watch(conversation_ids=["c1"]))
    assert heard == [("alice", "c1", True, "r1"), ["c1"]]


def test_a_problem_is_told_as_it_is() -> None:
    problem = NotFound()
    assert problem_of(problem, Clock()) is problem
