"""History: what the clients saw, in their order, as one JSON line per record, in a file and never in memory.

An operation is an `invoke` and, under the same `op`, one of `ok` (it happened), `fail` (it did not, for good), `info`
(nobody knows: no answer came, or "try again"). A frame that nobody asked for is an `event`. Times are seconds of
one clock since the run began, so "acknowledged before that was sent" means something. The clock never goes back, and
it stands still for time that is excused: a promise with a time in it is no promise about a machine that is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.clock import Clock

Type = Literal["invoke", "ok", "fail", "info", "event"]
_TOGETHER = 512  # records encoded between two writes


class Seen(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An entry of a log as a client was shown it."""

    seq: int
    kind: str
    sender_id: str | None = None
    message_id: str | None = None
    text: str | None = None
    target_seq: int | None = None
    is_deleted: bool = False
    action: str | None = None  # of a member entry, with whom it is about
    about: tuple[str, ...] = ()
    reactions: dict[str, int] = {}  # beside a message: how many of each key
    changes: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()  # of a reaction: key, added, taken away
    is_pinned: bool = False  # a message that is, or a pin that says so
    files: tuple[str, ...] = ()  # ids

    @property
    def identity(self) -> tuple[object, ...]:
        """Return the fields of an entry that never change, whatever is edited or deleted."""
        return self.kind, self.sender_id, self.message_id, self.target_seq, self.action, self.about


def seen(message: Mapping[str, Any]) -> Seen:
    """A MESSAGE of the wire."""
    member, beside = message.get("member") or {}, message.get("reactions") or {}
    changes = beside if isinstance(beside, list) else ()
    return Seen(
        message["seq"],
        message["kind"],
        message.get("sender_id"),
        message.get("message_id"),
        message.get("text"),
        message.get("target_seq"),
        bool(message.get("deleted")),
        member.get("action"),
        tuple(member.get("user_ids", ())),
        {} if changes else {key: one["count"] for key, one in beside.items()},
        tuple((key, tuple(added), tuple(gone)) for key, added, gone in changes),
        bool(message.get("pinned")),
        tuple(file["file_id"] for file in message.get("files") or ()),
    )


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One line. `f` is what was done or what came; the rest is what that has."""

    at_s: float
    type: Type
    f: str
    op: int = 0
    user_id: str = ""
    device: str = ""
    line: int = 0  # the connection, numbered over the whole run
    conversation_id: str = ""
    message_id: str = ""
    seq: int = 0
    text: str | None = None
    error: str = ""
    entries: tuple[Seen, ...] = ()
    value: Any = None


class History:
    """The file while it is written."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self.file = file
        self.counts: Counter[tuple[str, str]] = Counter()  # (type or error, f): what progress shows
        self._clock = clock
        self._began_s = clock.monotonic_s()  # later by all that was excused
        self._now_s = 0.0
        self._encode = msgspec.json.Encoder().encode_lines
        self._waiting: list[Record] = []
        self._output = file.open("wb")
        self._ops = 0

    def now_s(self) -> float:
        self._now_s = max(self._now_s, round(self._clock.monotonic_s() - self._began_s, 6))
        return self._now_s

    def excuse(self, seconds: float) -> None:
        """Leave out time in which the machine did not let the run go on."""
        self._began_s += seconds

    def invoke(self, f: str, **facts: Any) -> int:
        """The number that its end must carry."""
        self._ops += 1
        self.note("invoke", f, op=self._ops, **facts)
        return self._ops

    def note(self, type_: Type, f: str, **facts: Any) -> None:
        self.counts[type_, f] += 1
        if "error" in facts:
            self.counts[facts["error"], f] += 1
        self._waiting.append(Record(self.now_s(), type_, f, **facts))
        if len(self._waiting) >= _TOGETHER:
            self._write()

    def event(self, f: str, **facts: Any) -> None:
        self.note("event", f, **facts)

    def close(self) -> None:
        self._write()
        self._output.close()

    def _write(self) -> None:
        self._output.write(self._encode(self._waiting))
        self._waiting.clear()


def read_history(file: Path) -> Iterator[Record]:
    decode = msgspec.json.Decoder(Record).decode
    with file.open("rb") as lines:
        for line in lines:
            yield decode(line)
