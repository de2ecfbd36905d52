"""Dialects: a message is packed once, and only its number changes."""

from __future__ import annotations

import json

import pytest

from tidings_proof.bench.load.dialects import NUMBER, TIDINGS
from tidings_proof.bench.load.generator import DIALECTS


def test_our_message_and_request_are_frames_of_the_protocol() -> None:
    frame = json.loads(TIDINGS.message("c1", "run-7-", "100 % {text}").replace(NUMBER, b"3"))
    wanted = {"id": 3, "message_id": "run-7-3", "type": "message.send", "conversation_id": "c1", "text": "100 % {text}"}
    assert frame == wanted
    assert json.loads(TIDINGS.request('{"type":"inbox"}')) == {"id": 1, "type": "inbox"}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_names_the_message_by_its_prefix_and_number(name: str) -> None:
    assert b"run-7-12" in DIALECTS[name].message("c1", "run-7-", "hi").replace(NUMBER, b"12")
