"""Whatever the bytes are, each decoder answers with a value or with the one error it is allowed to raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidings.errors import BadCursor, Problem
from tidings.ids import is_id, is_message_id
from tidings.messaging.archive import segment as segments
from tidings.messaging.reading.inbox import PARTS, decode_cursor, encode_cursor
from tidings.model import Content
from tidings.protocol import client_frames as protocol
from tidings.stores.keyspace.scripts.answers import Place

KINDS: tuple[str, ...] = (
    "connect",
    "message.send",
    "message.abandon",
    "message.delivered",
    "message.read",
    "message.unread",
    "inbox",
)
KINDS += ("history", "watch", "typing", "auth.refresh", "ping")
FIELDS: tuple[str, ...] = (
    "id",
    "token",
    "device",
    "resume",
    "since",
    "conversation_id",
    "message_id",
    "text",
    "ts",
    "acks",
    "up_to_seq",
)
FIELDS += ("up_to_ts", "seqs", "from_seq", "limit", "cursor", "before_seq", "after_seq", "around_seq", "anchor")
FIELDS += ("conversation_ids", "typing")
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(("c1", "first_unread")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
frames = st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(FIELDS, values))


def decoded(text: str) -> protocol.ClientFrame | None:
    try:
        return protocol.decode_frame(text)
    except Problem as problem:
        assert not problem.is_temporary and problem.status in (400, 413), problem
        return None


@settings(max_examples=250)
@given(st.text() | values.map(json.dumps) | frames.map(json.dumps))
@example("")
@example("[" * 10_000)
@example('{"type":"ping","id":1e400}')
@example('{"type":"ping","id":' + "9" * 10_000 + "}")
def test_any_text_is_a_frame_or_a_bad_request(text: str) -> None:
    decoded(text)
    id_ = protocol.id_of(text)
    assert id_ is None or isinstance(id_, int)


@settings(max_examples=250)
@given(frames)
def test_what_is_decoded_is_safe_inside_a_key(fields: dict[str, Any]) -> None:
    frame = decoded(json.dumps(fields))
    if frame is None:
        return
    assert type(frame).__struct_config__.tag == fields["type"]
    named = [getattr(frame, "conversation_id", "c"), *getattr(frame, "conversation_ids", ())]
    named += [*getattr(frame, "resume", {}), *getattr(frame, "acks", {})]
    assert all(is_id(one) for one in named)
    assert is_message_id(getattr(frame, "message_id", "m"))


@settings(max_examples=250)
@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_cursor_is_a_place_of_this_user_or_refused(cursor: str) -> None:
    try:
        place = decode_cursor("ann", cursor)
    except BadCursor:
        return
    assert encode_cursor("ann", place) == cursor


@settings(max_examples=150)
@given(
    st.integers(-(1 << 53), 1 << 53), st.from_regex(r"[A-Za-z0-9_.@-]{1,40}", fullmatch=True).filter(is_id), st.data()
)
def test_a_cursor_is_of_one_user_and_every_change_of_it_is_noticed(score: int, id_: str, data: st.DataObject) -> None:
    place = Place(data.draw(st.sampled_from(PARTS)), score, id_)
    cursor = encode_cursor("ann", place)
    assert decode_cursor("ann", cursor) == place
    with pytest.raises(BadCursor):
        decode_cursor("bob", cursor)
    at = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda one: one != cursor[at]))
    with pytest.raises(BadCursor):
        decode_cursor("ann", cursor[:at] + other + cursor[at + 1 :])


@settings(max_examples=250)
@given(st.text(max_size=140))
@example("a\n")
@example("{}")
def test_an_id_has_no_character_that_means_something_in_a_key(text: str) -> None:
    if is_id(text):
        assert 0 < len(text) <= 128 and text.isascii() and not set(text) & set("{}:*? \r\n\t\0/\\")
    if is_message_id(text):
        assert is_id(text) and len(text) <= 64


@settings(max_examples=150)
@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_are_a_segment_or_damaged(data: bytes, ref: str) -> None:
    good_ref, good = segments.pack("c1", {1: Content("one"), 2: Content("two")}, 1)
    for name, held in ((good_ref, data), (ref, good), (good_ref, good[: len(data)] + data)):
        with pytest.raises(segments.Damaged):
            segments.unpack("c1", name, held)


@settings(max_examples=300)
@given(st.data())
def test_every_flipped_bit_of_a_segment_is_noticed(data: st.DataObject) -> None:
    ref, good = segments.pack("c1", {number: Content(f"text {number}") for number in range(1, 20)}, 1)
    at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    with pytest.raises(segments.Damaged):
        segments.unpack("c1", ref, good[:at] + bytes((good[at] ^ (1 << bit),)) + good[at + 1 :])


@settings(max_examples=150)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(("", "..", "c", "ca", "1-2.3.0123456789ab", "x")), max_size=6).map("/".join)
)
def test_any_name_is_an_object_of_ours_or_left_alone(name: str) -> None:
    found = segments.parse_name(name)
    if found is not None:
        conversation_id, ref = found
        assert "/" not in conversation_id and segments.parse_ref(ref) and name.endswith(f"/{ref}")
