"""Drafts, and groups of them, without a node: what the tests of lanes, drafts, commits and answers begin with."""

from __future__ import annotations

from typing import Any

from tidings.messaging.access import MemberList
from tidings.messaging.send.batch import BatchGroup
from tidings.messaging.send.draft import Draft
from tidings.model import Content, Entry, Head, Member, MemberChange, Role, digest_of


def member_list_of(roles: dict[str, Role], kind: Any = "group") -> MemberList:
    members = {user_id: Member(conversation_id="c", user_id=user_id, role=role) for user_id, role in roles.items()}
    return MemberList(Head(conversation_id="c", kind=kind, created_ms=1), members, 0)


def draft(message_id: str, conversation_id: str = "c", **fields: Any) -> Draft:
    given: dict[str, Any] = {"sender_id": "alice", "content": Content("hi"), "reply": lambda result: None}
    made = Draft(conversation_id=conversation_id, message_id=message_id, **{**given, **fields})
    made.digest = made.digest or digest_of(made.content)
    return made


def ids(drafts: Any) -> list[str]:
    return [one.message_id for one in drafts]


def target(seq_no: int, **fields: Any) -> Entry:
    return Entry(conversation_id="c", seq_no=seq_no, kind="message", sent_ms=5, sender_id="alice", **fields)


def numbered(*drafts: Draft, first: int = 5) -> BatchGroup:
    group = BatchGroup("c")
    group.member_list = member_list_of({"alice": "owner", "bob": "member"}, kind="direct")
    group.drafts = list(drafts)
    for seq_no, one in enumerate(drafts, start=first):
        one.seq_no, one.sent_ms = seq_no, 1_000 + seq_no
    return group


def member_change(change: MemberChange, roles: dict[str, Role], sender_id: str = "alice") -> BatchGroup:
    group = numbered(draft("x", kind="member", sender_id=sender_id, change=change))
    group.member_list = member_list_of(roles)
    return group
