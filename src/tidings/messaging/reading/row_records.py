"""Row records: the user's drafts and the conversations' rules, for the rows of one page of an inbox.

They are records of several owners, read in one request. Most conversations have neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.messaging.access import RULES, rules_of
from tidings.messaging.reading.drafts import DRAFTS, OwnDraft, draft_of
from tidings.model import NO_RULES, Rules
from tidings.stores.tables.records import RecordKey, Records, of_conversation, of_user


class RowRecords(msgspec.Struct, frozen=True):
    """By conversation, where there is something."""

    drafts: dict[str, OwnDraft] = {}
    rules: dict[str, Rules] = {}

    def rules_of(self, conversation_id: str) -> Rules:
        return self.rules.get(conversation_id, NO_RULES)


async def read_row_records(records: Records, user_id: str, conversation_ids: Sequence[str]) -> RowRecords:
    if not conversation_ids:
        return RowRecords()
    owner = of_user(user_id)
    drafts = {RecordKey(owner, DRAFTS, id_): id_ for id_ in conversation_ids}
    rules = {RecordKey(of_conversation(id_), RULES, RULES): id_ for id_ in conversation_ids}
    found = await records.get_each([*drafts, *rules])
    return RowRecords(
        {id_: draft for key, id_ in drafts.items() if key in found and (draft := draft_of(found[key])).text},
        {id_: rules_of({RULES: found[key]}) for key, id_ in rules.items() if key in found},
    )


async def read_rules(records: Records, conversation_id: str) -> Rules:
    return rules_of(await records.get(of_conversation(conversation_id), RULES, [RULES]))
