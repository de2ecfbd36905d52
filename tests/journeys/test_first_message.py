"""The shortest journey: two people, one conversation, a message that arrives, is counted, read and found again."""

from __future__ import annotations

from tests.conftest import Connect
from tidings.node.node import Node


async def test_a_message_is_acknowledged_delivered_counted_and_read(node: Node, connect: Connect) -> None:
    alice, bob = await connect("alice"), await connect("bob")
    view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
    c = view.head.conversation_id

    ok = await alice.say(c, "m1", "hello")
    assert (ok["type"], ok["seq"], ok["duplicate"]) == ("ok", 1, False)
    new = await bob.message("hello")
    assert (new["message"]["seq"], new["message"]["sender_id"]) == (1, "alice")

    inbox = await bob.request("inbox")
    assert [row["conversation_id"] for row in inbox["conversations"]] == [c]
    assert (inbox["conversations"][0]["unread_count"], inbox["total_unread"]) == (1, 1)
    read = await bob.request("message.read", conversation_id=c, up_to_seq=1)
    assert (read["read_seq"], read["unread_count"], read["total_unread"]) == (1, 0, 0)
    page = await bob.request("history", conversation_id=c)
    assert [message["text"] for message in page["messages"]] == ["hello"]


async def test_a_resend_gets_the_first_seq_and_other_text_is_a_conflict(node: Node, connect: Connect) -> None:
    alice = await connect("alice")
    view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
    c = view.head.conversation_id
    first = await alice.say(c, "m1", "hello")
    again = await alice.say(c, "m1", "hello")
    assert (again["seq"], again["duplicate"], again["sent_at"]) == (first["seq"], True, first["sent_at"])
    other = await alice.say(c, "m1", "something else")
    assert (other["type"], other["code"], other["temporary"]) == ("error", "conflict", False)
