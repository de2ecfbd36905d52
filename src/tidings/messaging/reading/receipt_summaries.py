"""Receipt summaries: the receipts of a large conversation, as lowest marks and counts instead of a frame per member.

In a channel of 300 members one message would be answered by 300 receipts. Above RECEIPT_MEMBERS_MAX members the latest
senders get one summary every few seconds: the marks that all others have reached, and how many others have received and
read the sender's newest message. The marks of each member are stored as always.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.bounds import PAGE_MAX, RECEIPT_MEMBERS_MAX, RECEIPTS_KNOWN_MAX
from tidings.messaging.access import MemberList
from tidings.messaging.log import NEWEST
from tidings.messaging.reading.receipt_marks import Raise, ReceiptMarks
from tidings.pushes import ReceiptSummary
from tidings.routing.router import Router
from tidings.stores.tables.ports import Messages
from tidings.tasks import Recent


def is_large(member_list: MemberList) -> bool:
    return len(member_list.members) > RECEIPT_MEMBERS_MAX


class ReceiptSummaries:
    def __init__(self, messages: Messages, receipt_marks: ReceiptMarks, router: Router) -> None:
        self._messages = messages
        self._receipt_marks = receipt_marks
        self._router = router
        self._pushed = Recent[tuple[str, str], ReceiptSummary](RECEIPTS_KNOWN_MAX)  # by (conversation, sender)

    async def push(self, member_list: MemberList, raises: Sequence[Raise]) -> None:
        """Raise the marks of members of one conversation, which the tables hold already, and push what changed."""
        await self._receipt_marks.raise_many(member_list, raises)
        seqs = await self._newest(member_list)
        for sender_id, summary in (await self._receipt_marks.summaries(member_list, seqs)).items():
            key = (summary.conversation_id, sender_id)
            if self._pushed.get(key) != summary:
                self._pushed.put(key, summary)
                self._router.push(sender_id, summary)

    async def _newest(self, member_list: MemberList) -> dict[str, int]:
        """Return the newest message of each latest sender who is a member and may be connected."""
        page = await self._messages.page(
            member_list.head.conversation_id, after=0, before=NEWEST, limit=PAGE_MAX, newest_first=True
        )
        newest: dict[str, int] = {}
        for entry in page:
            sender_id = entry.sender_id
            if entry.bumps and sender_id in member_list.members and self._router.may_reach(sender_id):
                newest.setdefault(sender_id, entry.seq_no)
        return newest
