"""Plants of programs are each a mistake: they change the step that they name."""

from __future__ import annotations

from tidings.messaging.lifecycle.scheduled import Schedule
from tidings.messaging.streaming.streams import Streams
from tidings.stores.outbound import Answer


def test_the_steps_that_are_changed_are_there() -> None:
    assert isinstance(vars(Answer)["is_taken"], property)
    assert hasattr(Streams, "_finish") and hasattr(Schedule, "send")
