"""Counters: each conversation has one in the keyspace, and the log is what it is seeded from.

A counter that is missing, or of another epoch, is raised to the log, and never lowered. The same holds for its time, so
times do not go back, and for members_seq, so a member change that was committed while its counter was lost is known to
every node again.

A counter may be lost at any moment, also while it is seeded. A number below an acknowledged one must not be handed out
then. So a seed counts only in the life of the counter in which it began, and the index stage raises a counter that is
behind a stored entry before the entry is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tidings.bounds import SENT_GENERATION_S
from tidings.clock import Clock
from tidings.messaging.send.draft import Draft
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Messages


class Counters:
    def __init__(self, keyspace: Keyspace, scripts: Scripts, messages: Messages, clock: Clock, node_id: str) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._messages = messages
        self._clock = clock
        self._node_id = node_id
        self._seeds = count(1)

    async def seed(self, conversation_id: str) -> None:
        """Raise the counter to the highest number of the log. Raises Unavailable.

        A counter that is lost between the read of the log and the seed stays lost: what was read may be too old.
        """
        now_ms = self._clock.now_ms()
        counter_id = f"{self._node_id}.{now_ms}.{next(self._seeds)}"
        begun = await self._keyspace.run(self._scripts.conversation_seeding(conversation_id, counter_id))
        top = await self._messages.top(conversation_id)
        await self._keyspace.one(
            self._scripts.conversation_seed(
                conversation_id,
                seq=top.seq_no,
                at=top.sent_ms,
                members_seq=top.members_seq,
                counter_id=counter_id,
                seeding=begun[1].decode(),
                now_ms=now_ms,
            )
        )


async def numbers_had(keyspace: Keyspace, keys: Keys, drafts: Sequence[Draft], now_ms: int) -> list[bytes | None]:
    """The number that each id has had lately, as "seq:at". None: the keyspace knows of none."""
    generation = now_ms // (SENT_GENERATION_S * 1000)
    both = (generation, generation - 1)
    asked = [(keys.sent(draft.conversation_id, at), draft.dedupe_field) for draft in drafts for at in both]
    found = await keyspace.run([plain(key, b"HGET", key, field) for key, field in asked])
    return [found[at] or found[at + 1] for at in range(0, len(found), 2)]
