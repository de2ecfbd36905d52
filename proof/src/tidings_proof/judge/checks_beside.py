"""Checks of acts beside messages: I21, I22, I24 and I25.

Filters, reactions, pins and saved messages are what the log and the people's last acts make them. A text that ended is
nowhere, and a person who was blocked counts for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.checks_state import UNREAD_CAP, unread_of
from tidings_proof.judge.dump import Shown
from tidings_proof.judge.history import Record, Seen

Act = tuple[str, str, str, int, str]  # what, user, conversation, seq, key
Reacted = dict[tuple[int, str], set[str]]  # (message, key) -> who
KNOWN_S = 40.0  # after a block, until every node knows of it and no earlier count is left, also through a fault
_COLUMNS = {"unread": 1, "mentions": 2, "pinned": 3, "muted": 4, "archived": 5}  # of a row in a `filtered` record


class NotCounted(Check):
    id = "I22"
    about = "a message of a person who is blocked is never counted for the one who blocked them"
    wants = frozenset(("block", "inbox", "send"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._sent: dict[tuple[str, str], set[str]] = {}  # (conversation, sender) -> ids
        self._blocked: dict[str, dict[str, float]] = {}  # user -> people whom they have blocked for certain, since when
        self._asked: dict[int, set[str]] = {}  # op of a look -> who was blocked when it began

    def take(self, record: Record) -> None:
        if record.f == "send" and record.type == "invoke":
            self._sent.setdefault((record.conversation_id, record.user_id), set()).add(record.message_id)
        elif record.f == "block":
            self._block(record)
        elif record.f == "inbox" and record.type == "invoke":
            since = self._blocked.get(record.user_id, {})
            self._asked[record.op] = {other for other, at_s in since.items() if record.at_s - at_s > KNOWN_S}
        elif record.f == "inbox":
            blocked = self._asked.pop(record.op, set()) & self._blocked.get(record.user_id, {}).keys()
            if blocked and record.type == "ok" and not record.value["stale"]:
                self._look(record, blocked)

    def _block(self, record: Record) -> None:
        other, is_on = record.value
        mine = self._blocked.setdefault(record.user_id, {})
        if record.type == "ok" and is_on:
            mine.setdefault(other, record.at_s)
        elif not is_on or record.type == "info":  # from here on nobody knows
            mine.pop(other, None)

    def _look(self, record: Record, blocked: set[str]) -> None:
        for id_, _, unread, *_ in record.value["rows"]:
            if unread is None or not self.truth.is_static(id_):
                continue
            self.looked += 1
            ids = [sent for (where, who), sent in self._sent.items() if where == id_ and who not in blocked]
            most = sum(map(len, ids))
            if unread > most:
                self.blame(f"{record.user_id} saw {unread} unread in {id_}: others sent {most}", record.at_s)

    def end(self) -> None:
        dump = self.truth.dump
        for user_id, blocked in dump.blocks.items():
            rows = {row.conversation_id: row for row in dump.rows.get(user_id, [])}
            for seen in _all_rows(dump.shown.get(user_id)):
                id_ = seen["conversation_id"]
                if not blocked or id_ not in rows or id_ not in dump.logs:
                    continue
                self.looked += 1
                count = min(len(unread_of(dump.logs[id_], rows[id_], user_id, blocked)), UNREAD_CAP)
                if (seen["unread_count"] or 0) > count:
                    self.blame(f"{user_id} blocked {sorted(blocked)} and sees {seen['unread_count']} in {id_}")


def _all_rows(shown: Shown | None) -> Iterable[dict[str, Any]]:
    return [*shown.inbox, *shown.filters.get("archived", [])] if shown is not None else ()


class Filtered(Check):
    id = "I25"
    about = "each filter of an inbox shows the conversations that fit it, at any moment and in the end"
    wants = frozenset(("filtered",))

    def take(self, record: Record) -> None:
        column = _COLUMNS[record.text or ""]
        for row in record.value:
            self.looked += 1
            if row[column] is not None and not row[column]:
                self.blame(f"{record.user_id} was shown {row} by the filter {record.text}", record.at_s)

    def end(self) -> None:
        for user_id, shown in self.truth.dump.shown.items():
            rows = _all_rows(shown)
            for name, found in shown.filters.items():
                self.looked += 1
                fit = {str(row["conversation_id"]) for row in rows if _fits(name, row)}
                got = [row["conversation_id"] for row in found]
                if sorted(fit) != sorted(got):
                    self.blame(f"the filter {name} of {user_id} shows {sorted(got)}, not {sorted(fit)}")


def _fits(name: str, row: dict[str, Any]) -> bool:
    """Whether the filter shows the row. The filter of pinned rows leaves archived ones out."""
    columns = {"unread": "unread_count", "mentions": "mention_count"}
    return bool(row.get(columns.get(name, name))) and not (name == "pinned" and row.get("archived"))


class Beside(Check):
    id = "I24"
    about = "reactions, pins and saved messages are what the log and the last act of each person say"
    wants = frozenset(("react", "save"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._last: dict[Act, bool] = {}
        self._doubtful: set[Act] = set()  # an act without an answer may happen later than the next one

    def take(self, record: Record) -> None:
        seq, key, is_on = record.value
        act = (record.f, record.user_id, record.conversation_id, seq, key)
        if record.type == "ok":
            self._last[act] = is_on
        elif record.type == "info":
            self._doubtful.add(act)

    def end(self) -> None:
        for user_id, shown in self.truth.dump.shown.items():
            for id_, entries in shown.histories.items():
                if self.truth.is_static(id_):
                    self._compare(user_id, id_, entries)
        if self.truth.dump.is_raw:
            self._compare_acts()

    def _compare(self, user_id: str, id_: str, entries: list[Seen]) -> None:
        reacted, pinned = folded(entries)
        for entry in entries:
            if entry.kind != "message" or entry.is_deleted:
                continue
            self.looked += 1
            by_key = {key: len(who) for (seq, key), who in reacted.items() if seq == entry.seq and who}
            if dict(entry.reactions) != by_key:
                self.blame(f"{user_id} sees {entry.reactions} beside {id_} {entry.seq}; by the log it is {by_key}")
            if entry.is_pinned != (entry.seq in pinned):
                self.blame(f"{user_id} sees {id_} {entry.seq} pinned: {entry.is_pinned}; the log says otherwise")

    def _compare_acts(self) -> None:
        reacted: dict[str, Reacted] = {}
        for act, is_on in self._last.items():
            what, user_id, id_, seq, key = act
            shown = self.truth.dump.shown.get(user_id)
            entry = self.truth.entries.get(id_, {}).get(seq)
            if act in self._doubtful or shown is None or entry is None or entry.is_deleted:
                continue
            self.looked += 1
            if what == "save":
                is_there = (id_, seq) in shown.saved
            else:
                if id_ not in reacted:
                    reacted[id_] = folded(shown.histories.get(id_, []))[0]
                is_there = user_id in reacted[id_].get((seq, key), set())
            if is_there != is_on:
                self.blame(f"the last {what} of {user_id} at {id_} {seq} {key} said {is_on}; it is {is_there}")


def folded(entries: Iterable[Seen]) -> tuple[Reacted, set[int]]:
    """Return the people who reacted to each message, and the pinned messages, by the entries of a log."""
    reacted: Reacted = {}
    pinned: set[int] = set()
    for entry in entries:
        target = entry.target_seq or 0
        for key, added, removed in entry.changes:
            who = reacted.setdefault((target, key), set())
            who |= set(added)
            who -= set(removed)
        if entry.kind == "pin":
            (pinned.add if entry.is_pinned else pinned.discard)(target)
    return reacted, pinned


class Gone(Check):
    id = "I21"
    about = "a text that was deleted or has ended is in no table, log of a store, segment, index or preview"

    def end(self) -> None:
        self.looked += self.truth.dump.looked_for
        for what in self.truth.dump.remains:
            self.blame(what)


CHECKS: tuple[type[Check], ...] = (NotCounted, Filtered, Beside, Gone)
