"""Quotes: a message may quote a message of its conversation that its sender may see (`reply_to`).

A resend is looked at again, so an accepted quote stays acceptable: the quoted message may be deleted meanwhile, or
removed with the old part of the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.errors import BadRequest, StoreError, StoreUnavailable
from tidings.messaging.access import Access, MemberList, check, seen_by
from tidings.messaging.log import entry_at
from tidings.messaging.send.draft import Draft
from tidings.model import KINDS, Entry
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, RecordKey


class Quoting:
    """The companion of a message that quotes another one. It keeps no records."""

    last_seq = 0
    keys: frozenset[RecordKey] = frozenset()

    def __init__(self, draft: Draft, access: Access, messages: Messages) -> None:
        assert draft.content is not None and draft.content.reply_to is not None
        self._draft = draft
        self._seq_no = draft.content.reply_to
        self._access = access
        self._messages = messages
        self._is_accepted = False

    async def read(self) -> None:
        """Read the quoted message, once. Raises BadRequest, NotFound, and StoreUnavailable for this draft alone."""
        if self._is_accepted:
            return
        try:
            quoted = await entry_at(self._messages, self._draft.conversation_id, self._seq_no)
            member_list = await self._member_list(quoted)
        except StoreError as error:
            raise StoreUnavailable() from error
        sender_id = self._draft.sender_id
        member = check(member_list, sender_id, "read")
        assert member_list is not None
        joined_seq = member.joined_seq if member_list.head.history == "joined" else 0
        if quoted is None:
            is_message = self._seq_no <= member_list.head.floor_seq
        else:
            is_message = KINDS[seen_by(sender_id, quoted).kind].is_target
        if not is_message or self._seq_no <= joined_seq:
            raise BadRequest("`reply_to` names no message of this conversation")
        self._is_accepted = True

    async def _member_list(self, quoted: Entry | None) -> MemberList | None:
        """The list in memory, unless the answer depends on the newest one."""
        cached = self._access.cached(self._draft.conversation_id)
        if cached is not None and quoted is not None and cached.head.history == "all":
            return cached
        return (await self._access.read([self._draft.conversation_id])).get(self._draft.conversation_id)

    def puts(self, entry: Entry) -> Sequence[Put]:
        return ()
