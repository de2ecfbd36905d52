from __future__ import annotations

import pytest

from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import MESSAGE_KEYS

LOG = "/v1/conversations/c1/messages"
NINE_DEEP = {"1": {"2": {"3": {"4": {"5": {"6": {"7": {"8": {"9": 1}}}}}}}}}


async def test_a_send_is_201_and_a_resend_200_with_the_first_number(gateway: Gateway) -> None:
    first = await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi", "ts": 5})
    again = await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi"})
    assert (first[0], again[0]) == (201, 200)
    assert first[2] | {"duplicate": True} == again[2]
    assert first[2]["seq"] == 1 and gateway.log.entries["c1"][0].sender_id == "alice"


async def test_without_a_message_id_one_is_made(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("POST", LOG, {"text": "hi"})
    assert status == 201 and body["message_id"]


async def test_a_message_carries_data_and_a_reply_and_may_be_silent(gateway: Gateway) -> None:
    data = {"card": {"title": "\N{GRINNING FACE}", "rows": [1, 2.5, None]}}
    body = {"message_id": "m1", "data": data, "silent": True, "reply_to": 41}
    assert (await gateway.rest("POST", LOG, body))[0] == 201
    await gateway.rest("POST", LOG, {"message_id": "m2", "text": "plain"})
    plain, rich = (await gateway.rest("GET", LOG))[2]["messages"]
    assert (rich["text"], rich["data"], rich["silent"], rich["reply_to"]) == ("", data, True, 41)
    assert list(plain) == MESSAGE_KEYS  # a field that has nothing to say is left out


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"message_id": "a b", "text": "hi"}),
        (400, {"message_id": "m1"}),
        (400, {"message_id": "m1", "text": " \n"}),
        (400, {"message_id": "m1", "text": "hi", "data": [1]}),
        (400, {"message_id": "m1", "text": "hi", "data": NINE_DEEP}),
        (400, {"message_id": "m1", "text": "hi", "reply_to": -1}),
        (413, {"message_id": "m1", "text": "hi", "data": {"a": "x" * 8_190}}),
        (413, {"message_id": "m1", "text": "x" * 16_385}),
        (413, {"message_id": "m1", "text": "x" * 66_000}),
    ],
)
async def test_a_bad_send_is_refused(gateway: Gateway, status: int, body: object) -> None:
    assert (await gateway.rest("POST", LOG, body))[0] == status
    assert gateway.log.entries == {}


async def test_a_page_of_history(gateway: Gateway) -> None:
    for n in range(3):
        await gateway.rest("POST", LOG, {"message_id": f"m{n}", "text": str(n)})
    status, _, body = await gateway.rest("GET", LOG + "?before_seq=9&limit=2")
    assert status == 200 and [message["seq"] for message in body["messages"]] == [3, 2]
    assert list(body["messages"][0]) == MESSAGE_KEYS
    places = gateway.log.calls[-1][2]
    assert (places["before_seq"], places["after_seq"], places["limit"]) == (9, None, 2)
    await gateway.rest("GET", LOG + "?anchor=first_unread&limit=1000")
    assert (gateway.log.calls[-1][2]["anchor"], gateway.log.calls[-1][2]["limit"]) == ("first_unread", 100)


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("bad_cursor", "before_seq=-1"),
        ("bad_cursor", "after_seq=9223372036854775808"),
        ("bad_request", "limit=0"),
        ("bad_request", "before_seq=1&after_seq=1"),
        ("bad_request", "anchor=oldest"),
    ],
)
async def test_a_page_from_nowhere_is_refused(gateway: Gateway, code: str, query: str) -> None:
    status, _, body = await gateway.rest("GET", f"{LOG}?{query}")
    assert (status, body["error"]["code"]) == (400, code)


async def test_a_reader_names_the_fields_of_a_message_and_gets_these_alone(gateway: Gateway) -> None:
    await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi", "ts": 5})
    whole = (await gateway.rest("GET", LOG))[2]
    status, _, body = await gateway.rest("GET", f"{LOG}?fields=text,data,sender_id")
    assert status == 200 and body == whole | {"messages": [{"seq": 1, "text": "hi", "sender_id": "alice"}]}
    status, _, body = await gateway.rest("GET", f"{LOG}?fields=text,name")
    assert (status, body["error"]["code"]) == (400, "bad_request")


async def test_edit_and_delete_name_an_entry(gateway: Gateway) -> None:
    await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi"})
    assert (await gateway.rest("PATCH", LOG + "/1", {"text": "ho", "message_id": "e1"}))[0] == 200
    assert gateway.log.calls[-1] == ("edit", "alice", "c1", 1, "ho", "e1")
    assert (await gateway.rest("DELETE", LOG + "/1"))[0] == 200
    assert gateway.log.calls[-1] == ("delete", "alice", "c1", 1, None)
    await gateway.rest("DELETE", LOG + "/1", {"message_id": "d1"})
    assert gateway.log.calls[-1][-1] == "d1"
    await gateway.rest("DELETE", LOG + "/1?message_id=d2")
    assert gateway.log.calls[-1][-1] == "d2"
    assert (await gateway.rest("PATCH", LOG + "/1", {"text": "x" * 16_385}))[0] == 413
    assert (await gateway.rest("DELETE", LOG + "/9"))[0] == 404
    assert (await gateway.rest("DELETE", LOG + "/x"))[0] == 400


async def test_marks_are_answered_with_the_state(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("POST", "/v1/conversations/c1/read", {"seqs": [40, 42]})
    assert status == 200 and (body["read_seq"], body["unread_count"], body["total_unread"]) == (42, 0, 9)
    assert gateway.marks.calls[-1][2] == {"up_to_seq": None, "up_to_ts": None, "seqs": [40, 42]}
    status, _, body = await gateway.rest("POST", "/v1/conversations/c1/unread", {"from_seq": 40})
    assert status == 200 and body["read_seq"] == 39
    for bad in ({}, {"up_to_seq": 1, "up_to_ts": 1}, {"up_to_seq": -1}):
        assert (await gateway.rest("POST", "/v1/conversations/c1/read", bad))[0] == 400


async def test_receipts_of_a_message(gateway: Gateway) -> None:
    await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi"})
    body = (await gateway.rest("GET", LOG + "/1/receipts"))[2]
    times = {"bob": {"delivered_at": 5, "read_at": 7}, "carol": {"delivered_at": 6}}
    assert body == {"read": ["bob"], "delivered": ["carol"], "pending": ["dan"], "times": times}
    assert (await gateway.rest("GET", LOG + "/2/receipts"))[0] == 404


async def test_receipts_of_a_message_in_pages(gateway: Gateway) -> None:
    await gateway.rest("POST", LOG, {"message_id": "m1", "text": "hi"})
    body = (await gateway.rest("GET", LOG + "/1/receipts?limit=1&cursor=bob"))[2]
    assert body == {"read": [], "delivered": ["bob"], "pending": [], "next_cursor": "carol"}
    for query, code in (("cursor=%00", "bad_cursor"), ("limit=0", "bad_request"), ("limit=x", "bad_request")):
        status, _, problem = await gateway.rest("GET", f"{LOG}/1/receipts?{query}")
        assert (status, problem["error"]["code"]) == (400, code)
