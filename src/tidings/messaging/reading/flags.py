"""Flags: what a user wants of one conversation: pinned, archived, muted, and how much to be notified of.

The row in the tables decides, and the index follows by a rebuild of this one conversation. A flag that ends by itself
needs no write: an archived conversation is back once it has a later message, and a mute is over at its time. Every
change reaches all devices of the user, also the end of a mute: a record (MUTES) brings timed work to it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings.clock import Clock
from tidings.errors import BadRequest, Conflict, Missing, NotFound
from tidings.messaging.access import Access
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.unread.count import load_member
from tidings.messaging.unread.line import LOUD
from tidings.messaging.unread.rebuild import ANY_VERSION, HOLD_MS, Rebuilds
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.model import InboxItem, Notify, Row
from tidings.pushes import ConversationUpdated
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put, Record, of_conversation, of_user
from tidings.tasks import Listeners

log = logging.getLogger("tidings.flags")
MUTES = "mutes"  # of a user: the conversations whose mute ends by itself, with the time


class FlagChange(msgspec.Struct, frozen=True, kw_only=True):
    """The flags to set; None and UNSET leave a flag as it is. A mute without `muted_until` is for good."""

    muted: bool | None = None
    pinned: bool | None = None
    archived: bool | None = None
    muted_until: int | UnsetType | None = UNSET
    notify: Notify | None = None


@dataclass(eq=False, repr=False)
class Flags:
    access: Access
    tables: Tables
    keyspace: Keyspace
    scripts: Scripts
    rebuilds: Rebuilds
    inbox: Inbox
    router: Router
    unknown_outcomes: UnknownOutcomes
    unread_changed: Listeners[[str]]
    clock: Clock

    async def set(self, user_id: str, conversation_id: str, change: FlagChange) -> InboxItem:
        """Set flags, and push the row to all devices of the user. Raises NotFound."""
        await self.access.authorize(user_id, conversation_id, "read")
        if change != FlagChange():
            await self._set(user_id, conversation_id, change)
        item = await self.inbox.item(user_id, conversation_id)
        if change != FlagChange():
            self.router.push(user_id, ConversationUpdated(item))
            self.unread_changed(user_id)
        return item

    async def end_mute(self, record: Record) -> None:
        """The time of a mute is over: count the conversation again, and show the user its row. Raises StoreError."""
        user_id, conversation_id = msgspec.json.decode(record.value, type=str), record.name
        try:
            await self.rebuilds.conversation(user_id, conversation_id, version=ANY_VERSION)
            self.router.push(user_id, ConversationUpdated(await self.inbox.item(user_id, conversation_id)))
            self.unread_changed(user_id)
        except NotFound:
            log.debug("the user left before the mute was over", extra={"conversation_id": conversation_id})
        with suppress(Conflict):  # the user muted it again meanwhile
            await self.tables.records.put([Put(*record.key, None, expected=record.version)])

    async def _time(self, user_id: str, conversation_id: str, changes: Mapping[str, Any]) -> None:
        """Record when the mute ends: timed work counts the conversation again then."""
        if "muted_until" in changes:
            until_ms, value = changes["muted_until"], msgspec.json.encode(user_id)
            put = Put(of_user(user_id), MUTES, conversation_id, value if until_ms else None, due_ms=until_ms)
            await self.tables.records.put([put])

    async def _set(self, user_id: str, conversation_id: str, change: FlagChange) -> None:
        """The marker makes the conversation cold, should this node die between the tables and the keyspace."""
        put, token = self.scripts.unread_put, self.rebuilds.token()
        await self.keyspace.one(put(user_id, token, hold_ms=HOLD_MS, conversation_id=conversation_id))
        row, head, _ = await load_member(self.tables, user_id, conversation_id)
        row = msgspec.structs.replace(row, last_seq=max(row.last_seq, head.last_seq))
        changes = columns_of(row, change, self.clock.now_ms())
        await self._time(user_id, conversation_id, changes)
        try:
            with self.unknown_outcomes.of([(user_id, conversation_id)]):
                await self.tables.inboxes.flag(user_id, conversation_id, changes)
                if row.kind != "direct" and change.notify is not None:
                    value = b"true" if change.notify == "all" else None
                    await self.tables.records.put([Put(of_conversation(conversation_id), LOUD, user_id, value)])
        except Missing:
            raise NotFound("no such conversation") from None
        with self.unknown_outcomes.of([(user_id, conversation_id)], is_committed=True):
            await self.rebuilds.conversation(user_id, conversation_id, version=ANY_VERSION)
            await self.keyspace.one(put(user_id, token, hold_ms=0))


def columns_of(row: Row, change: FlagChange, now_ms: int) -> dict[str, Any]:
    """The columns to set. `row` has the last_seq of its conversation."""
    columns: dict[str, Any] = {}
    if row.archived and not row.is_archived(now_ms):
        columns |= {"archived": False, "archived_seq": 0}  # it is back, and a later mute must not take it away again
    if change.pinned is not None:
        since_ms = (row.pinned_ms or now_ms) if row.pinned else now_ms
        columns |= {"pinned": change.pinned, "pinned_ms": since_ms if change.pinned else 0}
    if change.archived is not None:
        columns |= {"archived": change.archived, "archived_seq": row.last_seq if change.archived else 0}
    if change.muted is not None:
        columns |= {"muted": change.muted, "muted_until": None}
    if change.muted_until is not UNSET:
        if change.muted is False and change.muted_until is not None:
            raise BadRequest("`muted_until` needs `muted`: true")
        columns["muted_until"] = change.muted_until
        if change.muted_until is not None:
            columns["muted"] = True
    if change.notify is not None:
        columns["notify"] = change.notify
    return columns
