"""A small history told by hand, and the end it leads to: what a check of the checker is shown.

One group `c1` of u0, u1 and u2 (the sleeper) with a log; records are added in the order in which they are told. What is
told without more is a run in which every promise was kept; a test changes one thing and the check must notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tidings.model import Content, Entry, Head, Member, MemberChange, Row, Status
from tidings_proof.judge.checker import Check, Finding, Truth, judge
from tidings_proof.judge.dump import Dump, Log, Shown
from tidings_proof.judge.history import Record, Seen
from tidings_proof.people.workload import Conversation

C = "c1"
USERS = ("u0", "u1", "u2")


class Story:
    def __init__(self, kind: str = "group", *, is_churned: bool = False) -> None:
        self.records: list[Record] = []
        self.entries: list[Entry] = []
        self.members = {user_id: Member(conversation_id=C, user_id=user_id) for user_id in USERS}
        self.statuses: dict[str, Status] = {}
        self.conversation = Conversation(C, kind, USERS, is_churned)
        self.unread: dict[str, tuple[int, int | None]] = {}  # what an inbox shows: count and first
        self.wrong: dict[str, Any] = {}  # other fields of the dump
        self._ops = 0
        self._now_s = 0.0

    # --- what happened ---

    def note(self, type_: Any, f: str, **facts: Any) -> Record:
        self._now_s += 1.0
        facts.setdefault("conversation_id", C)
        record = Record(facts.pop("at_s", self._now_s), type_, f, **facts)
        self.records.append(record)
        return record

    def invoke(self, f: str, **facts: Any) -> int:
        self._ops += 1
        self.note("invoke", f, op=self._ops, **facts)
        return self._ops

    def send(self, user_id: str, message_id: str, seq: int | None, text: str = "hi", **facts: Any) -> None:
        """Invoked, and acknowledged as `seq` (None: nobody knows)."""
        who: dict[str, Any] = {"user_id": user_id, "device": "d0", "message_id": message_id, "line": 1, **facts}
        op = self.invoke("send", text=text, **who)
        who.pop("value", None)
        if seq is None:
            self.note("info", "send", op=op, error="lost", **who)
        else:
            self.note("ok", "send", op=op, seq=seq, value=False, **who)

    def stored(self, user_id: str, message_id: str, text: str | None = "hi", **fields: Any) -> Entry:
        """The next entry of the log."""
        entry = Entry(
            conversation_id=C,
            seq_no=len(self.entries) + 1,
            sent_ms=fields.pop("sent_ms", 1_000 + len(self.entries)),
            kind=fields.pop("kind", "message"),
            sender_id=user_id,
            message_id=message_id,
            content=None if text is None else Content(text),
            **fields,
        )
        self.entries.append(entry)
        return entry

    def said(self, user_id: str, message_id: str, text: str = "hi") -> int:
        """Sent, acknowledged and stored."""
        seq = self.stored(user_id, message_id, text).seq_no
        self.send(user_id, message_id, seq, text)
        return seq

    def changed(self, action: Any, user_id: str) -> int:
        change = MemberChange(action, (user_id,))
        seq = self.stored("u0", f"m-{len(self.entries)}", None, kind="member", member=change).seq_no
        if action == "added":
            self.members[user_id] = Member(conversation_id=C, user_id=user_id, joined_seq=seq)
        else:
            self.members.pop(user_id, None)
        return seq

    def got(self, user_id: str, *seqs: int, f: str = "recv", line: int = 1, **facts: Any) -> None:
        """Pushed, one by one; or a page of history."""
        if f == "recv":
            for seq in seqs:
                self.note(
                    "event", f, user_id=user_id, device="d0", line=line, seq=seq, entries=(self.seen(seq),), **facts
                )
            return
        place = facts.pop("place", {"limit": 20})
        op = self.invoke("history", user_id=user_id, device="d0", value=place)
        entries = tuple(self.seen(seq) for seq in sorted(seqs, reverse=True))
        value = {"place": place, "head": len(self.entries), "next_after_seq": None}
        self.note("ok", "history", op=op, user_id=user_id, device="d0", entries=entries, value=value)

    def seen(self, seq: int) -> Seen:
        return shown_of(self.entries[seq - 1])

    # --- how it ended ---

    def judged(self, check: type[Check]) -> Finding:
        truth = Truth(self.dump(), {C: self.conversation}, "u2")
        (finding,) = judge(self.records, [check(truth)])
        return finding

    def dump(self) -> Dump:
        head = Head(
            conversation_id=C,
            kind="group",
            created_ms=1,
            history="joined",
            head=self.wrong.pop("head", len(self.entries)),
        )
        log = Log(head, self.entries, self.members, self.statuses)
        shown = {user_id: self._shown(user_id) for user_id in self.members}
        rows = {user_id: [self._row(user_id)] for user_id in self.members}
        return msgspec.structs.replace(Dump({C: log}, rows, shown), **self.wrong)

    def _row(self, user_id: str) -> Row:
        member = self.members[user_id]
        return Row(user_id=user_id, conversation_id=C, kind="group", joined_seq=member.joined_seq, joined_ms=1)

    def _shown(self, user_id: str) -> Shown:
        unread, first = self.unread.get(user_id, (0, None))
        inbox = [{"conversation_id": C, "unread_count": unread, "first_unread_seq": first}]
        return Shown(inbox, unread, int(unread > 0), {C: [shown_of(entry) for entry in self.entries]})


def shown_of(entry: Entry) -> Seen:
    member = entry.member
    return Seen(
        entry.seq_no,
        entry.kind,
        entry.sender_id,
        entry.message_id,
        entry.text,
        entry.target_seq,
        entry.is_deleted,
        member.action if member else None,
        tuple(member.user_ids) if member else (),
    )


def claims_of(finding: Finding) -> Iterable[str]:
    return [violation.what for violation in finding.violations]
