"""Rules of a conversation: who may post, how often, who may find it, and how long its messages stay.

The rules are one record of the conversation. A change is a numbered entry of kind `conversation`, and the record
changes in its commit. The entry also raises the version of the member list, so every node reads the new rules before it
stores a message above that entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidings.clock import Clock
from tidings.errors import Forbidden
from tidings.messaging.access import RULES, Access, MemberList, check, rules_of
from tidings.messaging.conversations.announcements import Announcements
from tidings.messaging.conversations.changes import change_draft
from tidings.messaging.send.lanes import Sends
from tidings.model import Entry, Rules
from tidings.pushes import ConversationUpdated
from tidings.stores.tables.records import DEPLOYMENT, Put, RecordKey, Records, of_conversation

LISTED = "listed"  # the conversations that people find without being members
_OF_ALL = frozenset(("retention_s", "data"))  # the rules that a direct conversation has too


@dataclass(eq=False, repr=False)
class RuleChanges:
    access: Access
    records: Records
    sends: Sends
    announcements: Announcements
    clock: Clock

    async def change(self, user_id: str, conversation_id: str, fields: Mapping[str, Any]) -> None:
        """Change these rules, as a numbered entry. Raises NotFound, Forbidden."""
        change = await self.prepare(user_id, conversation_id, fields)
        await self.sends.complete(change_draft(self.clock, user_id, change.member_list, fields, change))
        self._announce(change.member_list)

    async def prepare(self, user_id: str, conversation_id: str, fields: Mapping[str, Any]) -> RuleChange:
        """The companion of a change by a leader, or by either side of a direct conversation. Raises as `change`."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        if member_list.head.kind != "direct":
            check(member_list, user_id, "rename")
        elif not fields.keys() <= _OF_ALL:
            raise Forbidden("a direct conversation has no such rules")
        change = RuleChange(self.records, member_list, fields, self.clock)
        await change.read()
        return change

    def _announce(self, member_list: MemberList) -> None:
        rows = [(member_id, member_list.head.conversation_id) for member_id in member_list.members]
        self.announcements.announce(rows, ConversationUpdated)


class RuleChange:
    """The companion of a change: the record of the rules, and the one that lists the conversation."""

    last_seq = 0

    def __init__(self, records: Records, member_list: MemberList, fields: Mapping[str, Any], clock: Clock) -> None:
        self._records = records
        self.member_list, conversation_id = member_list, member_list.head.conversation_id
        self._fields = fields
        self._clock = clock
        self._key = RecordKey(of_conversation(conversation_id), RULES, RULES)
        self._listed = RecordKey(DEPLOYMENT, LISTED, conversation_id)
        self._version = 0
        self._rules = Rules()
        self._has_retention = False  # before or after the change
        self.keys = frozenset((self._key, self._listed) if "visibility" in fields else (self._key,))

    async def read(self) -> None:
        found = await self._records.get(self._key.owner, RULES, [RULES])
        self._version = found[RULES].version if RULES in found else 0
        old = rules_of(found)
        self._rules = msgspec.structs.replace(old, **self._fields)
        self._has_retention = old.retention_s is not None or self._rules.retention_s is not None

    def puts(self, entry: Entry) -> Sequence[Put]:
        value = msgspec.json.encode(self._rules)
        due_ms = self._clock.now_ms() if self._has_retention else None  # retention looks at it at once
        puts = [Put(*self._key, value, expected=self._version, due_ms=due_ms)]
        if self._listed in self.keys:
            puts.append(Put(*self._listed, None if self._rules.visibility == "private" else b"{}"))
        return puts
