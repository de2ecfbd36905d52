from __future__ import annotations

import msgspec
import pytest

from tests.gateway.standins import item_of
from tidings.gateway.bodies import (
    ConversationPatch,
    NewConversation,
    history_of,
    inbox_of,
    message_of,
    read_state_of,
    sent_of,
)
from tidings.model import Entry, HistoryPage, InboxPage, MemberChange, ReadState, Sent, Totals

MESSAGE_KEYS = [
    "seq", "kind", "message_id", "sender_id", "text", "ts", "sent_at", "deleted", "edited_at", "target_seq", "member",
]  # fmt: skip
INBOX_KEYS = [
    "conversation_id", "kind", "name", "avatar_url", "last_message_preview", "last_message_ts", "last_seq",
    "unread_count", "unread_capped", "read_seq", "first_unread_seq", "muted", "pinned", "archived",
]  # fmt: skip


def entry(**fields: object) -> Entry:
    values: dict[str, object] = {"conversation_id": "c1", "seq_no": 42, "kind": "message", "sent_ms": 1000}
    return msgspec.convert(values | fields, Entry)


def test_a_message_has_all_its_keys_and_null_where_unused() -> None:
    body = msgspec.to_builtins(message_of(entry(kind="void")))
    assert list(body) == MESSAGE_KEYS
    assert {name for name, value in body.items() if value is None} == set(MESSAGE_KEYS) - {
        "seq", "kind", "sent_at", "deleted",
    }  # fmt: skip


def test_only_a_message_that_cannot_be_read_says_so() -> None:
    body = msgspec.to_builtins(message_of(entry(is_unavailable=True)))
    assert list(body) == [*MESSAGE_KEYS, "unavailable"] and body["unavailable"] is True


def test_the_time_of_a_message_is_the_senders_or_else_ours() -> None:
    assert message_of(entry(timestamp=5)).ts == 5
    assert message_of(entry()).ts == 1000


def test_a_member_entry_says_what_changed() -> None:
    change = MemberChange("added", ("bob",), "member")
    body = msgspec.to_builtins(message_of(entry(kind="member", sender_id="alice", member=change)))
    assert body["member"] == {"action": "added", "user_ids": ("bob",), "role": "member"}
    assert body["ts"] is None


def test_a_page_of_history_has_the_documented_keys() -> None:
    body = msgspec.to_builtins(history_of(HistoryPage([entry()], 41, None, 40, 42, 41, 40)))
    assert list(body) == [
        "messages", "next_before_seq", "next_after_seq", "first_unread_seq", "head", "delivered_all_seq",
        "read_all_seq",
    ]  # fmt: skip
    assert body["messages"][0]["seq"] == 42 and body["next_before_seq"] == 41 and body["head"] == 42


def test_an_inbox_page_has_the_documented_keys() -> None:
    body = msgspec.to_builtins(inbox_of(InboxPage([item_of("alice", "c1")], "next", Totals(12, 3), True)))
    assert list(body) == ["conversations", "next_cursor", "total_unread", "unread_conversations", "stale"]
    assert list(body["conversations"][0]) == INBOX_KEYS
    assert body["conversations"][0]["unread_count"] == 3 and body["stale"] is True


def test_a_send_is_answered_with_its_number() -> None:
    body = msgspec.to_builtins(sent_of(Sent(entry(message_id="m1"), True)))
    assert body == {"conversation_id": "c1", "message_id": "m1", "seq": 42, "sent_at": 1000, "duplicate": True}


def test_a_read_state_may_have_no_counts_yet() -> None:
    body = read_state_of(ReadState(conversation_id="c1", read_seq=4, unread_count=None))
    assert (body.read_seq, body.unread_count, body.total_unread) == (4, None, None)


def test_an_absent_field_of_a_patch_differs_from_null() -> None:
    patch = msgspec.json.decode(b'{"name":null}', type=ConversationPatch)
    assert patch.name is None and patch.avatar_url is msgspec.UNSET


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "https://a b", 'https://a"b', "//x"])
def test_an_avatar_is_a_web_address(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "group", "avatar_url": url}, NewConversation)
