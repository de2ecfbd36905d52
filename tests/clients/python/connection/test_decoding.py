from __future__ import annotations

import json

import pytest

from tests.support.devices.scripted_server import message_new
from tidings_client.connection import decoding
from tidings_client.errors import NotFound
from tidings_client.values import Draining, MessageNew, Sent


def test_an_event_is_decoded_and_one_of_a_newer_server_is_left_alone() -> None:
    event = decoding.event_of(json.dumps({**message_new(3), "later": True}).encode())
    assert isinstance(event, MessageNew) and event.message.seq == 3
    assert decoding.event_of(b'{"type":"draining","reconnect_in_ms":5}') == Draining(reconnect_in_ms=5)
    assert decoding.event_of(b'{"type":"reaction.new"}') is None
    assert decoding.peek(b"nonsense") is None


def test_an_answer_is_its_struct_or_the_problem_that_it_is() -> None:
    ok = {"id": 1, "type": "ok", "conversation_id": "c", "message_id": "m", "seq": 4, "sent_at": 5, "duplicate": False}
    assert decoding.answer_of(json.dumps(ok).encode(), Sent).seq == 4
    error = b'{"id":1,"type":"error","code":"not_found","temporary":false,"retry_after_ms":null,"message":"no"}'
    with pytest.raises(NotFound, match="no"):
        decoding.answer_of(error, Sent)
