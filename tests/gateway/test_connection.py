from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import PING, PONG, Wire
from tests.support.gateway.served import Gateway
from tidings.bounds import (
    ACKS_MAX,
    ACKS_PER_SLOT,
    BAD_FRAMES_MAX,
    CONNECT_S,
    IDLE_S,
    IN_FLIGHT_PER_SOCKET_MAX,
    PING_INTERVAL_S,
    REFRESHES_FAILED_MAX,
)
from tidings.errors import Problem, StoreUnavailable
from tidings.gateway.connection import Connection
from tidings.model import Content


async def test_silence_instead_of_connect_is_closed_4502(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    gateway.later(CONNECT_S - 1)
    gateway.later(1.5)
    assert await wire.closed() == 4502


async def test_nothing_is_answered_before_connect(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    assert (await wire.ask("inbox"))["code"] == "unauthorized"
    assert (await wire.ask("message.send", conversation_id="c1", message_id="m1", text="x"))["code"] == "unauthorized"
    assert gateway.log.submitted == [] and gateway.inbox.calls == []


async def test_a_second_connect_is_a_bad_request(gateway: Gateway) -> None:
    wire = await gateway.wire()
    assert (await wire.connect(gateway.token("bob")))["code"] == "bad_request"


async def test_sends_arrive_in_their_order_and_are_answered_by_id(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for n in range(50):
        wire.say(id=100 + n, type="message.send", conversation_id="c1", message_id=f"m{n}", text=str(n))
    answers = [await wire.answer_to(100 + n) for n in range(50)]
    assert [answer["seq"] for answer in answers] == list(range(1, 51))
    first = gateway.log.submitted[0]
    assert (first.sender_id, first.content, first.timestamp) == ("alice", Content("0"), None)
    assert first.origin == gateway.hub.of_user("alice")[0].connection_id


async def test_frames_sent_right_behind_connect_wait_for_hello(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    wire.say(id=1, type="connect", token=gateway.token())
    for n in range(5):
        wire.say(id=10 + n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    heard = [await wire.hear() for _ in range(6)]
    assert [frame["id"] for frame in heard] == [1, 10, 11, 12, 13, 14]
    assert heard[0]["type"] == "hello"


async def test_a_send_without_id_is_stored_and_not_answered(gateway: Gateway) -> None:
    wire = await gateway.wire()
    wire.say(type="message.send", conversation_id="c1", message_id="m1", text="x")
    assert (await wire.ask("ping"))["type"] == "pong"
    assert len(gateway.log.entries["c1"]) == 1


async def test_marks_of_one_device_keep_their_order(gateway: Gateway) -> None:
    gateway.marks.gate = asyncio.Event()
    wire = await gateway.wire()
    wire.say(id=20, type="message.read", conversation_id="c1", up_to_seq=42)
    wire.say(id=21, type="message.unread", conversation_id="c1", from_seq=40)
    assert (await wire.ask("ping"))["type"] == "pong"
    assert gateway.marks.calls == []
    gateway.marks.gate.set()
    assert (await wire.answer_to(20))["read_seq"] == 42
    assert (await wire.answer_to(21))["read_seq"] == 39
    assert [call[0] for call in gateway.marks.calls] == ["read", "unread"]


async def test_read_marks_fold_while_one_is_under_way_and_each_is_answered_and_charged(gateway: Gateway) -> None:
    gateway.marks.gate = asyncio.Event()
    wire = await gateway.wire()
    gateway.limiter.costs.clear()
    wire.say(id=30, type="message.read", conversation_id="c1", up_to_seq=1)
    assert (await wire.ask("ping"))["type"] == "pong"
    for seq in range(2, 10):
        wire.say(id=30 + seq, type="message.read", conversation_id="c1", up_to_seq=11 - seq)
    wire.say(id=50, type="message.read", conversation_id="c2", up_to_seq=7)
    assert (await wire.ask("ping"))["type"] == "pong"
    gateway.marks.gate.set()
    for frame_id in (30, *range(32, 40), 50):
        assert (await wire.answer_to(frame_id))["read_seq"] == 42
    marks = [(conversation_id, marks["up_to_seq"]) for _, conversation_id, marks in gateway.marks.calls]
    assert marks == [("c1", 1), ("c1", 9), ("c2", 7)]
    assert gateway.limiter.costs == [1, 9]


async def test_of_folded_read_marks_those_over_the_budget_are_refused_and_no_others(gateway: Gateway) -> None:
    gateway.marks.gate = asyncio.Event()
    wire = await gateway.wire()
    wire.say(id=30, type="message.read", conversation_id="c1", up_to_seq=1)
    assert (await wire.ask("ping"))["type"] == "pong"
    gateway.limiter.admits = 3
    for seq in range(2, 7):
        wire.say(id=30 + seq, type="message.read", conversation_id="c1", up_to_seq=seq)
    assert (await wire.ask("ping"))["type"] == "pong"
    gateway.marks.gate.set()
    answers = [await wire.answer_to(frame_id) for frame_id in (30, *range(32, 37))]
    assert [answer["type"] for answer in answers] == ["ok"] * 4 + ["error"] * 2
    assert {answer["code"] for answer in answers[4:]} == {"rate_limited"}
    assert [marks["up_to_seq"] for _, _, marks in gateway.marks.calls] == [1, 4]


async def test_an_acknowledgement_waits_for_no_server_but_that_of_its_user(gateway: Gateway) -> None:
    gateway.limiter.servers["bob"] = "a shard that does not answer"
    wires = [await gateway.wire(user_id) for user_id in ("alice", "bob")]
    real, gate = gateway.limiter.admit_each, asyncio.Event()

    async def admit_each(class_name: str, wanted: Any) -> Any:
        if "bob" in dict(wanted):
            await gate.wait()
        return await real(class_name, wanted)

    gateway.limiter.admit_each = admit_each  # type: ignore[method-assign]
    for wire in wires:
        wire.say(id=60, type="message.delivered", acks={"c1": 1})
        wire.say(id=61, type="message.read", conversation_id="c1", up_to_seq=1)
    assert (await wires[0].answer_to(60))["type"] == (await wires[0].answer_to(61))["type"] == "ok"
    gate.set()
    assert (await wires[1].answer_to(60))["type"] == (await wires[1].answer_to(61))["type"] == "ok"


async def test_acknowledgements_that_end_in_our_mistake_are_answered_and_those_of_others_are_recorded(
    gateway: Gateway,
) -> None:
    wires, real = [await gateway.wire(user_id) for user_id in ("alice", "bob")], gateway.log.delivered

    def delivered(user_id: str, *rest: Any) -> None:
        if user_id == "alice":
            raise ZeroDivisionError
        real(user_id, *rest)

    gateway.log.delivered = delivered  # type: ignore[method-assign, assignment]
    for wire in wires:
        wire.say(id=60, type="message.delivered", acks={"c1": 1})
    assert (await wires[0].answer_to(60))["code"] == "internal" and (await wires[1].answer_to(60))["type"] == "ok"
    gateway.log.delivered = real  # type: ignore[method-assign]
    assert (await wires[0].ask("message.delivered", acks={"c1": 2}))["type"] == "ok"


async def test_a_read_mark_that_ends_in_our_mistake_is_answered_and_the_next_is_carried_out(gateway: Gateway) -> None:
    wire, real = await gateway.wire(), gateway.marks.mark_each

    async def mark_each(readings: object, tell: object) -> None:
        gateway.marks.mark_each = real  # type: ignore[method-assign]
        raise ZeroDivisionError

    gateway.marks.mark_each = mark_each  # type: ignore[method-assign]
    assert (await wire.ask("message.read", conversation_id="c1", up_to_seq=1))["code"] == "internal"
    assert (await wire.ask("message.read", conversation_id="c1", up_to_seq=1))["read_seq"] == 42


async def test_acknowledgements_fold_while_one_is_under_way(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for seq in range(1, 101):
        wire.say(type="message.delivered", acks={"c1": seq})
    wire.say(id=9, type="message.delivered", acks={"c1": 50, "c2": 7})
    assert (await wire.answer_to(9))["type"] == "ok"
    delivered = [call[2] for call in gateway.log.calls if call[0] == "delivered"]
    assert max(acks.get("c1", 0) for acks in delivered) == 100
    assert delivered[-1]["c2"] == 7
    assert len(delivered) < 100


async def test_an_acknowledgement_with_an_id_is_answered_when_it_is_written(gateway: Gateway) -> None:
    wire = await gateway.wire()
    held = gateway.log.held_receipts = []
    for id_ in (9, 10):
        wire.say(id=id_, type="message.delivered", acks={"c1": id_})
        await gateway.until(lambda: len(held) == id_ - 8)  # noqa: B023
    assert (await wire.ask("ping"))["type"] == "pong", "other frames do not wait"
    [connection] = gateway.hub.of_user("alice")
    assert isinstance(connection, Connection) and connection.in_flight == 2
    first, second = held
    first(True)
    second(False)
    assert (await wire.answer_to(9))["type"] == "ok"
    refused = await wire.answer_to(10)
    assert (refused["code"], refused["temporary"]) == ("unavailable", True)
    assert connection.in_flight == 0


async def test_acknowledgements_of_one_moment_ask_the_limiter_together(gateway: Gateway) -> None:
    wires = [await gateway.wire(f"user{number}") for number in range(20)]
    connections = [gateway.hub.of_user(f"user{number}")[0] for number in range(20)]
    gateway.limiter.asked.clear()
    for connection in connections:
        assert isinstance(connection, Connection)
        connection.receive('{"type":"message.delivered","id":9,"acks":{"c1":1}}')
    for wire in wires:
        assert (await wire.answer_to(9))["type"] == "ok"
    assert gateway.limiter.together == [20]
    assert gateway.limiter.asked == [("read", f"user{number}") for number in range(20)]


async def test_a_refused_acknowledgement_is_answered(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.limiter.refused.add("read")
    wire.say(id=9, type="message.delivered", acks={"c1": 1})
    assert (await wire.answer_to(9))["code"] == "rate_limited"


async def test_acknowledgements_are_charged_by_their_number_and_wait_like_requests(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.limiter.costs.clear()
    await wire.ask("message.delivered", acks={f"c{n}": 1 for n in range(ACKS_MAX)})
    assert gateway.limiter.costs == [ACKS_MAX // ACKS_PER_SLOT + 1]
    gateway.limiter.gate = asyncio.Event()
    for _ in range(2 * IN_FLIGHT_PER_SOCKET_MAX):
        wire.say(type="message.delivered", acks={"c1": 1})
    [connection] = gateway.hub.of_user("alice")
    assert isinstance(connection, Connection)
    await gateway.until(lambda: connection.in_flight == IN_FLIGHT_PER_SOCKET_MAX)
    assert connection.is_holding()
    gateway.limiter.gate.set()
    assert (await wire.ask("message.delivered", acks={"c1": 1}))["type"] == "ok"
    assert connection.in_flight == 0


async def test_a_slot_pays_for_several_acknowledgements(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.limiter.costs.clear()
    for seq in range(1, ACKS_PER_SLOT + 1):  # each frame counts, and so does its conversation
        assert (await wire.ask("message.delivered", acks={"c1": seq}))["type"] == "ok"
    assert gateway.limiter.costs == [1, 1]
    assert [call[2] for call in gateway.log.calls if call[0] == "delivered"][-1] == {"c1": ACKS_PER_SLOT}


async def test_an_abandoned_send_is_charged_and_answered_also_without_budget(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.limiter.refused.add("read")
    answer = await wire.ask("message.abandon", conversation_id="c1", message_id="m1")
    assert answer["type"] == "ok" and gateway.limiter.asked[-1] == ("read", "alice")
    assert gateway.kept.rejects["read", "alice"] == 1


async def test_watching_many_conversations_costs_more(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for count, cost in ((0, 1), (1, 1), (10, 1), (200, 20)):
        await wire.ask("watch", conversation_ids=[f"c{n}" for n in range(count)])
        assert gateway.limiter.costs[-1] == cost


async def test_a_mark_of_unread_is_charged_by_the_rows_that_it_reads(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.marks.head = 12_001
    gateway.limiter.costs.clear()
    await wire.ask("message.unread", conversation_id="c1", from_seq=1)
    await gateway.rest("POST", "/v1/conversations/c1/unread", {"from_seq": 1})
    await wire.ask("message.unread", conversation_id="c1", from_seq=12_000)
    assert gateway.limiter.costs == [1, 120, 1, 120, 1]


async def test_tokens_that_are_refused_again_and_again_close_4500(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(REFRESHES_FAILED_MAX - 1):
        assert (await wire.ask("auth.refresh", token="nonsense"))["code"] == "unauthorized"
    assert (await wire.ask("auth.refresh", token=gateway.token()))["type"] == "ok"  # and counting begins again
    for number in range(REFRESHES_FAILED_MAX):
        wire.say(id=100 + number, type="auth.refresh", token="nonsense")
    assert await wire.closed() == 4500


async def test_a_refresh_is_charged_before_its_signature_is_checked(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.limiter.refused.add("connect")
    assert (await wire.ask("auth.refresh", token="nonsense"))["code"] == "rate_limited"


async def test_more_requests_than_allowed_wait_unread(gateway: Gateway) -> None:
    gateway.log.held = []
    wire = await gateway.wire()
    count = IN_FLIGHT_PER_SOCKET_MAX + 50
    for n in range(count):
        wire.say(id=1000 + n, type="message.send", conversation_id="c1", message_id=f"m{n}", text="x")
    await gateway.until(lambda: len(gateway.log.held or ()) == IN_FLIGHT_PER_SOCKET_MAX)
    await asyncio.sleep(0)
    assert len(gateway.log.held) == IN_FLIGHT_PER_SOCKET_MAX
    held, gateway.log.held = gateway.log.held, None
    for draft in held:
        gateway.log.answer(draft)
    answers = [await wire.hear() for _ in range(count)]
    assert {answer["id"] for answer in answers} == {1000 + n for n in range(count)}
    assert [draft.message_id for draft in gateway.log.submitted] == [f"m{n}" for n in range(count)]


async def test_a_bad_frame_is_answered_and_the_socket_stays(gateway: Gateway) -> None:
    wire = await gateway.wire()
    assert (await wire.ask("no.such"))["code"] == "bad_request"
    assert (await wire.ask("message.send", conversation_id="{}", message_id="m", text="x"))["code"] == "bad_request"
    wire.say_text("nonsense")
    answer = await wire.hear()
    assert answer["code"] == "bad_request" and "id" not in answer
    assert (await wire.ask("message.send", conversation_id="c1", message_id="m", text="x" * 16_385))[
        "code"
    ] == "too_large"
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_twenty_bad_frames_within_ten_seconds_are_closed_4501(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(BAD_FRAMES_MAX - 1):
        wire.say_text("{")
        assert (await wire.hear())["code"] == "bad_request"
    wire.say_text("{")
    assert await wire.closed() == 4501


async def test_texts_too_long_and_bad_cursors_do_not_send_a_client_away_for_good(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(BAD_FRAMES_MAX // 2):
        assert (await wire.ask("history", conversation_id="c1", before_seq=-1))["code"] == "bad_cursor"
    for _ in range(BAD_FRAMES_MAX - BAD_FRAMES_MAX // 2):
        wire.say(id=9, type="message.send", conversation_id="c1", message_id="m1", text="x" * 20_000)
    assert await wire.closed() == 4013


async def test_a_ping_without_an_id_is_not_answered(gateway: Gateway) -> None:
    wire = await gateway.wire()
    wire.say(type="ping")
    assert (await wire.ask("ping"))["id"] is not None


async def test_a_connection_whose_refused_sends_cannot_be_kept_in_order_is_closed_4013(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.log.is_full = True
    wire.say(id=9, type="message.send", conversation_id="c1", message_id="m1", text="hi")
    assert await wire.closed() == 4013 and gateway.log.submitted == []


async def test_bad_frames_far_apart_are_forgiven(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(BAD_FRAMES_MAX * 2):
        wire.say_text("{")
        assert (await wire.hear())["code"] == "bad_request"
        gateway.clock.ahead_s += 1
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_refused_request_is_not_a_bad_frame(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(BAD_FRAMES_MAX + 5):
        assert (await wire.ask("history", conversation_id="foreign"))["code"] == "not_found"
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_silent_peer_is_pinged_and_then_closed_4012(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.later(0)
    gateway.later(PING_INTERVAL_S + 1)
    assert (await wire.frame())[0] == PING
    gateway.later(IDLE_S - PING_INTERVAL_S)
    assert await wire.closed() == 4012


async def test_half_a_frame_does_not_keep_a_socket_alive(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.later(0)
    wire.writer.write(b"\x81\xfe")
    gateway.later(IDLE_S + 1)
    assert await wire.closed() == 4012


async def test_a_pong_is_a_sign_of_life(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.later(0)
    gateway.later(PING_INTERVAL_S + 1)
    assert (await wire.frame())[0] == PING
    wire.raw(PONG, b"")
    assert (await wire.ask("ping"))["type"] == "pong"
    gateway.later(IDLE_S - PING_INTERVAL_S)
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_token_that_expires_closes_4005(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token(ttl_s=100))
    for _ in range(4):  # the client is alive all the time
        gateway.later(24)
        assert (await wire.ask("ping"))["type"] == "pong"
    gateway.later(5)
    assert await wire.closed() == 4005


async def test_a_refreshed_token_keeps_the_socket(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token(ttl_s=10))
    assert (await wire.ask("auth.refresh", token=gateway.token(ttl_s=3600)))["type"] == "ok"
    gateway.later(20)
    assert (await wire.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("user_id", ["bob", None])
async def test_a_refresh_with_anything_but_the_users_own_token_is_refused(
    gateway: Gateway, user_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await gateway.wire()
    token = gateway.token(user_id) if user_id else "nonsense"
    with caplog.at_level("INFO", logger="tidings"):
        assert (await wire.ask("auth.refresh", token=token))["code"] == "unauthorized"
    assert [record.__dict__["reason"] for record in caplog.records] == ["claims" if user_id else "malformed"]
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_who_leaves_is_detached_and_forgotten(gateway: Gateway) -> None:
    wire = await gateway.wire()
    (outbound,) = gateway.hub.of_user("alice")
    wire.drop()
    await gateway.until(lambda: ("forget", outbound.connection_id) in gateway.log.calls)
    assert not gateway.hub.of_user("alice")


async def test_an_answer_to_someone_who_left_is_nobodys(gateway: Gateway) -> None:
    gateway.log.held = []
    wire = await gateway.wire()
    wire.say(id=1, type="message.send", conversation_id="c1", message_id="m1", text="x")
    await gateway.until(lambda: gateway.log.held)
    wire.drop()
    await gateway.until(lambda: not gateway.hub.of_user("alice"))
    gateway.log.answer(gateway.log.held[0])
    refused: Problem = StoreUnavailable()
    gateway.log.held[0].reply(refused)
    assert (await (await gateway.wire("bob")).ask("ping"))["type"] == "pong"


async def test_an_abandoned_send_reaches_its_lane(gateway: Gateway) -> None:
    wire = await gateway.wire()
    answer = await wire.ask("message.abandon", conversation_id="c1", message_id="m1")
    assert answer["type"] == "ok"
    assert ("abandon", "c1", "m1") in gateway.log.calls
