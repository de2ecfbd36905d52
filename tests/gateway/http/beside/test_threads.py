from __future__ import annotations

from tests.support.gateway.served import Gateway

CONVERSATION = "/v1/conversations/c1"


async def test_the_list_of_threads_has_the_documented_form(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("GET", "/v1/threads?filter=unread&limit=5")
    root = body["threads"][0].pop("root")
    assert (status, root["seq"], root["text"]) == (200, 40, "root")
    row = {
        "conversation_id": "c1", "thread_seq": 40, "replies": 7, "last_seq": 58, "last_sent_at": 1794770399146,
        "unread_count": 2, "first_unread_seq": 57,
    }  # fmt: skip
    assert body == {"threads": [row], "next_cursor": "next", "unread_threads": 1}
    assert gateway.threads.calls == [("alice", 5, None, "unread")]
    assert (await gateway.rest("GET", "/v1/threads"))[0] == 200
    assert gateway.threads.calls[-1] == ("alice", 20, None, "all")
    assert (await gateway.rest("GET", "/v1/threads?filter=muted"))[0] == 400


async def test_a_thread_is_followed_and_unfollowed(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("PUT", f"{CONVERSATION}/threads/40/follow")
    assert (status, body["thread_seq"], body["unread_count"], body["unread_threads"]) == (200, 40, 2, 1)
    assert (await gateway.rest("DELETE", f"{CONVERSATION}/threads/40/follow"))[0] == 200
    assert gateway.threads.calls == [("alice", "c1", 40, True), ("alice", "c1", 40, False)]


async def test_history_with_a_thread_is_the_page_of_the_thread(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("GET", f"{CONVERSATION}/messages?thread_seq=40&before_seq=60&limit=1")
    (message,) = body["messages"]
    assert (status, message["seq"], message["thread_seq"], "also_here" in message) == (200, 58, 40, False)
    place = {"before_seq": 60, "after_seq": None, "limit": 1}
    assert gateway.threads.calls == [("alice", "c1", 40, place)]
    for more in ("around_seq=3", "anchor=first_unread"):
        assert (await gateway.rest("GET", f"{CONVERSATION}/messages?thread_seq=40&{more}"))[0] == 400


async def test_marks_with_a_thread_are_marks_of_the_thread(gateway: Gateway) -> None:
    body = {"thread_seq": 40, "up_to_seq": 58}
    status, _, state = await gateway.rest("POST", f"{CONVERSATION}/read", body)
    assert (status, state["thread_seq"], state["unread_threads"]) == (200, 40, 1)
    await gateway.rest("POST", f"{CONVERSATION}/unread", {"thread_seq": 40, "from_seq": 50})
    await gateway.rest("POST", f"{CONVERSATION}/read", {"threads": True})
    marks = {"up_to_seq": 58, "up_to_ts": None, "seqs": None}
    expected = [("read", "c1", 40, marks), ("unread", "c1", 40, 50), ("read all", "c1")]
    assert gateway.threads.calls == expected
    assert (await gateway.rest("POST", f"{CONVERSATION}/read", {"threads": True, "up_to_seq": 1}))[0] == 400


async def test_a_reply_over_rest_names_its_thread(gateway: Gateway) -> None:
    body = {"message_id": "m1", "text": "x", "thread_seq": 40, "also_here": True}
    assert (await gateway.rest("POST", f"{CONVERSATION}/messages", body))[0] == 201
    content = gateway.log.entries["c1"][-1].content
    assert content is not None and (content.thread_seq, content.also_here) == (40, True)
    del body["thread_seq"]
    assert (await gateway.rest("POST", f"{CONVERSATION}/messages", body))[0] == 400
