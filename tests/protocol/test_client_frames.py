from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.bounds import (
    FILES_PER_MESSAGE_MAX,
    MENTIONS_MAX,
    READ_SEQS_MAX,
    RESUME_CONVERSATIONS_MAX,
    TEXT_BYTES_MAX,
)
from tidings.errors import BadCursor, BadRequest, Problem, TooLarge
from tidings.ids import is_id, is_message_id
from tidings.protocol import client_frames as protocol
from tidings.protocol import types
from tidings.protocol.client_frames import Send, decode_frame, id_of
from tidings.protocol.types import DATA_INTEGER_MAX


def frame(**fields: Any) -> str:
    return json.dumps(fields)


def send(**changes: Any) -> str:
    fields = {"type": "message.send", "id": 2, "conversation_id": "c1", "message_id": "m1", "text": "hi"}
    return frame(**fields | changes)


def refusal(text: str) -> type[Problem]:
    with pytest.raises(Problem) as caught:
        decode_frame(text)
    return type(caught.value)


def test_every_documented_frame_is_understood() -> None:
    kinds = {
        '{"id":1,"type":"connect","token":"t","device":"laptop","resume":{"c1":41},"since":1794770390000}': "Connect",
        '{"id":2,"type":"message.send","conversation_id":"c1","message_id":"0198","text":"hi","ts":1}': "Send",
        '{"type":"message.abandon","conversation_id":"c1","message_id":"0198"}': "Abandon",
        '{"type":"message.delivered","acks":{"c1":42}}': "Delivered",
        '{"id":3,"type":"message.read","conversation_id":"c1","up_to_seq":42}': "Read",
        '{"id":3,"type":"message.read","conversation_id":"c1","up_to_ts":42}': "Read",
        '{"id":3,"type":"message.read","conversation_id":"c1","seqs":[40,42]}': "Read",
        '{"id":4,"type":"message.unread","conversation_id":"c1","from_seq":40}': "Unread",
        '{"id":5,"type":"inbox","limit":20,"cursor":null}': "Inbox",
        '{"id":6,"type":"history","conversation_id":"c1","before_seq":42,"limit":20}': "History",
        '{"id":6,"type":"history","conversation_id":"c1","anchor":"first_unread"}': "History",
        '{"id":7,"type":"reaction","conversation_id":"c1","seq":41,"key":"👍","on":true}': "Reaction",
        '{"type":"watch","conversation_ids":["c1"]}': "Watch",
        '{"type":"typing","conversation_id":"c1","typing":true}': "Typing",
        '{"id":7,"type":"auth.refresh","token":"t"}': "Refresh",
        '{"id":8,"type":"ping"}': "Ping",
    }
    assert {text: type(decode_frame(text)).__name__ for text in kinds} == kinds


def test_a_client_cannot_say_who_sends_or_which_number_it_gets() -> None:
    for field in ("sender", "sender_id", "seq", "role", "sent_at"):
        with pytest.raises(BadRequest, match=f"`{field}`"):
            decode_frame(send(**{field: 1}))


def test_an_unknown_field_of_another_frame_changes_nothing() -> None:
    assert decode_frame('{"type":"ping","id":1,"from_the_future":{}}') == decode_frame('{"type":"ping","id":1}')


def test_a_time_is_one_that_every_client_can_show() -> None:
    latest = 8_640_000_000_000_000  # of a JavaScript Date
    assert decode_frame(send(ts=latest)) == decode_frame(send(ts=latest))
    with pytest.raises(BadRequest, match="ts"):
        decode_frame(send(ts=latest + 1))


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "nonsense",
        "[]",
        '"text"',
        "{}",
        '{"type":"no.such"}',
        '{"type":5}',
        send(text=None),
        send(text=5),
        send(id="1"),
        send(id=1.5),
        send(id=True),
        send(ts=-1),
        send(ts=2**63),
        send(conversation_id=""),
        frame(type="message.send", id=1, conversation_id="c1", text="hi"),
        frame(type="message.read", conversation_id="c1"),
        frame(type="message.read", conversation_id="c1", up_to_seq=1, up_to_ts=1),
        frame(type="message.read", conversation_id="c1", seqs=[]),
        frame(type="history", conversation_id="c1", before_seq=1, after_seq=1),
        frame(type="history", conversation_id="c1", anchor="last"),
        frame(type="history", conversation_id="c1", limit=0),
        frame(type="typing", conversation_id="c1", typing="yes"),
        send()[:-1] + ',"x":NaN}',
        send()[:-1] + ',"x":' + "[" * 10_000 + "]" * 10_000 + "}",
        "[" * 10_000,
        send().replace('"id": 2', '"id": 1e400'),
        send().replace('"id": 2', '"id": ' + "9" * 10_000),
        send(text="x").replace('"x"', '"\\ud800"'),
        send(text="x").replace('"x"', '"\\udc00 tail"'),
        send() + "{}",
    ],
)
def test_what_is_not_of_the_documented_form_is_a_bad_request(bad: str) -> None:
    assert refusal(bad) is BadRequest


@pytest.mark.parametrize(
    "bad", ["a{b", "a}b", "a:b", "a b", "a\r\nb", "a\0", "a\n", "x" * 129, "x" * 10_240, "é", "a/b"]
)
def test_an_id_that_is_not_safe_in_a_key_is_refused(bad: str) -> None:
    assert refusal(send(message_id=bad)) is BadRequest
    check_refused_as_id(bad)


@pytest.mark.parametrize("bad", [".", ".."])
def test_an_id_that_would_lead_elsewhere_in_a_path_is_refused(bad: str) -> None:
    check_refused_as_id(bad)
    assert is_id(bad + ".." + bad) and is_id("..a") and is_id("a..")


def check_refused_as_id(bad: str) -> None:
    assert refusal(send(conversation_id=bad)) is BadRequest
    assert refusal(frame(type="message.delivered", acks={bad: 1})) is BadRequest
    assert refusal(frame(type="connect", token="t", resume={bad: 1})) is BadRequest
    assert refusal(frame(type="connect", token="t", device=bad)) is BadRequest


def test_a_refused_id_is_told_in_words_and_where_it_stands() -> None:
    with pytest.raises(
        BadRequest, match=r"^Expected an id, 1-128 of A-Z .* not \. or \.\. - at `\$\.conversation_id`$"
    ):
        protocol.decode_frame(send(conversation_id=".."))
    with pytest.raises(BadRequest, match=r"^Expected a message_id, 1-64 of A-Z .* - at `\$\.message_id`$"):
        protocol.decode_frame(send(message_id="a b"))


@given(st.text(max_size=140) | st.text(alphabet=".", max_size=4))
def test_the_patterns_agree_with_the_model(text: str) -> None:
    def matches(kind: Any) -> bool:
        return re.search(kind.__metadata__[0].pattern, text) is not None

    assert matches(types.Id) == is_id(text)
    assert matches(types.MessageId) == is_message_id(text)


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "1", 10**400])
def test_a_forged_place_in_history_is_a_bad_cursor(bad: Any) -> None:
    for name in ("before_seq", "after_seq", "around_seq"):
        assert refusal(frame(type="history", conversation_id="c1", **{name: bad})) is BadCursor


def test_a_cursor_that_is_no_text_or_too_long_is_a_bad_cursor() -> None:
    assert refusal(frame(type="inbox", cursor=5)) is BadCursor
    assert refusal(frame(type="inbox", cursor="x" * 1000)) is BadCursor


def test_the_text_is_measured_in_utf8_bytes() -> None:
    decode_frame(send(text="x" * TEXT_BYTES_MAX))
    decode_frame(send(text="é" * (TEXT_BYTES_MAX // 2)))
    assert refusal(send(text="x" * (TEXT_BYTES_MAX + 1))) is TooLarge
    assert refusal(send(text="é" * (TEXT_BYTES_MAX // 2 + 1))) is TooLarge
    assert refusal(send(text="😀" * (TEXT_BYTES_MAX // 4 + 1))) is TooLarge


def test_a_list_that_is_longer_than_documented_is_a_bad_request() -> None:
    assert refusal(frame(type="message.read", conversation_id="c", seqs=[1] * (READ_SEQS_MAX + 1))) is BadRequest
    assert refusal(send(text="x", mentions=["bob"] * (MENTIONS_MAX + 1))) is BadRequest
    assert refusal(send(text="x", files=[f"f{n}" for n in range(FILES_PER_MESSAGE_MAX + 1)])) is BadRequest
    many = {f"c{n}": 1 for n in range(RESUME_CONVERSATIONS_MAX + 1)}
    assert refusal(frame(type="connect", token="t", resume=many)) is BadRequest


def test_a_mention_names_any_user_id() -> None:
    named = ["auth0|5f7c", "a+b@example.com", "urn:user:7", "a=b~c"]
    decoded = decode_frame(send(text="x", mentions=named))
    assert isinstance(decoded, Send) and decoded.mentions == named
    assert refusal(send(text="x", mentions=["a b"])) is BadRequest


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**400])
def test_a_whole_number_of_more_than_64_bits_in_data_is_a_bad_request(number: int) -> None:
    decode_frame(send(data={"n": DATA_INTEGER_MAX, "m": [-DATA_INTEGER_MAX, 1e308, True, None]}))
    for data in ({"n": number}, {"n": {"m": [1, number]}}):
        assert refusal(send(data=data)) is BadRequest


def test_of_a_repeated_key_the_last_one_counts() -> None:
    decoded = decode_frame('{"type":"message.unread","conversation_id":"c1","from_seq":1,"from_seq":2}')
    assert decoded == protocol.Unread(conversation_id="c1", from_seq=2)


def test_the_id_of_a_bad_frame_is_found_where_it_can_be_read() -> None:
    assert id_of('{"id":7,"type":"no.such"}') == 7
    assert id_of('{"type":"message.send","text":5,"id":8}') == 8
    assert id_of(r'{"id":9,"type":"message.send","text":"half of a pair: \ud800"}') == 9
    assert id_of('{"id":"7"}') is None
    assert id_of('{"id":7') is None
    assert id_of('{"id":7,"x":' + "[" * 10_000) is None


def test_a_refusal_does_not_repeat_a_long_value() -> None:
    with pytest.raises(BadRequest) as caught:
        decode_frame(frame(type="x" * 10_000))
    assert len(str(caught.value)) <= 200


@given(st.text(max_size=60))
def test_any_text_is_a_frame_or_a_problem(text: str) -> None:
    try:
        decode_frame(text)
    except Problem as problem:
        assert problem.status in (400, 413)


@pytest.mark.parametrize("key", ["", "x" * 33, "👍" * 9, "a b", "\u202eabc", "\n"])
def test_a_reaction_has_a_key_that_can_be_seen_of_1_to_32_bytes(key: str) -> None:
    assert refusal(frame(type="reaction", conversation_id="c1", seq=1, key=key, on=True)) is BadRequest


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u2003"])
def test_a_message_that_says_nothing_is_refused(text: str) -> None:
    for data in (None, dict[str, str]()):
        with pytest.raises(BadRequest, match="`text` is empty"):
            protocol.check_content(text, data)
    protocol.check_content(text, {}, ("f1",))
    protocol.check_content(text, {"kind": "card"})
    protocol.check_content(text, None, ("f1",))
