"""A push job: the place whose notices take the place of one another."""

from __future__ import annotations

from tidings.messaging.push.job import Job


def test_the_notices_of_a_thread_are_apart_from_those_of_its_conversation() -> None:
    message = Job(user_id="bob", made_ms=1, conversation_id="c1", seq_no=7)
    reply = Job(user_id="bob", made_ms=1, conversation_id="c1", seq_no=8, thread_seq=4)
    assert (message.place, reply.place, Job(user_id="bob", made_ms=1).place) == ("c1", "c1/4", "")
