"""Plants of the log: what they are made with."""

from __future__ import annotations

import pytest

from tidings.messaging.send.draft import Draft
from tidings.model import Content
from tidings.stores.keyspace.scripts import messaging as scripts
from tidings_proof.sabotage.log import _entry_of, rewrite_lua


def test_a_script_that_has_changed_is_not_planted_in_silence() -> None:
    before = dict(scripts.SOURCES)
    with pytest.raises(AssertionError, match="conversation_number has changed"):
        rewrite_lua("conversation_number", ("a line that is not there", ""))
    assert before == scripts.SOURCES


def test_a_forged_entry_is_what_the_draft_says() -> None:
    draft = Draft(
        sender_id="u0", conversation_id="c", message_id="m", reply=lambda answer: None, content=Content("hi"), seq_no=4
    )
    entry = _entry_of(draft)
    assert (entry.seq_no, entry.sender_id, entry.message_id, entry.text) == (4, "u0", "m", "hi")
