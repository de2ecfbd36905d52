"""Checks of files and of search, I27 and I28: what is there is found by its readers, and by nobody else."""

from __future__ import annotations

from collections import Counter

from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.history import Record, Seen

Place = tuple[str, int]  # conversation, seq


class Files(Check):
    id = "I27"
    about = "a file is in its message or in none, its readers read it whole, a stranger never does, and it goes with it"

    def end(self) -> None:
        dump = self.truth.dump
        carried: Counter[str] = Counter()
        standing: dict[str, str] = {}  # the content of each file whose message stands
        for id_, entries in self._histories().items():
            carried.update(file_id for seen in entries if seen.kind == "message" for file_id in seen.files)
            for seen in entries:
                if seen.is_deleted and seen.files:
                    self.blame(f"{id_} {seen.seq} is deleted, and shows {seen.files}")
        for file in dump.files:
            self.looked += 1
            shared = file.shared
            seq = self.truth.seq_of.get((shared.conversation_id, shared.user_id, shared.message_id))
            entry = self.truth.entries.get(shared.conversation_id, {}).get(seq or 0)
            is_there = entry is not None and not entry.is_deleted
            if carried[shared.file_id] != is_there:
                self.blame(
                    f"{shared.file_id} is in {carried[shared.file_id]} messages; {shared.message_id} is {is_there}"
                )
            if is_there and file.content != shared.content:
                self.blame(f"a member reads {shared.file_id} as {file.content!r}, not {shared.content!r}")
            if entry is not None and entry.is_deleted and file.content is not None:
                self.blame(f"{shared.file_id} went with its message, and a member still reads it")
            if file.is_open:
                self.blame(f"a stranger gets a link to {shared.file_id}")
            if is_there:
                standing[shared.file_id] = shared.content
        if dump.stored is not None:
            self._check_blobs(dump.stored, standing)

    def _check_blobs(self, stored: dict[str, str], standing: dict[str, str]) -> None:
        """The blobs hold the files of messages that stand, as they were uploaded, and no other."""
        for file_id in stored.keys() | standing.keys():
            if stored.get(file_id) != standing.get(file_id):
                wanted = standing.get(file_id)
                self.blame(f"the blobs hold {file_id} as {stored.get(file_id)!r}, and its message says {wanted!r}")

    def _histories(self) -> dict[str, list[Seen]]:
        """Each conversation whose members never change, as one of its members is shown it."""
        found: dict[str, list[Seen]] = {}
        for shown in self.truth.dump.shown.values():
            found |= {id_: entries for id_, entries in shown.histories.items() if self.truth.is_static(id_)}
        return found


class Search(Check):
    id = "I28"
    about = "a text that is there is found by its author, one that is deleted by nobody, and a stranger finds nothing"
    wants = frozenset(("found", "delete"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._deleted_s: dict[Place, float] = {}  # when it was acknowledged

    def take(self, record: Record) -> None:
        if record.f == "delete":
            if record.type == "ok":
                self._deleted_s.setdefault((record.conversation_id, record.value), record.at_s)
            return
        self.looked += 1
        since_s, hits = record.value
        for id_, seq in hits:
            if record.user_id == "stranger":
                self.blame(f"the stranger found {record.text} in {id_} {seq}", record.at_s)
            elif self._deleted_s.get((id_, seq), since_s) < since_s:
                self.blame(
                    f"{record.user_id} found {record.text} in {id_} {seq}, which was deleted before", record.at_s
                )

    def end(self) -> None:
        for sought in self.truth.dump.sought:
            self.looked += 1
            told = sought.told
            seq = self.truth.seq_of.get((told.conversation_id, told.user_id, told.message_id))
            entry = self.truth.entries.get(told.conversation_id, {}).get(seq or 0)
            is_there = entry is not None and not entry.is_deleted and entry.edited_ms is None
            expected = [(told.conversation_id, seq)] if is_there else []
            if sought.hits != expected:
                self.blame(f"{told.user_id} looks for {told.word} and finds {sought.hits}, not {expected}")
            if sought.by_stranger:
                self.blame(f"the stranger looks for {told.word} and finds {sought.by_stranger}")


CHECKS: tuple[type[Check], ...] = (Files, Search)
