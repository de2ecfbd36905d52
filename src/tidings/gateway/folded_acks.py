"""FoldedAcks: the `message.delivered` frames of one connection that wait while earlier ones are carried out.

Each acknowledgement is a watermark, so many frames fold into the highest entry of each conversation: a busy reader
costs little. Every frame still gets its own answer if it has an id, and all frames together are charged.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.bounds import ACKS_MAX, ACKS_PER_SLOT
from tidings.protocol.client_frames import Delivered

CONVERSATIONS_MAX = ACKS_MAX * 10  # in one call; a conversation beyond it is acknowledged again with its next message


class Batch(NamedTuple):
    """Acknowledgements to carry out together: the highest entry of each conversation, and the frames to answer."""

    seqs: dict[str, int]
    frame_ids: list[int | None]

    @property
    def cost(self) -> int:
        """The slots of `read` that the frames cost: each frame was parsed, and each conversation is looked up."""
        return -(-(len(self.frame_ids) + len(self.seqs)) // ACKS_PER_SLOT)


class FoldedAcks:
    __slots__ = ("_frame_ids", "_seqs")

    def __init__(self) -> None:
        self._seqs: dict[str, int] = {}
        self._frame_ids: list[int | None] = []

    def __bool__(self) -> bool:
        return bool(self._frame_ids)

    def add(self, frame: Delivered) -> None:
        self._frame_ids.append(frame.id)
        for conversation_id, seq_no in frame.acks.items():
            if len(self._seqs) < CONVERSATIONS_MAX or conversation_id in self._seqs:
                self._seqs[conversation_id] = max(seq_no, self._seqs.get(conversation_id, 0))

    def take(self) -> Batch:
        taken = Batch(self._seqs, self._frame_ids)
        self._seqs, self._frame_ids = {}, []
        return taken
