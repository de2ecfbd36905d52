"""Withdraw: takes back all reactions of a person who is erased, in the name of that person, who may have left.

Each is a numbered entry like any reaction, so devices and summaries follow.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.reactions.reactions import ReactionEntry
from tidings.messaging.send.lanes import Sends
from tidings.messaging.summaries import COLLECTION, Summaries, summary_of
from tidings.stores.tables.records import Records, of_conversation

_PAGE = 100  # summaries read at a time


class Withdraw:
    def __init__(self, summaries: Summaries, records: Records, sends: Sends, clock: Clock) -> None:
        self._summaries = summaries
        self._records = records
        self._sends = sends
        self._clock = clock

    async def all(self, user_id: str, conversation_id: str) -> int:
        """Take back every reaction of the user in a conversation, and answer how many there were. Raises StoreError."""
        taken, after, owner = 0, "", of_conversation(conversation_id)
        while page := await self._records.page(owner, COLLECTION, after=after, limit=_PAGE):
            for record in page:
                keys = [key for key, users in summary_of(record)[0].reactions.items() if user_id in users]
                if keys and await self._take(user_id, conversation_id, int(record.name), keys):
                    taken += len(keys)
            after = page[-1].name
        return taken

    async def _take(self, user_id: str, conversation_id: str, seq_no: int, keys: list[str]) -> bool:
        made = ReactionEntry(self._summaries, (conversation_id, seq_no), {(user_id, key): False for key in keys})
        await made.read()
        if not made.changes:
            return False
        try:
            await self._sends.complete(made.begin(self._clock.random_id(), is_of_server=True))
        except NotFound:  # the conversation is gone
            return False
        await self._summaries.committed(conversation_id)
        return True
