from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.gateway.standins import item_of
from tests.gateway.test_bodies import INBOX_KEYS, entry
from tidings import model
from tidings.errors import RateLimited, TooLarge
from tidings.gateway.bodies import SentBody, message_of
from tidings.gateway.frames import (
    ENTRIES_CACHED_MAX,
    SERVER_FRAMES,
    EventEncoder,
    MessageNewFrame,
    encode_error,
    encode_ok,
    is_droppable,
)

STATE = model.ReadState(conversation_id="c1", read_seq=42, unread_count=0, total_unread=9)
EVENTS: list[tuple[model.Event, dict[str, Any]]] = [
    (
        model.ReadSynced(STATE),
        {
            "type": "read.synced",
            "conversation_id": "c1",
            "read_seq": 42,
            "unread_count": 0,
            "total_unread": 9,
            "unread_capped": False,
        },
    ),
    (
        model.Resumed(
            conversation_id="c1", from_seq=42, to_seq=57, complete=True, reset=False, read_seq=50, unread_count=7,
            delivered_all_seq=40, read_all_seq=38,
        ),
        {
            "type": "resumed", "conversation_id": "c1", "from_seq": 42, "to_seq": 57, "complete": True, "reset": False,
            "read_seq": 50, "unread_count": 7, "delivered_all_seq": 40, "read_all_seq": 38,
        },
    ),
    (
        model.Receipt("c1", "bob", 42, 41),
        {"type": "receipt", "conversation_id": "c1", "user_id": "bob", "delivered_seq": 42, "read_seq": 41},
    ),
    (
        model.Typing("c1", "bob", True),
        {"type": "typing", "conversation_id": "c1", "user_id": "bob", "typing": True},
    ),
    (
        model.Presence("bob", False, 5),
        {"type": "presence", "user_id": "bob", "online": False, "last_seen": 5},
    ),
    (model.ConversationRemoved("c1"), {"type": "conversation.removed", "conversation_id": "c1"}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "frame"), EVENTS, ids=lambda value: type(value).__name__)
def test_an_event_has_its_documented_form(event: model.Event, frame: dict[str, Any]) -> None:
    assert json.loads(EventEncoder().encode(event)) == frame


@pytest.mark.parametrize("kind", ["added", "updated"])
def test_a_conversation_comes_with_its_inbox_row(kind: str) -> None:
    item = item_of("alice", "c1")
    made = model.ConversationAdded(item) if kind == "added" else model.ConversationUpdated(item)
    frame = json.loads(EventEncoder().encode(made))
    assert frame.pop("type") == f"conversation.{kind}"
    assert list(frame) == INBOX_KEYS


@pytest.mark.parametrize("text", ['quotes " and \\ and \n', "é😀", "%d %b {}", ""])
@pytest.mark.parametrize("counts", [(3, False, 13), (None, False, None), (10_000, True, 10_001)])
def test_a_spliced_message_new_is_what_its_struct_would_be(text: str, counts: tuple[Any, bool, Any]) -> None:
    encoder, stored = EventEncoder(), entry(text=text, message_id="m", sender_id="a")
    unread, capped, total = counts
    event = model.MessageNew(stored, unread, capped, total)
    whole = MessageNewFrame(
        conversation_id="c1", message=message_of(stored), unread_count=unread, unread_capped=capped, total_unread=total
    )
    for _ in range(2):  # the second time from the cache
        assert msgspec.json.decode(encoder.encode(event), type=MessageNewFrame) == whole


def test_the_counts_of_one_member_never_reach_another() -> None:
    encoder, stored = EventEncoder(), entry(text="hi")
    frames = [json.loads(encoder.encode(model.MessageNew(stored, n, False, n * 10))) for n in range(5)]
    assert [(frame["unread_count"], frame["total_unread"]) for frame in frames] == [(n, n * 10) for n in range(5)]


def test_one_event_for_several_devices_is_encoded_once() -> None:
    encoder, event = EventEncoder(), model.MessageNew(entry(text="hi"), 1, False, 2)
    assert encoder.encode(event) is encoder.encode(event)
    other = model.MessageNew(event.entry, 7, False, 2)
    assert json.loads(encoder.encode(other))["unread_count"] == 7
    assert json.loads(encoder.encode(event))["unread_count"] == 1


def test_many_entries_do_not_grow_the_cache_without_end() -> None:
    encoder = EventEncoder()
    for n in range(ENTRIES_CACHED_MAX * 3):
        frame = json.loads(encoder.encode(model.MessageNew(entry(seq_no=n), 0, False, 0)))
        assert frame["message"]["seq"] == n
    assert len(encoder._entries) <= ENTRIES_CACHED_MAX


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


def test_only_what_is_true_for_a_moment_may_be_dropped() -> None:
    droppable = {type(event).__name__ for event, _ in EVENTS if is_droppable(event)}
    assert droppable == {"Typing", "Presence"}
    assert not is_droppable(model.MessageNew(entry(), 0, False, 0))


def test_every_server_frame_has_a_tag_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in SERVER_FRAMES]
    assert len(set(tags)) == len(tags) and None not in tags
