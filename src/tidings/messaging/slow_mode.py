"""Slow mode: a member sends one message in `slow_s` seconds, exactly, on all nodes together.

The keyspace keeps the id of the member's last message for that time. The same id passes again, so a resend is free.
"""

from __future__ import annotations

from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys


class SlowMode:
    def __init__(self, keyspace: Keyspace, keys: Keys) -> None:
        self._keyspace = keyspace
        self._keys = keys

    async def wait_ms(self, conversation_id: str, user_id: str, message_id: str, slow_s: int) -> int:
        """Admit the message: 0, or the time until the member may send again. Raises Unavailable."""
        key = self._keys.slow(conversation_id, user_id)
        take = plain(key, b"SET", key, message_id, b"NX", b"PX", slow_s * 1000)
        _, holder, left_ms = await self._keyspace.run((take, plain(key, b"GET", key), plain(key, b"PTTL", key)))
        return 0 if holder == message_id.encode() else max(1, int(left_ms))
