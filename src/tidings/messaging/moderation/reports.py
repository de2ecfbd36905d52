"""Reports: a member asks the moderators to look at a message.

A report is a record of the deployment, and it holds no text: the moderator reads the message itself, as it is then.
Each look is an event of the audit, which the gateway writes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import msgspec

from tidings.clock import Clock
from tidings.errors import Conflict, NotFound
from tidings.messaging.access import Access
from tidings.messaging.log import Log
from tidings.messaging.moderation.bans import Bans
from tidings.messaging.send.edit import Rewrites
from tidings.model import KINDS, Entry
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, Records

REPORTS = "reports"
Verdict = Literal["dismiss", "delete", "ban"]


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    conversation_id: str
    seq: int
    by: str  # the member who reported it
    reason: str
    at: int
    report_id: str = ""  # the name of its record; the newest has the highest


@dataclass(eq=False, repr=False)
class Reports:
    access: Access
    log: Log
    records: Records
    rewrites: Rewrites
    bans: Bans
    clock: Clock

    async def report(self, user_id: str, conversation_id: str, seq_no: int, reason: str) -> str:
        """Report a message, and return the report's id. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        entry = await self.log.entry(conversation_id, seq_no)
        is_visible = entry is not None and seq_no > member_list.visible_after(user_id)
        if entry is None or not is_visible or not KINDS[entry.kind].is_target or entry.is_deleted:
            raise NotFound("no such message")
        now_ms = self.clock.now_ms()
        what = hashlib.sha256(f"{user_id}/{conversation_id}/{seq_no}".encode()).hexdigest()[:16]
        made = Report(conversation_id, seq_no, user_id, reason, now_ms, f"{now_ms:015d}-{what}")
        await self.records.put([Put(DEPLOYMENT, REPORTS, made.report_id, msgspec.json.encode(made))])
        return made.report_id

    async def waiting(self, after: str, limit: int) -> list[tuple[Report, Entry | None]]:
        """Reports that wait, the oldest first, each with its message as it is now. None: it is gone."""
        found = map(_report, await self.records.page(DEPLOYMENT, REPORTS, limit=limit, after=after))
        return [(one, await self.log.entry(one.conversation_id, one.seq)) for one in found]

    async def settle(self, report_id: str, verdict: Verdict, by: str) -> Report:
        """Do what the moderator decided, and end the report. Raises NotFound."""
        found = (await self.records.get(DEPLOYMENT, REPORTS, [report_id])).get(report_id)
        if found is None:
            raise NotFound("no such report")
        report = _report(found)
        entry = await self.log.entry(report.conversation_id, report.seq)
        if verdict != "dismiss" and entry is not None and not entry.is_deleted:
            await self._delete(entry)
        if verdict == "ban" and entry is not None and entry.sender_id is not None:
            await self.bans.put_for_server(report.conversation_id, entry.sender_id, by)
        try:
            await self.records.put([Put(*found.key, None, expected=found.version)])
        except Conflict:
            raise NotFound("no such report") from None
        return report

    async def _delete(self, entry: Entry) -> None:
        try:
            await self.rewrites.remove(entry)
        except NotFound:
            return  # its sender was first


def _report(record: Record) -> Report:
    return msgspec.json.decode(record.value, type=Report)
