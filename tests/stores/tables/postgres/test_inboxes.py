"""The contract of inbox rows on PostgreSQL."""

from __future__ import annotations

from tests.contracts.inboxes import InboxesContract


class TestInboxes(InboxesContract): ...
