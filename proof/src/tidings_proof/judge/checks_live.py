"""Live checks: the promises to a connected client, I5, I6, I10 and I14.

Entries come in order, all of them, at once, and to nobody else."""

from __future__ import annotations

from collections import deque

from tidings_proof.judge.checker import Check, Interval, Truth
from tidings_proof.judge.dump import Log
from tidings_proof.judge.history import Record
from tidings_proof.people.more import REPLY, SILENT

OPEN_S = 4.0  # a gap is closed after 3 s; a reader who asks later than this must not meet it
Place = tuple[str, str]  # conversation, user


class LineState:
    """LineState: keeps what came on one connection, per conversation."""

    __slots__ = ("last", "sending", "whole")

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.whole: set[str] = set()
        self.sending: dict[int, str] = {}  # op -> message_id: their `ok` may come after what was sent later


class InOrder(Check):
    id = "I5"
    about = "on one connection entries come in order, once, and none is stepped over"
    wants = frozenset(("connected", "closed", "recv", "resumed", "added", "removed", "mine", "history", "send"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._lines: dict[int, LineState] = {}
        self._has: dict[tuple[str, str, str], set[int]] = {}  # (user, device, conversation) -> seqs

    def take(self, record: Record) -> None:
        match record.f:
            case "connected":
                self._begin(record)
            case "closed":
                self._lines.pop(record.line, None)
            case "recv":
                self._pushed(record)
            case "resumed":
                self._resumed(record)
            case "added" | "removed":
                self._moved(record)
            case "mine":
                self._mine(record).add(record.seq)
            case "send":
                self._sending(record)
            case "history":
                self._mine(record).update(entry.seq for entry in record.entries)

    def _sending(self, record: Record) -> None:
        line = self._lines.get(record.line)
        if line is not None and record.type == "invoke":
            line.sending[record.op] = record.message_id
        elif line is not None:
            line.sending.pop(record.op, None)

    def _mine(self, record: Record) -> set[int]:
        return self._has.setdefault((record.user_id, record.device, record.conversation_id), set())

    def _begin(self, record: Record) -> None:
        line = self._lines[record.line] = LineState()
        line.last = dict(record.value)

    def _pushed(self, record: Record) -> None:
        line, id_ = self._lines.get(record.line), record.conversation_id
        if line is None:
            return
        self.looked += 1
        last, mine = line.last.get(id_), self._mine(record)
        if last is not None and record.seq <= last:
            self.blame(f"{record.user_id}-{record.device} got {id_} {record.seq} after {last}", record.at_s)
        elif last is not None and id_ in line.whole:
            first = max(last, self._joined(record)) + 1
            skipped = [seq for seq in range(first, record.seq) if seq not in mine and not self._is_void(id_, seq)]
            if skipped and not self._are_under_way(record, line, skipped):
                self.blame(
                    f"{record.user_id}-{record.device} got {id_} {record.seq} after {last}: {skipped[:5]} never came",
                    record.at_s,
                )
        line.last[id_] = max(record.seq, last or 0)
        mine.add(record.seq)

    def _joined(self, record: Record) -> int:
        """Where the membership began that the entry belongs to: what was before it may be hidden by now."""
        mine = self.truth.intervals.get((record.conversation_id, record.user_id), [])
        return max((one.joined for one in mine if one.joined <= record.seq), default=0)

    def _is_void(self, conversation_id: str, seq: int) -> bool:
        """Nobody's news: a client that counts finds it in history."""
        held = self.truth.entries.get(conversation_id, {}).get(seq)
        return held is not None and held.kind == "void"

    def _are_under_way(self, record: Record, line: LineState, seqs: list[int]) -> bool:
        """Own messages whose `ok` is still to come on this very connection."""
        held = self.truth.entries.get(record.conversation_id, {})
        ids = set(line.sending.values())
        return all(
            (entry := held.get(seq)) is not None and entry.sender_id == record.user_id and entry.message_id in ids
            for seq in seqs
        )

    def _resumed(self, record: Record) -> None:
        line, id_ = self._lines.get(record.line), record.conversation_id
        if line is None:
            return
        self.looked += 1
        facts, mine = record.value, self._mine(record)
        if facts["reset"]:
            self.blame(f"{record.user_id}-{record.device} was told to forget {id_}", record.at_s)
        missing = [seq for seq in range(facts["from_seq"], facts["to_seq"] + 1) if seq not in mine]
        if missing:
            self.blame(
                f"{record.user_id}-{record.device} was told that {id_} is resumed up to {facts['to_seq']}, "
                f"and {missing[:5]} never came",
                record.at_s,
            )
        line.last[id_] = max(facts["to_seq"], line.last.get(id_, 0))
        if facts["complete"]:
            line.whole.add(id_)

    def _moved(self, record: Record) -> None:
        """Where a membership begins or ends, so does the order."""
        line = self._lines.get(record.line)
        if line is not None:
            line.whole.discard(record.conversation_id)
            line.last.pop(record.conversation_id, None)


class Everything(Check):
    id = "I6"
    about = "in the end every device of a member has every entry, and a new one reaches all who are connected"
    wants = frozenset(("recv", "send", "history", "probed", "unsettled"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._has: dict[tuple[str, str, str], set[int]] = {}

    def take(self, record: Record) -> None:
        if record.f == "unsettled":
            self.blame(record.text or "", record.at_s)
        elif record.f == "probed":
            self.looked += 1
            if record.value:
                self.blame(f"{record.conversation_id} {record.seq} did not reach {record.value}", record.at_s)
        elif record.type in ("ok", "event"):
            mine = self._has.setdefault((record.conversation_id, record.user_id, record.device), set())
            mine.update(entry.seq for entry in record.entries)
            if record.f == "send":
                mine.add(record.seq)

    def end(self) -> None:
        for what in self.truth.dump.unseen:
            self.blame(what)
        for (id_, user_id, device), mine in self._has.items():
            log = self.truth.dump.logs.get(id_)
            member = log.members.get(user_id) if log is not None else None
            if log is None or member is None or not device:
                continue
            self.looked += 1
            owed = range(member.joined_seq + 1, _last(log) + 1)
            missing = [seq for seq in owed if seq not in mine]
            if missing:
                self.blame(f"{user_id}-{device} never got {missing[:5]} of {id_} ({len(missing)} in all)")


def _last(log: Log) -> int:
    """Voids at the very end are told with what comes after them."""
    return max((entry.seq_no for entry in log.entries if entry.kind != "void"), default=0)


class AtOnce(Check):
    id = "I10"
    about = "what was acknowledged is seen by whoever looks next, in history and inbox"
    wants = frozenset(("send", "history", "inbox", "fault", "flag"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._writable_s = 0.0  # since when the tables take what is written
        self._acked_s: dict[str, dict[int, float]] = {}  # conversation -> seq -> when it was first acknowledged
        self._top: dict[str, deque[tuple[float, int]]] = {}  # conversation -> (since, highest acknowledged)
        self._asked: dict[int, tuple[float, dict[str, int]]] = {}  # op -> when, and what was acknowledged by then
        self._archived: set[Place] = set()  # ever: then an inbox does not always show it

    def take(self, record: Record) -> None:
        if record.f == "send":
            if record.type == "ok":
                self._acked(record)
        elif record.f == "flag":
            if record.value.get("archived"):
                self._archived.add((record.conversation_id, record.user_id))
        elif record.f == "fault":
            if record.text == "tables-locked":  # while it lasts nobody can close a slot
                self._writable_s = max(self._writable_s, record.at_s + record.value["lasts_s"])
        elif record.type == "invoke":
            self._asked[record.op] = (record.at_s, {id_: top[-1][1] for id_, top in self._top.items()})
        else:
            since_s, floor = self._asked.pop(record.op, (0.0, {}))
            if record.type == "ok" and record.f == "history":
                self._look_at_page(record, since_s)
            elif record.type == "ok" and record.value is not None and not record.value["stale"]:
                self._look_at_inbox(record, floor)

    def _acked(self, record: Record) -> None:
        if record.message_id.endswith((SILENT, REPLY)):
            return  # it moves nothing in an inbox
        self._acked_s.setdefault(record.conversation_id, {}).setdefault(record.seq, record.at_s)
        top = self._top.setdefault(record.conversation_id, deque([(0.0, 0)]))
        if record.seq > top[-1][1]:
            top.append((record.at_s, record.seq))

    def _look_at_page(self, record: Record, since_s: float) -> None:
        place = record.value["place"]
        if "before_seq" in place or ("after_seq" in place and len(record.entries) >= place["limit"]):
            return
        id_ = record.conversation_id
        if not record.entries and not self.truth.is_static(id_):
            return  # who has just come in sees nothing yet
        self.looked += 1
        newest = record.entries[0].seq if record.entries else place.get("after_seq", 0)
        acked_s = self._acked_s.get(id_, {}).get(newest + 1)
        if acked_s is not None and acked_s < since_s:
            self.blame(f"{record.user_id} saw {id_} up to {newest}; {newest + 1} was acknowledged before", record.at_s)
        elif since_s - OPEN_S > self._writable_s and self._highest(id_, since_s - OPEN_S) > newest:
            self.blame(
                f"{record.user_id} saw {id_} up to {newest}; what came after it was acknowledged {OPEN_S} s before",
                record.at_s,
            )

    def _highest(self, id_: str, before_s: float) -> int:
        top = self._top.get(id_)
        if top is None:
            return 0
        while len(top) > 1 and top[1][0] < before_s:
            top.popleft()
        return top[0][1] if top[0][0] < before_s else 0

    def _look_at_inbox(self, record: Record, floor: dict[str, int]) -> None:
        rows = {row[0]: row[1] for row in record.value["rows"]}
        for id_, acked in floor.items():
            conversation = self.truth.conversations[id_]
            if conversation.is_churned or record.user_id not in conversation.members or not acked:
                continue
            self.looked += 1
            if rows.get(id_, 0) < acked and (id_, record.user_id) not in self._archived:
                shown = rows.get(id_, "nothing")
                self.blame(f"the inbox of {record.user_id} shows {id_} at {shown}, {acked} was acknowledged before")


class Private(Check):
    id = "I14"
    about = "nobody sees or does anything where they are not a member"
    wants = frozenset(("knock", "recv", "history", "join", "leave"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._joins: dict[Place, list[tuple[float, float]]] = {}  # invoked, ended
        self._leaves: dict[Place, list[float]] = {}
        self._asked: dict[int, float] = {}
        self._later: list[tuple[Place, int, float]] = []  # entries of a time after some membership had ended

    def take(self, record: Record) -> None:
        if record.f == "knock":
            self._knocked(record)
        elif record.f in ("join", "leave"):
            self._changed(record)
        else:
            place = (record.conversation_id, record.user_id)
            for entry in record.entries:
                self.looked += 1
                self._seen(place, entry.seq, record.at_s)

    def _knocked(self, record: Record) -> None:
        if record.type in ("ok", "fail"):
            self.looked += 1
        if record.type == "ok":
            self.blame(f"a stranger was let in: {record.text} -> {record.seq}", record.at_s)

    def _changed(self, record: Record) -> None:
        place: Place = (record.conversation_id, str(record.value))
        if record.type == "invoke":
            self._asked[record.op] = record.at_s
            return
        since_s = self._asked.pop(record.op, 0.0)
        if record.type == "fail":
            return
        if record.f == "join":
            # What nobody knows the end of may still happen.
            self._joins.setdefault(place, []).append((since_s, record.at_s if record.type == "ok" else 1e12))
        else:
            self._leaves.setdefault(place, []).append(since_s)

    def _seen(self, place: Place, seq: int, at_s: float) -> None:
        mine = self.truth.intervals.get(place, [])
        if not mine and self.truth.dump.is_raw:
            self.blame(f"{place[1]} was shown {place[0]} {seq}, and was never a member", at_s)
        elif self._is_hidden(place[0], mine, seq):
            self.blame(f"{place[1]} was shown {place[0]} {seq}, which is from before they joined", at_s)
        elif mine and mine[0].left is not None and seq >= mine[0].left:
            self._later.append((place, seq, at_s))

    def _is_hidden(self, conversation_id: str, mine: list[Interval], seq: int) -> bool:
        """A group shows nothing of the time in which somebody was not in it."""
        if self.truth.conversations[conversation_id].kind != "group":
            return False
        return bool(mine) and not any(one.joined <= seq and (one.left is None or seq < one.left) for one in mine)

    def end(self) -> None:
        begins: dict[Place, list[float]] = {}
        for place, seq, at_s in self._later:
            mine = self.truth.intervals[place]
            if place not in begins:
                begins[place] = self._begins(place, mine)
            fits = (one.left is None or seq < one.left for one in mine)
            if not any(fit and at_s >= since_s for fit, since_s in zip(fits, begins[place], strict=True)):
                self.blame(f"{place[1]} was shown {place[0]} {seq} after having left", at_s)

    def _begins(self, place: Place, mine: list[Interval]) -> list[float]:
        """The earliest moment at which each membership can have begun."""
        begins = [0.0]
        joins, leaves = self._joins.get(place, []), sorted(self._leaves.get(place, []))
        for _ in mine[1:]:
            left_s = next((at_s for at_s in leaves if at_s >= begins[-1]), 0.0)
            begins.append(min((since_s for since_s, until_s in joins if until_s >= left_s), default=0.0))
        return begins


CHECKS: tuple[type[Check], ...] = (InOrder, Everything, AtOnce, Private)
