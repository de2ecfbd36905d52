"""States: the counts of many members of one conversation, read in few round trips.

Nearly always the marks and the tallies say everything. Members for whom they do not are left out, and the caller reads
them one by one: cold ones, and those whose oldest unread message only the log has. So nobody waits for their rebuilds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.messaging.unread.large_counts import LargeCounts
from tidings.messaging.unread.unread import Unread
from tidings.model import ReadState
from tidings.stores.keyspace.scripts.answers import UnreadState


class States:
    def __init__(self, unread: Unread, large: LargeCounts) -> None:
        self._unread = unread
        self._large = large

    async def read(self, user_ids: Sequence[str], conversation_id: str) -> dict[str, ReadState]:
        """Return what `Unread.state` says of each member, without the members for whom that takes more."""
        states: dict[str, ReadState] = {}
        for user_id, found in (await self._large.read_many(user_ids, conversation_id)).items():
            if found.mark is not None and _is_enough(found):
                totals = found.total_unread, found.total_mentions
                states[user_id] = await self._unread.describe(user_id, conversation_id, found.mark, *totals)
        return states


def _is_enough(found: UnreadState) -> bool:
    """Whether the totals are known, and the oldest unread message without a look into the log."""
    mark = found.mark
    return mark is not None and found.total_unread is not None and (mark.first > 0 or mark.count == 0)
