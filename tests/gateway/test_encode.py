from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.gateway.standins import INBOX_KEYS, MESSAGE_KEYS, entry, item_of, state_of
from tidings import model, pushes
from tidings.errors import RateLimited, TooLarge
from tidings.gateway.encode import (
    ENTRIES_CACHED_MAX,
    EventEncoder,
    conversation_of,
    encode_error,
    encode_ok,
    history_of,
    inbox_of,
    message_of,
    sent_of,
)
from tidings.messaging.conversations.directory import View
from tidings.model import Head, HistoryPage, InboxPage, Member, MemberChange, Sent, Totals
from tidings.protocol.bodies import ReadStateBody, SentBody, TotalsBody
from tidings.protocol.server_frames import MessageNewFrame

STATE = state_of("c1", read_seq=42, unread_count=0, total_unread=9)
EVENTS: list[tuple[pushes.Event, dict[str, Any]]] = [
    (
        pushes.ReadSynced(STATE),
        {
            "type": "read.synced",
            "conversation_id": "c1",
            "read_seq": 42,
            "unread_count": 0,
            "total_unread": 9,
            "unread_capped": False,
            "unread_conversations": None,
        },
    ),
    (
        pushes.TotalsSynced(model.Totals(9, 2)),
        {
            "type": "read.synced",
            "conversation_id": None,
            "read_seq": None,
            "unread_count": None,
            "total_unread": 9,
            "unread_capped": False,
            "unread_conversations": 2,
        },
    ),
    (
        pushes.Resumed(
            conversation_id="c1", from_seq=42, to_seq=57, complete=True, reset=False, read_seq=50, unread_count=7,
            delivered_all_seq=40, read_all_seq=38,
        ),
        {
            "type": "resumed", "conversation_id": "c1", "from_seq": 42, "to_seq": 57, "complete": True, "reset": False,
            "read_seq": 50, "unread_count": 7, "delivered_all_seq": 40, "read_all_seq": 38,
        },
    ),
    (
        pushes.Receipt("c1", "bob", 42, 41),
        {"type": "receipt", "conversation_id": "c1", "user_id": "bob", "delivered_seq": 42, "read_seq": 41},
    ),
    (
        pushes.Typing("c1", "bob", True),
        {"type": "typing", "conversation_id": "c1", "user_id": "bob", "typing": True},
    ),
    (
        pushes.Presence("bob", False, 5),
        {"type": "presence", "user_id": "bob", "online": False, "last_seen": 5},
    ),
    (pushes.ConversationRemoved("c1"), {"type": "conversation.removed", "conversation_id": "c1"}),
    (pushes.DeviceRemoved("phone"), {"type": "device.removed", "device": "phone"}),
]  # fmt: skip


# --- answers --------------------------------------------------------------------------------------


def test_a_message_has_all_its_keys_and_null_where_unused() -> None:
    body = msgspec.to_builtins(message_of(entry(kind="void")))
    assert list(body) == MESSAGE_KEYS
    assert {name for name, value in body.items() if value is None} == set(MESSAGE_KEYS) - {
        "seq", "kind", "sent_at", "deleted",
    }  # fmt: skip


def test_a_plain_message_is_encoded_as_any_other() -> None:
    plain = entry("hi", timestamp=900, message_id="m1", sender_id="alice")
    others: list[dict[str, Any]] = [{"edited_ms": 7}, {"content": model.Content("hi", silent=True)}, {"content": None}]
    for fields in ({}, *others, {"timestamp": None}, {"kind": "edit", "target_seq": 1}):
        one = msgspec.structs.replace(plain, **fields)
        assert message_of(one) == message_of(one, beside=model.Beside({}))


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


def test_a_conversation_comes_with_its_members() -> None:
    head = Head(conversation_id="c1", kind="group", created_ms=5, name="Crew", head=9)
    member = Member(conversation_id="c1", user_id="alice", role="owner", joined_seq=1, joined_ms=6)
    assert msgspec.to_builtins(conversation_of(View(head, (member,)))) == {
        "conversation_id": "c1", "kind": "group", "name": "Crew", "avatar_url": None, "history": "all", "head": 9,
        "created_at": 5, "members": [{"user_id": "alice", "role": "owner", "joined_seq": 1, "joined_at": 6}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "body"), [(state_of("c1", read_seq=4, unread_count=None), ReadStateBody), (Totals(12, 3), TotalsBody)]
)
def test_a_value_of_the_model_that_is_an_answer_has_the_documented_form(
    value: msgspec.Struct, body: type[msgspec.Struct]
) -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(value), type=body)
    assert msgspec.structs.asdict(decoded) == msgspec.structs.asdict(value)


def test_an_ok_carries_the_body_beside_the_id() -> None:
    body = SentBody("c1", "m1", 42, 5, False)
    assert json.loads(encode_ok(2, body)) == {
        "id": 2, "type": "ok", "conversation_id": "c1", "message_id": "m1", "seq": 42, "sent_at": 5, "duplicate": False,
    }  # fmt: skip
    assert json.loads(encode_ok(-7)) == {"id": -7, "type": "ok"}


def test_an_error_has_its_documented_form() -> None:
    frame = json.loads(encode_error(2, RateLimited(retry_after_ms=1200)))
    assert frame.pop("message")
    assert frame == {"id": 2, "type": "error", "code": "rate_limited", "temporary": True, "retry_after_ms": 1200}
    assert "id" not in json.loads(encode_error(None, TooLarge()))


# --- events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("event", "frame"), EVENTS, ids=lambda value: type(value).__name__)
def test_an_event_has_its_documented_form(event: pushes.Event, frame: dict[str, Any]) -> None:
    assert json.loads(EventEncoder().encode(event)) == frame


@pytest.mark.parametrize("kind", ["added", "updated"])
def test_a_conversation_comes_with_its_inbox_row(kind: str) -> None:
    item = item_of("alice", "c1")
    made = pushes.ConversationAdded(item) if kind == "added" else pushes.ConversationUpdated(item)
    frame = json.loads(EventEncoder().encode(made))
    assert frame.pop("type") == f"conversation.{kind}"
    assert list(frame) == INBOX_KEYS


@pytest.mark.parametrize("text", ['quotes " and \\ and \n', "é😀", "%d %b {}", ""])
@pytest.mark.parametrize("counts", [(3, False, 13), (None, False, None), (10_000, True, 10_001)])
def test_a_spliced_message_new_is_what_its_struct_would_be(text: str, counts: tuple[Any, bool, Any]) -> None:
    encoder, stored = EventEncoder(), entry(text=text, message_id="m", sender_id="a")
    unread, capped, total = counts
    event = pushes.MessageNew(stored, unread, capped, total)
    whole = MessageNewFrame(
        conversation_id="c1", message=message_of(stored), unread_count=unread, unread_capped=capped, total_unread=total
    )
    for _ in range(2):  # the second time from the cache
        assert msgspec.json.decode(encoder.encode(event), type=MessageNewFrame) == whole


def test_the_counts_of_one_member_never_reach_another() -> None:
    encoder, stored = EventEncoder(), entry(text="hi")
    frames = [json.loads(encoder.encode(pushes.MessageNew(stored, n, False, n * 10))) for n in range(5)]
    assert [(frame["unread_count"], frame["total_unread"]) for frame in frames] == [(n, n * 10) for n in range(5)]


def test_one_event_for_several_devices_is_encoded_once() -> None:
    encoder, event = EventEncoder(), pushes.MessageNew(entry(text="hi"), 1, False, 2)
    assert encoder.encode(event) is encoder.encode(event)
    other = pushes.MessageNew(event.entry, 7, False, 2)
    assert json.loads(encoder.encode(other))["unread_count"] == 7
    assert json.loads(encoder.encode(event))["unread_count"] == 1


def test_many_entries_do_not_grow_the_cache_without_end() -> None:
    encoder = EventEncoder()
    for n in range(ENTRIES_CACHED_MAX * 3):
        frame = json.loads(encoder.encode(pushes.MessageNew(entry(seq_no=n), 0, False, 0)))
        assert frame["message"]["seq"] == n
    assert len(encoder._entries) <= ENTRIES_CACHED_MAX


def test_reactions_and_pins_are_left_out_where_there_are_none_and_spliced_into_what_is_replayed() -> None:
    beside = model.Beside({"👍": model.ReactionCount(2, True)}, 44, True)
    shown = {"reactions": {"👍": {"count": 2, "mine": True}}, "reactions_seq": 44, "pinned": True}
    one = entry("hi")
    assert list(msgspec.to_builtins(message_of(one))) == MESSAGE_KEYS
    assert msgspec.to_builtins(message_of(one, beside=beside)).items() >= shown.items()
    frame = json.loads(EventEncoder().encode(pushes.MessageNew(one, 1, False, 1, is_hidden=True, beside=beside)))
    assert frame["message"].items() >= (shown | {"hidden": True}).items()
    reacted = entry(kind="reaction", target_seq=41, content={"reactions": [["👍", ["bob"], ["carl"]]]})
    body = msgspec.to_builtins(message_of(reacted))
    assert (body["reactions"], body["target_seq"]) == ((("👍", ("bob",), ("carl",)),), 41)
