"""Plants towards people: a roster that somebody is added to stays the same roster otherwise."""

from __future__ import annotations

from tidings.messaging.access import Roster
from tidings.model import Head, Member
from tidings.torture.plants_people import _with


def test_somebody_is_added_and_nobody_taken_away() -> None:
    one, other = (Member(conversation_id="c", user_id=user_id) for user_id in ("u0", "u1"))
    roster = Roster(Head(conversation_id="c", kind="group", created_ms=0), {"u0": one}, 7)
    assert _with(roster, {"u1": other}) == Roster(roster.head, {"u0": one, "u1": other}, 7)
