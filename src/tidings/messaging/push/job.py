"""A push job: one user to notify, as the queue holds it."""

from __future__ import annotations

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Notify one user of one entry, or (without a conversation) of a new badge, or of all that is unread."""

    user_id: str
    made_ms: int
    conversation_id: str = ""
    seq_no: int = 0
    device_ids: tuple[str, ...] = ()  # only these devices: the others were notified already; empty means all
    but_device: str = ""  # the device that caused the change, and so knows it
    tries: int = 0
    is_summary: bool = False  # of all that is unread, once the quiet hours are over
