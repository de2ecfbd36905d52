"""State checks: what follows from the log, I11 to I13, I15, I16 and I18.

Counts, inboxes and receipts agree with the log, nodes stay bounded, and nothing is undone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tidings.config.settings import Unread
from tidings.model import Entry, Row, Status
from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.dump import Log, Shown
from tidings_proof.judge.history import Record
from tidings_proof.people.more import FLEETING, REPLY, SILENT

UNREAD_CAP = Unread().cap  # what is shown of more than that
RSS_BYTES_MAX = 500 * 1024 * 1024  # a node under torture stays far below it
FILES_MAX = 600  # descriptors of a node: connections, stores, and room
RECOVERED_S = 10.0  # after the last fault, until sends are answered as before
Place = tuple[str, str]  # conversation, user


class Tally:
    """How many messages of others than one user there are in each conversation."""

    def __init__(self, but: str) -> None:
        self.counts: dict[str, int] = {}
        self._but = but
        self._known: set[tuple[str, str, str]] = set()

    def add(self, record: Record) -> None:
        key = (record.conversation_id, record.user_id, record.message_id)
        is_lasting = not record.message_id.endswith((SILENT, FLEETING, REPLY))  # others need not count when one looks
        if record.user_id != self._but and key not in self._known and (is_lasting or record.type == "invoke"):
            self._known.add(key)
            self.counts[key[0]] = self.counts.get(key[0], 0) + 1


class Counts(Check):
    id = "I11"
    about = "unread is exact: what the log and the cursor say, at any moment and in the end"
    wants = frozenset(("send", "delete", "inbox", "read", "unread", "settings"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._sent = Tally(truth.sleeper)
        self._acked = Tally(truth.sleeper)
        self._deletes: dict[str, int] = {}  # conversation -> how many were invoked
        self._asked: dict[int, dict[str, int]] = {}  # op -> what was acknowledged when the sleeper asked
        self._are_usual = True  # False: nodes have another cap or policy, and count in another way
        self._ups: dict[Place, int] = {}  # read up to, acknowledged
        self._lowered: set[str] = set()  # users who ever marked something unread
        self._wants: dict[int, tuple[Any, int]] = {}  # op -> what it asks, and what was read by then

    def take(self, record: Record) -> None:
        if record.f == "send":
            if record.type in ("invoke", "ok"):
                (self._sent if record.type == "invoke" else self._acked).add(record)
        elif record.f == "delete":
            id_ = record.conversation_id
            self._deletes[id_] = self._deletes.get(id_, 0) + (record.type == "invoke")
        elif record.f == "inbox" and record.user_id == self.truth.sleeper:
            self._sleeper_looks(record)
        elif record.f == "settings":
            self._are_usual = record.text == "usual"
            self._asked.clear()
        elif record.f == "unread":
            self._lowered.add(record.user_id)
        elif record.f == "read":
            self._read(record)

    def _sleeper_looks(self, record: Record) -> None:
        """Check the user who never reads: unread is at least the others' acknowledged messages, at most the sent."""
        if record.type == "invoke":
            self._asked[record.op] = dict(self._acked.counts)
            return
        acked = self._asked.pop(record.op, None)
        if acked is None or not self._are_usual or record.type != "ok" or record.value["stale"]:
            return
        for id_, _, unread, *_ in record.value["rows"]:
            if self.truth.is_static(id_) and unread is not None:
                self.looked += 1
                least = min(acked.get(id_, 0) - self._deletes.get(id_, 0), UNREAD_CAP)
                most = self._sent.counts.get(id_, 0)
                if not least <= unread <= most:
                    self.blame(f"{record.user_id} saw {unread} unread in {id_}: not {least} to {most}", record.at_s)

    def _read(self, record: Record) -> None:
        place = (record.conversation_id, record.user_id)
        if record.type == "invoke":
            self._wants[record.op] = (record.value.get("up_to_seq"), self._ups.get(place, 0))
            return
        up_to, floor = self._wants.pop(record.op, (None, 0))
        is_counted = self.truth.is_static(place[0]) and record.user_id not in self._lowered
        if record.type != "ok" or up_to is None or not is_counted:
            return
        self.looked += 1
        reached = record.value["read_seq"]
        self._ups[place] = max(self._ups.get(place, 0), min(up_to, reached))
        if reached < floor:
            self.blame(f"the cursor of {place[1]} in {place[0]} went back from {floor} to {reached}", record.at_s)

    def end(self) -> None:
        for wrong in self.truth.dump.wrong:
            self.blame(f"verify: {wrong.user_id} {wrong.conversation_id} {wrong.what} {wrong.found}!={wrong.expected}")
        for user_id, shown in self.truth.dump.shown.items():
            self._compare(user_id, shown)
        for (id_, user_id), up_to in self._ups.items():
            log = self.truth.dump.logs.get(id_)
            status = log.statuses.get(user_id) if log is not None else None
            is_read = status is not None and status.cursor_seq >= up_to
            if user_id not in self._lowered and self.truth.dump.is_raw and log is not None and not is_read:
                self.blame(f"{user_id} read {id_} up to {up_to}; the cursor is {status.cursor_seq if status else None}")

    def _compare(self, user_id: str, shown: Shown) -> None:
        rows = {row.conversation_id: row for row in self.truth.dump.rows.get(user_id, [])}
        blocked = self.truth.dump.blocks.get(user_id, frozenset())
        sums = [0, 0, 0]  # the badge, conversations with something unread, mentions
        for seen in (*shown.inbox, *shown.filters.get("archived", [])):
            id_ = seen["conversation_id"]
            if id_ not in rows or id_ not in self.truth.dump.logs:
                continue
            self.looked += 1
            unread = unread_of(self.truth.dump.logs[id_], rows[id_], user_id, blocked)
            mentions = [entry for entry in unread[-UNREAD_CAP:] if entry.mentions_user(user_id)]
            count = min(len(unread), UNREAD_CAP)
            for at, more in enumerate((0 if rows[id_].muted else count, bool(unread), len(mentions))):
                sums[at] += more
            found = (seen["unread_count"], seen["first_unread_seq"], seen.get("mention_count") or 0)
            expected = (count, unread[0].seq_no if unread else None, len(mentions))
            if found != expected:
                self.blame(f"{user_id} sees {found} (unread, first, mentions) in {id_}; by the log it is {expected}")
        badge = [shown.total_unread, shown.unread_conversations, shown.total_mentions]
        if rows and badge != sums:
            self.blame(f"the totals of {user_id} are {badge} (badge, conversations, mentions); by the log {sums}")


def unread_of(log: Log, row: Row, user_id: str, blocked: Collection[str] = ()) -> list[Entry]:
    """Return the entries that the design calls unread, from the log and the member's own status."""
    status = log.statuses.get(user_id) or Status(conversation_id=row.conversation_id, user_id=user_id)
    is_of_now = status.since_seq >= row.joined_seq  # of an earlier membership nothing counts
    cursor = status.cursor_seq if is_of_now else row.joined_seq
    ranges = status.ranges if is_of_now else ()
    start = max(cursor, log.head.floor_seq, row.joined_seq if log.head.history == "joined" else 0)
    return [
        entry
        for entry in log.entries
        if entry.seq_no > start
        and entry.kind == "message"
        and not entry.is_deleted
        and not entry.is_uncounted
        and entry.sender_id != user_id
        and entry.sender_id not in blocked
        and not any(low <= entry.seq_no <= high for low, high in ranges)
    ]


class Inboxes(Check):
    id = "I12"
    about = "an inbox lists the conversations of its user by their last message, none missing, none too many"

    def end(self) -> None:
        for user_id, shown in self.truth.dump.shown.items():
            rows = self.truth.dump.rows.get(user_id)
            if rows is None:
                continue
            self.looked += 1
            members = {id_ for id_, log in self.truth.logs() if user_id in log.members}
            if members != {row.conversation_id for row in rows}:
                self.blame(
                    f"{user_id} is a member of {sorted(members)}, with rows of {[r.conversation_id for r in rows]}"
                )
            listed = [row for row in rows if self._is_listed(row)]
            expected = [id_ for _, id_ in sorted((self._place(row) for row in listed if not row.pinned), reverse=True)]
            pinned = {row.conversation_id for row in listed if row.pinned}
            found = [row["conversation_id"] for row in shown.inbox]
            if found[len(pinned) :] != expected or set(found[: len(pinned)]) != pinned:
                self.blame(f"the inbox of {user_id} is {found}, not {sorted(pinned)} (pinned), then {expected}")

    def _place(self, row: Row) -> tuple[int, str]:
        return max([row.joined_ms, *(entry.sent_ms for entry in self._news(row)[-1:])]), row.conversation_id

    def _is_listed(self, row: Row) -> bool:
        """Whether the inbox shows the row: an archived one is back with a later message, unless it is muted."""
        last_seq = max((entry.seq_no for entry in self._news(row)), default=0)
        is_archived = row.archived and (row.muted or last_seq <= row.archived_seq)
        return not is_archived and (not row.is_hidden or bool(last_seq))

    def _news(self, row: Row) -> list[Entry]:
        log = self.truth.dump.logs.get(row.conversation_id)
        return [one for one in log.entries if one.kind == "message" and not one.is_uncounted] if log else []


class Ticks(Check):
    id = "I13"
    about = "ticks go forward, and only after a device said so; read means delivered"
    wants = frozenset(("ack", "read", "receipt"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._said: dict[Place, int] = {}  # delivered, by the devices' own word
        self._heard: dict[Place, int] = {}  # the same, where a node answered it
        self._read: dict[Place, int] = {}  # read, the same
        self._told: dict[tuple[int, str, str], tuple[int, int]] = {}  # (line, conversation, user) -> the last receipt

    def take(self, record: Record) -> None:
        if record.f == "ack":
            marks = {"invoke": self._said, "ok": self._heard}.get(record.type, {})
            for id_, seq in (record.value or {}).items():
                place = (id_, record.user_id)
                marks[place] = max(marks.get(place, 0), seq)
        elif record.f == "read" and record.type == "invoke":
            place = (record.conversation_id, record.user_id)
            up_to = record.value.get("up_to_seq") or max(record.value.get("seqs") or [0])
            self._read[place] = max(self._read.get(place, 0), up_to)
        elif record.f == "receipt":
            self._receipt(record)

    def _receipt(self, record: Record) -> None:
        self.looked += 1
        user_id, delivered, read = record.value
        key = (record.line, record.conversation_id, user_id)
        before = self._told.get(key, (0, 0))
        if delivered < before[0] or read < before[1]:
            self.blame(f"a tick of {user_id} went back in {record.conversation_id}: {before} to {record.value[1:]}")
        self._told[key] = (delivered, read)
        self._bound(record.conversation_id, user_id, delivered, read, record.at_s)

    def _bound(self, id_: str, user_id: str, delivered: int, read: int, at_s: float | None) -> None:
        place = (id_, user_id)
        joined = max((one.joined for one in self.truth.intervals.get(place, [])), default=0)
        may_read = max(self._read.get(place, 0), joined)
        may_deliver = max(self._said.get(place, 0), may_read)
        if read > may_read:
            self.blame(f"{user_id} is said to have read {id_} up to {read}, and said {may_read}", at_s)
        if delivered > may_deliver:
            self.blame(f"{user_id} is said to have got {id_} up to {delivered}, and said {may_deliver}", at_s)
        if read > delivered:
            self.blame(f"{user_id} is said to have read {id_} up to {read}, and to have got {delivered}", at_s)

    def end(self) -> None:
        for id_, log in self.truth.logs():
            for user_id, status in log.statuses.items():
                self.looked += 1
                self._bound(id_, user_id, status.delivered_seq, status.read_seq, None)
                heard = min(self._heard.get((id_, user_id), 0), log.head.head)
                if user_id in log.members and status.delivered_seq < heard and self.truth.is_static(id_):
                    self.blame(f"{user_id} said {heard} of {id_}, the table has {status.delivered_seq}")


class Bounded(Check):
    id = "I15"
    about = "memory and open files of a node stay bounded"
    wants = frozenset(("usage",))

    def take(self, record: Record) -> None:
        self.looked += 1
        name, rss_bytes, files = record.value
        if rss_bytes > RSS_BYTES_MAX:
            self.blame(f"{name} holds {rss_bytes >> 20} MiB", record.at_s)
        if files > FILES_MAX:
            self.blame(f"{name} has {files} files open", record.at_s)


class Finished(Check):
    id = "I16"
    about = "nothing is left under way: no open work, no dead node, no pending delivery of who has it"

    def end(self) -> None:
        self.looked += self.truth.dump.is_raw
        for what in self.truth.dump.left:
            self.blame(what)


class Available(Check):
    id = "I18"
    about = f"answers are the protocol's, and {RECOVERED_S:.0f} s after the last fault sends succeed as before"
    wants = frozenset(("recovered", "fault-error", "strange"))

    def take(self, record: Record) -> None:
        self.looked += 1
        if record.f == "strange":
            self.blame(f"an answer that is none: {record.text}", record.at_s)
        elif record.f == "fault-error":
            self.blame(f"a fault could not be undone: {record.text}", record.at_s)
        elif record.value > RECOVERED_S:
            self.blame(f"it took {record.value:.1f} s", record.at_s)


CHECKS: tuple[type[Check], ...] = (Counts, Inboxes, Ticks, Bounded, Finished, Available)
