"""The gap rule, without I/O: what is the next entry of each conversation, what came too early, what is known already.

A track holds the last contiguous seq. `take` answers the entries that may be told now, in order; whatever came early
waits in the track until its predecessors are there. A track whose beginning is not known yet (`last` is None) tells
nothing until it is set. reading.py fills the gaps.
"""

from __future__ import annotations

from tidings.bounds import RESUME_CONVERSATIONS_MAX
from tidings.sdk.events import MessageNew


class Track:
    __slots__ = ("early", "last")

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.early: dict[int, MessageNew] = {}

    @property
    def is_broken(self) -> bool:
        """Something waits for predecessors that have not come."""
        return bool(self.early)

    def take(self, event: MessageNew) -> list[MessageNew]:
        """The entries that are next now, this one among them or not."""
        seq = event.message.seq
        if self.last is not None and seq <= self.last:
            return []
        self.early.setdefault(seq, event)
        return self._advance()

    def begin(self, last: int) -> list[MessageNew]:
        """From here on the entry after `last` is the next."""
        self.last = last
        self.early = {seq: event for seq, event in self.early.items() if seq > last}
        return self._advance()

    def _advance(self) -> list[MessageNew]:
        found: list[MessageNew] = []
        while self.last is not None and (event := self.early.pop(self.last + 1, None)) is not None:
            self.last += 1
            found.append(event)
        return found


class Tracks:
    """By conversation; the one that was told last stands at the end."""

    def __init__(self, resume: dict[str, int]) -> None:
        self._tracks = {conversation_id: Track(seq) for conversation_id, seq in resume.items()}

    def get(self, conversation_id: str) -> Track | None:
        return self._tracks.get(conversation_id)

    def start(self, conversation_id: str, last: int | None) -> Track:
        track = self._tracks[conversation_id] = Track(last)
        return track

    def touch(self, conversation_id: str) -> None:
        self._tracks[conversation_id] = self._tracks.pop(conversation_id)

    def forget(self, conversation_id: str) -> None:
        self._tracks.pop(conversation_id, None)

    def clear(self) -> None:
        self._tracks.clear()

    def seqs(self) -> dict[str, int]:
        """The last contiguous seq of every conversation that has one."""
        return {name: track.last for name, track in self._tracks.items() if track.last is not None}

    def resume(self) -> dict[str, int]:
        """What a connect names: the liveliest ones. The rest is announced by `since`."""
        return dict(list(self.seqs().items())[-RESUME_CONVERSATIONS_MAX:])

    def unlocated(self) -> list[str]:
        return [name for name, track in self._tracks.items() if track.last is None]
