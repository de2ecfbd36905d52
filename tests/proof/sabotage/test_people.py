"""Plants towards people: a member list that somebody is added to stays the same otherwise."""

from __future__ import annotations

from tidings.messaging.access import MemberList
from tidings.model import Head, Member
from tidings_proof.sabotage.people import _with


def test_somebody_is_added_and_nobody_taken_away() -> None:
    one, other = (Member(conversation_id="c", user_id=user_id) for user_id in ("u0", "u1"))
    member_list = MemberList(Head(conversation_id="c", kind="group", created_ms=0), {"u0": one}, 7)
    assert _with(member_list, {"u1": other}) == MemberList(member_list.head, {"u0": one, "u1": other}, 7)
