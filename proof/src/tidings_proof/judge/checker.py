"""The judge: holds what clients saw (history.py) and what is there in the end (dump.py) against the promises I1 to I28.

Each promise is a `Check`: it is shown every record that it wants, in order, then asked for its end. All of them are
linear in the history, so an hour's millions of records are judged in a minute. A check never believes a server: what
it compares is what clients said and heard, and the raw tables. Its own mistakes are found by plants.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

import msgspec

from tidings.messaging.unread.line import crossed
from tidings.model import Entry, Head
from tidings_proof.judge.dump import Dump, Log
from tidings_proof.judge.history import Record
from tidings_proof.people.workload import Conversation

State = Literal["kept", "broken", "not looked at"]
SHOWN_MAX = 20  # violations of one promise that are kept in words; all are counted


class Violation(msgspec.Struct, frozen=True):
    what: str
    at_s: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """How one promise stood."""

    id: str
    about: str
    looked: int  # how many things were looked at; none where the run had no access to them
    broken: int
    violations: list[Violation]

    @property
    def is_broken(self) -> bool:
        return self.broken > 0

    @property
    def is_kept(self) -> bool:
        return self.looked > 0 and not self.is_broken

    @property
    def state(self) -> State:
        return "broken" if self.is_broken else "kept" if self.is_kept else "not looked at"


class Interval(msgspec.Struct, frozen=True):
    """A membership, by the numbers of its entries: from `joined` to below `left`."""

    joined: int
    left: int | None


class Truth:
    """The end, looked up in every way that checks need."""

    def __init__(self, dump: Dump, conversations: Mapping[str, Conversation], sleeper: str) -> None:
        self.dump = dump
        self.conversations = conversations
        self.sleeper = sleeper
        self.entries: dict[str, dict[int, Entry]] = {
            id_: {entry.seq_no: entry for entry in log.entries} for id_, log in dump.logs.items()
        }

    @cached_property
    def seq_of(self) -> dict[tuple[str, str, str], int]:
        """(conversation, sender, message_id) -> seq. Of a message that is there twice: the first."""
        found: dict[tuple[str, str, str], int] = {}
        for id_, log in self.dump.logs.items():
            for entry in log.entries:
                if entry.message_id and entry.sender_id:
                    found.setdefault((id_, entry.sender_id, entry.message_id), entry.seq_no)
        return found

    @cached_property
    def intervals(self) -> dict[tuple[str, str], list[Interval]]:
        """(conversation, user) -> memberships in their order, from the log itself."""
        found: dict[tuple[str, str], list[Interval]] = {}
        for id_, conversation in self.conversations.items():
            for user_id in conversation.members:
                found[id_, user_id] = [Interval(0, None)]
        for id_, log in self.dump.logs.items():
            for entry in log.entries:
                if entry.member is not None and entry.member.action != "role":
                    _move(found, id_, entry)
        return found

    def crossings(self, members_large: int) -> tuple[int, int]:
        """How often a conversation became large, and small again, by the member entries of its log."""
        ups = downs = 0
        for id_, conversation in self.conversations.items():
            moves = sorted(
                (at, step)
                for (where, _), mine in self.intervals.items()
                if where == id_
                for one in mine
                for at, step in ((one.joined, 1), (one.left, -1))
                if at  # 0: from the beginning; None: to the end
            )
            count, head = len(conversation.members), Head(conversation_id=id_, kind="group", created_ms=1)
            # The kind does not matter: a direct conversation never has so many members.
            head = msgspec.structs.replace(head, large_ms=crossed(head, count, members_large, 1) or 0)
            for _, step in moves:
                count += step
                if (large_ms := crossed(head, count, members_large, 1)) is not None:
                    head = msgspec.structs.replace(head, large_ms=large_ms)
                    ups, downs = ups + (large_ms > 0), downs + (large_ms == 0)
        return ups, downs

    def is_static(self, conversation_id: str) -> bool:
        conversation = self.conversations.get(conversation_id)
        return conversation is not None and not conversation.is_churned

    def logs(self) -> Iterable[tuple[str, Log]]:
        return self.dump.logs.items()


def _move(found: dict[tuple[str, str], list[Interval]], id_: str, entry: Entry) -> None:
    assert entry.member is not None
    for user_id in entry.member.user_ids:
        mine = found.setdefault((id_, user_id), [])
        is_in = bool(mine) and mine[-1].left is None
        if entry.member.action == "added" and not is_in:
            mine.append(Interval(entry.seq_no, None))
        elif entry.member.action != "added" and is_in:
            mine[-1] = Interval(mine[-1].joined, entry.seq_no)


class Check:
    """One promise. `wants`: the records it is shown, by what they are about."""

    id = ""
    about = ""
    wants: frozenset[str] = frozenset()

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.looked = 0
        self.broken = 0
        self.violations: list[Violation] = []

    def take(self, record: Record) -> None:
        """The next record."""

    def end(self) -> None:
        """After the last one."""

    def blame(self, what: str, at_s: float | None = None) -> None:
        self.broken += 1
        if len(self.violations) < SHOWN_MAX:
            self.violations.append(Violation(what, at_s))

    def finding(self) -> Finding:
        return Finding(self.id, self.about, self.looked, self.broken, self.violations)


def judge(records: Iterable[Record], checks: Iterable[Check]) -> list[Finding]:
    """All findings, in the order of the promises."""
    asked = list(checks)
    wanted: dict[str, list[Check]] = {}
    for check in asked:
        for f in check.wants:
            wanted.setdefault(f, []).append(check)
    for record in records:
        for check in wanted.get(record.f, ()):
            check.take(record)
    for check in asked:
        check.end()
    return sorted((check.finding() for check in asked), key=lambda finding: int(finding.id[1:]))
