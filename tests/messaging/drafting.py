"""Drafts, and groups of them, without a node: what the tests of lanes, drafts, commits and answers begin with."""

from __future__ import annotations

from typing import Any

from tidings.messaging.access import Roster
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.model import Entry, Head, Member, Role, digest_of


def roster_of(roles: dict[str, Role], kind: Any = "group") -> Roster:
    members = {user_id: Member(conversation_id="c", user_id=user_id, role=role) for user_id, role in roles.items()}
    return Roster(Head(conversation_id="c", kind=kind, created_ms=1), members, 0)


def draft(message_id: str, conversation_id: str = "c", **fields: Any) -> Draft:
    given: dict[str, Any] = {"sender_id": "alice", "text": "hi", "reply": lambda result: None}
    made = Draft(conversation_id=conversation_id, message_id=message_id, **{**given, **fields})
    made.digest = made.digest or digest_of(made.text or "")
    return made


def ids(drafts: Any) -> list[str]:
    return [one.message_id for one in drafts]


def target(seq_no: int, **fields: Any) -> Entry:
    return Entry(conversation_id="c", seq_no=seq_no, kind="message", sent_ms=5, sender_id="alice", **fields)


def numbered(*drafts: Draft, first: int = 5) -> BatchGroup:
    group = BatchGroup("c")
    group.roster = roster_of({"alice": "owner", "bob": "member"}, kind="direct")
    group.drafts = list(drafts)
    for seq_no, one in enumerate(drafts, start=first):
        one.seq_no, one.sent_ms = seq_no, 1_000 + seq_no
    return group
