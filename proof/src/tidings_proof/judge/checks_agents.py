"""Checks of programs: I19, I20 and I23. Webhooks skip nothing, streams end as written, what is scheduled comes once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidings_proof.judge.checker import Check, Truth
from tidings_proof.judge.history import Record


class Hooked(Check):
    id = "I19"
    about = "a webhook gets every entry in order, none is skipped, and a repetition has the same key"
    wants = frozenset(("hook", "hook-heads"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._have: dict[str, int] = {}
        self._seqs: dict[str, list[int]] = {}  # by key
        self._key: dict[tuple[str, int], str] = {}  # of each entry

    def take(self, record: Record) -> None:
        if record.f == "hook-heads":
            for id_, head in record.value.items():
                if self._have.get(id_, 0) < head:
                    self.blame(f"the webhook has {self._have.get(id_, 0)} of {head} entries of {id_}")
            return
        self.looked += 1
        id_, key, (status, seqs) = record.conversation_id, record.text or "", record.value
        have = self._have.get(id_, 0)
        if seqs != list(range(seqs[0], seqs[0] + len(seqs))) or seqs[0] > have + 1:
            self.blame(f"the webhook has {have} of {id_} and gets {seqs}", record.at_s)
        if self._seqs.setdefault(key, seqs) != seqs:
            self.blame(f"the key {key} comes with {seqs} and with {self._seqs[key]}", record.at_s)
        for seq in seqs:
            if self._key.setdefault((id_, seq), key) != key:
                self.blame(f"{seq} of {id_} comes under {key} and {self._key[id_, seq]}", record.at_s)
        if status == 200:
            self._have[id_] = max(have, seqs[-1])


class _OfAgents(Check):
    """A check of the conversation that the programs have for themselves."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._log: list[Any] | None = None
        self._unread: int | None = None

    def take(self, record: Record) -> None:
        if record.f == "agents-log":
            self._log, self._unread = record.value
        else:
            self.keep(record)

    def keep(self, record: Record) -> None:
        raise NotImplementedError

    def found(self) -> dict[str, tuple[str | None, str | None]]:
        """message_id -> text and state, of the messages in the log."""
        return {id_: (text, state) for _, kind, id_, text, state in self._log or () if kind == "message"}


class Streamed(_OfAgents):
    id = "I20"
    about = "a streamed text ends as it was written, or what is there is its beginning; it counts once"
    wants = frozenset(("stream", "agents-log"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._written: dict[str, tuple[str, bool]] = {}

    def keep(self, record: Record) -> None:
        self._written[record.message_id] = (record.text or "", bool(record.value))

    def end(self) -> None:
        if self._log is None:
            return
        found = self.found()
        for id_, (whole, is_ended) in self._written.items():
            self.looked += 1
            text, state = found.get(id_, (None, None))
            if is_ended and (text, state) != (whole, "done"):
                self.blame(f"{id_} was ended, and {len(text or '')} of {len(whole)} characters are there as {state}")
            elif text is not None and not whole.startswith(text):
                self.blame(f"{id_} has a text that was not written: {text[-40:]!r}")
        if self._unread is not None and self._unread != len(found):
            self.blame(f"{len(found)} messages are there, and {self._unread} are unread")


class Scheduled(_OfAgents):
    id = "I23"
    about = "a scheduled message is stored once, with its text"
    wants = frozenset(("scheduled", "agents-log"))

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._accepted: dict[str, str | None] = {}

    def keep(self, record: Record) -> None:
        self._accepted[record.message_id] = record.text

    def end(self) -> None:
        if self._log is None:
            return
        times = Counter(id_ for _, kind, id_, _, _ in self._log if kind == "message")
        found = self.found()
        for id_, text in self._accepted.items():
            self.looked += 1
            if times[id_] != 1 or found[id_][0] != text:
                self.blame(f"{id_} was accepted, and is there {times[id_]} times")


CHECKS: tuple[type[Check], ...] = (Hooked, Streamed, Scheduled)
