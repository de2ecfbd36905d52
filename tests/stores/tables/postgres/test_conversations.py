"""The contract of conversations on PostgreSQL."""

from __future__ import annotations

from tests.contracts.conversations import ConversationsContract


class TestConversations(ConversationsContract): ...
