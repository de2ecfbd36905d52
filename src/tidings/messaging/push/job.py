"""A push job: one user to notify, as the queue holds it."""

from __future__ import annotations

import msgspec

from tidings.messaging.threads.records import thread_id


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Notify one user of one entry, or (without a conversation) of a new badge, or of all that is unread."""

    user_id: str
    made_ms: int
    conversation_id: str = ""
    seq_no: int = 0
    thread_seq: int = 0  # the entry is a reply of this thread alone
    device_ids: tuple[str, ...] = ()  # only these devices: the others were notified already; empty means all
    but_device: str = ""  # the device that caused the change, and so knows it
    tries: int = 0
    is_summary: bool = False  # of all that is unread, once the quiet hours are over

    @property
    def place(self) -> str:
        """The conversation or thread whose notices take the place of one another."""
        return thread_id(self.conversation_id, self.thread_seq) if self.thread_seq else self.conversation_id
