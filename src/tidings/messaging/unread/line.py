"""The line: above `members_large` members a conversation is large. Nothing is written per member when somebody posts.

The head of the conversation says since when (`large_ms`), and changes in the commit of the member change that crosses
the line. In a large conversation one index of the whole conversation, the tally (tallies.py), has every message that
counts. A member's mark has only what the member did: cursor and ranges. A count is made of the two when somebody looks
(large_counts.py), by the same rule as every other (count.py). So crossing the line makes the marks of the members cold,
and nothing else. Downwards the index stage does that: it meets marks that are large. Upwards the first post, or the
change itself, does it before it is acknowledged, and the tally remembers that it is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.messaging.unread.bounds import BACK_SHARE, CHILLED_TOGETHER, SETTLE_S
from tidings.messaging.unread.count import taken_out
from tidings.model import Entry, Head, Member
from tidings.stores.keyspace.call import Call, Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import Added, TallyScripts
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.stored_content import AT_HEAD
from tidings.stores.tables.values import Touch

LOUD = "loud"  # records of a conversation: members who want to hear of every message even where it is large


def crossed(head: Head, members_count: int, members_large: int, now_ms: int) -> int | None:
    """Return large_ms of the head after a change to so many members. None: it stays as it is."""
    if not head.large_ms and members_count > members_large and head.kind != "direct":
        return max(now_ms, 1)
    if head.large_ms and members_count <= int(members_large * BACK_SHARE):
        return 0
    return None


def sees_last(member: Member, head: Head) -> bool:
    """Whether the member's row shows the last message. False: it was said before they came."""
    return head.history == "all" or member.joined_seq < head.last_seq


def touch_of(user_id: str, head: Head, **count: int) -> Touch:
    """A row takes its last message from the head. That of a large conversation only says that the text is there."""
    return Touch(
        user_id=user_id,
        conversation_id=head.conversation_id,
        last_seq=head.last_seq,
        last_ms=head.last_ms,
        preview=None if head.large_ms else head.preview,
        last_message=AT_HEAD if head.large_ms else head.last_message,
        **count,
    )


@dataclass(eq=False, repr=False)
class Line:
    """Brings entries into the tally, and makes marks cold that are from before their conversation became large."""

    keyspace: Keyspace
    scripts: Scripts
    tally_scripts: TallyScripts
    tables: Tables
    clock: Clock

    def tally(self, head: Head, entries: Sequence[Entry], gone: Sequence[int] = ()) -> Call[Added]:
        """The call that shows entries to all members at once. `gone`: numbers that no longer count."""
        removed, rev = [*gone, *taken_out(entries)], self.clock.random_id(8)
        return self.tally_scripts.tally_add(head.conversation_id, head.large_ms, entries, removed, rev=rev)

    async def settle(self, head: Head, entries: Sequence[Entry], *, is_settled: bool) -> None:
        """Make the marks of all members cold, before anything is acknowledged that only the tally counts.

        The entries tell how old the line is: their times are of the same clock. The change that crossed it settles in
        any case. Rows leave the last text to the head, because nobody writes them when it is edited or deleted. The
        next reader below the line takes it from there."""
        id_, line_ms = head.conversation_id, head.large_ms
        is_crossing = any(entry.member is not None and entry.sent_ms == line_ms for entry in entries)
        if is_settled and not is_crossing:
            return
        if is_crossing or not entries or entries[-1].sent_ms - line_ms < SETTLE_S * 1000:
            members = await self.tables.conversations.members(id_)
            await self._chill(members, id_)
            touches = [touch_of(member.user_id, head) for member in members if sees_last(member, head)]
            await self.tables.inboxes.touch(touches)
        await self.keyspace.one(self.tally_scripts.tally_settle(id_, line_ms))

    async def _chill(self, members: list[Member], conversation_id: str) -> None:
        """Leave markers: each outlives a rebuild of its user that read the tables before the line was crossed."""
        put, token = self.scripts.unread_put, f"line={conversation_id}"  # no id has this sign
        for start in range(0, len(members), CHILLED_TOGETHER):
            some = members[start : start + CHILLED_TOGETHER]
            await self.keyspace.run(
                [put(one.user_id, token, hold_ms=-1, conversation_id=conversation_id) for one in some]
            )
