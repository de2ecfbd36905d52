"""LiveGate: the seam between the log that a resume replays and the live events of one connection.

While the log is replayed, live events are held here. At `go_live` they follow in their order, without the entries that
the resume has written already. So no entry is lost between log and live, and none comes twice. The gate does no I/O:
the connection asks for each event whether to write it now.
"""

from __future__ import annotations

from tidings.bounds import PRESENCE_BURST_MAX, RESUME_HELD_MAX
from tidings.pushes import Event, MessageNew, Presence, Typing

MOMENTARY = frozenset((Typing, Presence))  # true for a moment only: a slow reader can do without it


class LiveGate:
    __slots__ = ("_held", "_resumed")

    def __init__(self) -> None:
        self._held: list[Event] | None = []  # None: live
        self._resumed: dict[str, int] = {}  # conversation -> the highest entry that the resume has written

    def lets_through(self, event: Event) -> bool:
        """True: write the event now. False: the gate holds it, or the resume has written it already."""
        if self._held is None:
            return not self._resumed or not self._was_resumed(event)
        # Presence is held too, or a client that watches while it resumes would never learn who is online.
        if type(event) not in MOMENTARY or len(self._held) < PRESENCE_BURST_MAX:
            self._held.append(event)
        return False

    def is_overfull(self) -> bool:
        """Whether more events are held than a resume may take time for."""
        return self._held is not None and len(self._held) > RESUME_HELD_MAX

    def resumed(self, conversation_id: str, to_seq: int) -> None:
        """Record that the resume has written a conversation up to this entry: live entries begin above it."""
        self._resumed[conversation_id] = to_seq

    def go_live(self) -> list[Event]:
        """Stop holding. Returns the held events that are still to be written, in their order."""
        held, self._held = self._held or [], None
        return [event for event in held if not self._was_resumed(event)]

    def is_needed(self) -> bool:
        """Whether live entries may still come that the resume has written."""
        return self._held is not None or bool(self._resumed)

    def _was_resumed(self, event: Event) -> bool:
        """Entries come in their order, so the first one above the mark ends its use."""
        if type(event) is not MessageNew:
            return False
        conversation_id = event.entry.conversation_id
        if event.entry.seq_no <= self._resumed.get(conversation_id, 0):
            return True
        self._resumed.pop(conversation_id, None)
        return False
