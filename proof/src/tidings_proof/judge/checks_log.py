"""Log checks: the promises of the log, I1 to I4, I7 to I9 and I17.

No entry is lost, doubled, changed, reordered, invented or revived."""

from __future__ import annotations

from itertools import pairwise

from tidings.bounds import STORE_DEADLINE_S
from tidings.model import Entry
from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.history import Record, Seen
from tidings_proof.people.more import FLEETING

Key = tuple[str, str, str]  # conversation, sender, message_id
_OPS = frozenset(("send", "edit", "delete"))
ON_THE_WAY_MS = int(2 * STORE_DEADLINE_S * 1000)  # from a number to its commit, at most


def key_of(record: Record) -> Key:
    return record.conversation_id, record.user_id, record.message_id


class Texts:
    """Texts: what people wrote, under which id, and over which message."""

    def __init__(self) -> None:
        self.sent: dict[Key, set[str | None]] = {}
        self.edits: dict[tuple[str, int], set[str | None]] = {}  # of which message

    def take(self, record: Record) -> None:
        if record.type == "invoke" and record.f == "send":
            self.sent.setdefault(key_of(record), set()).add(record.text)
        elif record.type == "invoke" and record.f == "edit":
            self.sent.setdefault(key_of(record), set()).add(record.text)
            self.edits.setdefault((record.conversation_id, record.value), set()).add(record.text)

    def allowed(self, conversation_id: str, entry: Entry | Seen, seq: int) -> set[str | None]:
        """Return the texts that an entry may have shown; None stands for a text that an edit or delete took."""
        key = (conversation_id, entry.sender_id or "", entry.message_id or "")
        return {None} | self.sent.get(key, set()) | self.edits.get((conversation_id, seq), set())


class Acknowledged(Check):
    id = "I1"
    about = "what was acknowledged is in the log, where it was said to be"
    wants = _OPS

    def take(self, record: Record) -> None:
        if record.type != "ok":
            return
        self.looked += 1
        entry = self.truth.entries.get(record.conversation_id, {}).get(record.seq)
        kind = "message" if record.f == "send" else record.f
        if entry is None or (entry.kind, entry.sender_id, entry.message_id) != (
            kind,
            record.user_id,
            record.message_id,
        ):
            held = f"{entry.kind} {entry.message_id}" if entry else "nothing"
            self.blame(
                f"{record.message_id} was acknowledged as {record.conversation_id} {record.seq}, which holds {held}",
                record.at_s,
            )


class Once(Check):
    id = "I2"
    about = "no message is in a log twice, and an id stands for one text"
    wants = frozenset(("send", "delete"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._invoked: dict[int, str | None] = {}
        self._text: dict[Key, str | None] = {}
        self._seq: dict[Key, int] = {}
        self._deleted: set[tuple[str | None, int]] = set()  # nothing is left to tell another text by

    def take(self, record: Record) -> None:
        if record.f == "delete":
            self._deleted.add((record.conversation_id, record.value))
            return
        if record.type == "invoke":
            self._invoked[record.op] = record.text
            return
        text = self._invoked.pop(record.op, None)
        if record.type != "ok":
            return
        key = key_of(record)
        is_gone = (record.conversation_id, record.seq) in self._deleted or record.message_id.endswith(FLEETING)
        if self._text.setdefault(key, text) != text and not is_gone:
            self.blame(f"{record.message_id} was acknowledged with two texts", record.at_s)
        if self._seq.setdefault(key, record.seq) != record.seq:
            self.blame(f"{record.message_id} was acknowledged as {self._seq[key]} and as {record.seq}", record.at_s)

    def end(self) -> None:
        for id_, log in self.truth.logs():
            there: dict[tuple[str | None, str], int] = {}
            for entry in log.entries:
                if entry.message_id is None:
                    continue
                self.looked += 1
                first = there.setdefault((entry.sender_id, entry.message_id), entry.seq_no)
                if first != entry.seq_no:
                    self.blame(f"{entry.message_id} is in {id_} at {first} and at {entry.seq_no}")


class OneValue(Check):
    id = "I3"
    about = "a number means the same to everybody, always"
    wants = frozenset(("recv", "history"))

    def take(self, record: Record) -> None:
        there = self.truth.entries.get(record.conversation_id)
        if there is None:
            return
        for entry in record.entries:
            self.looked += 1
            held = there.get(entry.seq)
            if held is None or _identity(held) != entry.identity:
                shown = _identity(held) if held else "nothing"
                self.blame(
                    f"{record.user_id} saw {entry.identity} at {record.conversation_id} {entry.seq}, "
                    f"which holds {shown}",
                    record.at_s,
                )


def _identity(entry: Entry) -> tuple[object, ...]:
    member = entry.member
    action, about = (member.action, tuple(member.user_ids)) if member else (None, ())
    return entry.kind, entry.sender_id, entry.message_id, entry.target_seq, action, about


class Gapless(Check):
    id = "I4"
    about = "numbers run from 1 to the head without a hole, in the log and on every page"
    wants = frozenset(("history",))

    def take(self, record: Record) -> None:
        if record.type != "ok":
            return
        self.looked += 1
        if any(newer.seq != older.seq + 1 for newer, older in pairwise(record.entries)):
            seqs = [entry.seq for entry in record.entries]
            self.blame(f"{record.user_id} got a page with holes of {record.conversation_id}: {seqs}", record.at_s)

    def end(self) -> None:
        for id_, log in self.truth.logs():
            self.looked += 1
            seqs = [entry.seq_no for entry in log.entries]
            if seqs != list(range(1, len(seqs) + 1)):
                missing = sorted(set(range(1, max(seqs, default=0))) - set(seqs))[:5]
                self.blame(f"{id_} has {len(seqs)} entries up to {seqs[-1]}; missing {missing}")
            if log.head.head != (seqs[-1] if seqs else 0):
                self.blame(f"the head of {id_} says {log.head.head}, its log ends at {seqs[-1] if seqs else 0}")
            # The time of a void is made up. And where a counter was lost, a number of its earlier life may be stored
            # above one of the next, which has a later time: by no more than a number is on its way.
            for before, after in pairwise(entry for entry in log.entries if entry.kind != "void"):
                if after.sent_ms <= before.sent_ms - ON_THE_WAY_MS:
                    self.blame(f"in {id_} time goes back from {before.seq_no} to {after.seq_no}")


class DeviceOrder(Check):
    id = "I7"
    about = "the messages of a device keep the order in which it sent them"
    wants = frozenset(("send",))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._sent: dict[tuple[str, str, str], dict[str, None]] = {}  # (conversation, user, device) -> ids in order
        self._loose: set[tuple[str, str]] = set()
        self._owner: dict[tuple[str, str], str] = {}

    def take(self, record: Record) -> None:
        if record.type != "invoke":
            return
        name = (record.user_id, record.message_id)
        if record.value is True:
            self._loose.add(name)
        if self._owner.setdefault(name, record.device) == record.device:
            place = (record.conversation_id, record.user_id, record.device)
            self._sent.setdefault(place, {}).setdefault(record.message_id)

    def end(self) -> None:
        for (id_, user_id, device), ids in self._sent.items():
            strict = [one for one in ids if (user_id, one) not in self._loose]
            seqs = [(seq, one) for one in strict if (seq := self.truth.seq_of.get((id_, user_id, one)))]
            self.looked += len(seqs)
            for (before, first), (after, second) in pairwise(seqs):
                if after <= before:
                    self.blame(f"{user_id}-{device} sent {first} before {second}; in {id_} they are {before}, {after}")


class RealTime(Check):
    id = "I8"
    about = "what was sent after another message was acknowledged stands after it"
    wants = _OPS

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._acked: dict[str, int] = {}
        self._floor: dict[Key, int] = {}

    def take(self, record: Record) -> None:
        id_ = record.conversation_id
        if record.type == "invoke":
            self._floor.setdefault(key_of(record), self._acked.get(id_, 0))
        elif record.type == "ok":
            self._acked[id_] = max(self._acked.get(id_, 0), record.seq)

    def end(self) -> None:
        for key, floor in self._floor.items():
            seq = self.truth.seq_of.get(key)
            if seq is not None:
                self.looked += 1
                if seq <= floor:
                    self.blame(f"{key[2]} is {key[0]} {seq}, though {floor} was acknowledged before it was sent")


class Meant(Check):
    id = "I9"
    about = "nothing appears that nobody sent, and what was refused for good never does"
    wants = _OPS | {"recv", "history"}

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._texts = Texts()
        self._open: dict[Key, bool] = {}  # whether some attempt may have succeeded

    def take(self, record: Record) -> None:
        self._texts.take(record)
        if record.f in _OPS:
            key = key_of(record)
            self._open[key] = self._open.get(key, False) or record.type in ("ok", "info")
        for entry in record.entries:
            self.looked += 1
            if entry.text not in self._texts.allowed(record.conversation_id, entry, entry.seq):
                self.blame(
                    f"{record.user_id} saw {str(entry.text)[:40]!r} at {record.conversation_id} {entry.seq}",
                    record.at_s,
                )

    def end(self) -> None:
        for id_, log in self.truth.logs():
            for entry in log.entries:
                if entry.kind not in ("message", "edit", "delete") or self._has_ended(id_, entry):
                    continue
                self.looked += 1
                key = (id_, entry.sender_id or "", entry.message_id or "")
                if key not in self._open:
                    self.blame(f"{id_} {entry.seq_no} holds {entry.message_id} of {entry.sender_id}, never sent")
                elif not self._open[key]:
                    self.blame(f"{id_} {entry.seq_no} holds {entry.message_id}, which was refused for good")

    def _has_ended(self, id_: str, entry: Entry) -> bool:
        """Whether the server deleted a message whose time was over, in the name of its sender."""
        target = self.truth.entries[id_].get(entry.target_seq or 0)
        return entry.kind == "delete" and target is not None and (target.message_id or "").endswith(FLEETING)


class Kept(Check):
    id = "I17"
    about = "a text is what was written last, wherever it lies, and what was deleted stays deleted"
    wants = frozenset(("send", "edit"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._texts: dict[Key, str | None] = {}

    def take(self, record: Record) -> None:
        if record.type == "invoke":
            self._texts.setdefault(key_of(record), record.text)

    def end(self) -> None:
        expected = {id_: self._expected(id_) for id_, _ in self.truth.logs()}
        for user_id, shown in self.truth.dump.shown.items():
            for id_, entries in shown.histories.items():
                first = min((entry.seq for entry in entries), default=0)
                for entry in entries:
                    self._look(user_id, id_, entry, expected.get(id_, {}), first)
        for id_, log in self.truth.logs():
            for held in log.entries:
                if held.is_deleted and held.text is not None:
                    self.blame(f"the row of {id_} {held.seq_no} is deleted and still has its text")

    def _look(self, user_id: str, id_: str, entry: Seen, expected: dict[int, str | None], first: int) -> None:
        """`first` is the first entry that the user may see: an edit of an earlier message shows them no text."""
        if entry.seq not in expected:
            return
        self.looked += 1
        is_masked = entry.kind == "edit" and (entry.target_seq or 0) < first
        text = None if is_masked else expected[entry.seq]
        if entry.text != text:
            self.blame(f"{user_id} sees {entry.text!r:.60} at {id_} {entry.seq}, not {text!r:.60}")

    def _expected(self, id_: str) -> dict[int, str | None]:
        """seq -> the text that a message or an edit must show now."""
        texts: dict[int, str | None] = {}
        newest: dict[int, int] = {}  # message -> its last edit
        for entry in self.truth.dump.logs[id_].entries:
            written = self._texts.get((id_, entry.sender_id or "", entry.message_id or ""))
            if entry.kind == "message":
                texts[entry.seq_no] = written
            elif entry.kind == "edit" and entry.target_seq:
                if (earlier := newest.get(entry.target_seq)) is not None:
                    texts[earlier] = None
                texts[entry.target_seq] = texts[entry.seq_no] = written
                newest[entry.target_seq] = entry.seq_no
            elif entry.kind == "delete" and entry.target_seq:
                texts[entry.target_seq] = None
                if entry.target_seq in newest:
                    texts[newest[entry.target_seq]] = None
        return texts


CHECKS: tuple[type[Check], ...] = (
    Acknowledged,
    Once,
    OneValue,
    Gapless,
    DeviceOrder,
    RealTime,
    Meant,
    Kept,
)
