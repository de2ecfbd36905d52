"""Plants beside the messages are each a mistake: they change the script or the step that they name."""

from __future__ import annotations

from tidings.messaging.lifecycle.expiry import Expiry
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reactions.reactions import ReactionEntry
from tidings.messaging.unread import count
from tidings.stores.keyspace.scripts.messaging import SOURCES
from tidings_proof.sabotage.beside import MENTIONS


def test_the_line_that_is_changed_is_in_the_script() -> None:
    assert SOURCES["inbox_index"].count(MENTIONS) == 1


def test_the_steps_that_are_changed_are_there() -> None:
    assert all(hasattr(*one) for one in ((Expiry, "end"), (Blocks, "blockers"), (ReactionEntry, "after")))
    assert hasattr(count, "flags_of")
