"""Fan-out: entries of a conversation go to every member who is connected here, in slices.

A burst in a big conversation is thousands of pushes. The event loop makes PUSHES_AT_ONCE of them in a turn, and serves
everybody else in between. Each conversation has one line: an entry goes out only after all entries before it, so a
slice never changes the order of a device. Few pushes go out at once, in the turn of their caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tidings.bounds import PUSHES_AT_ONCE
from tidings.messaging.access import MemberList, mask, seen_by
from tidings.messaging.deliver.late_counts import LateCounts
from tidings.messaging.deliver.membership_events import MembershipEvents
from tidings.messaging.deliver.sequencer import Held
from tidings.messaging.people.blocks import Blocks
from tidings.pushes import ConversationRemoved, MessageNew
from tidings.routing.bus import Counts
from tidings.routing.hub import Hub

Spawn = Callable[[object, Coroutine[Any, Any, None]], asyncio.Task[None]]
Line = tuple[deque[Iterator[int]], asyncio.Task[None]]  # the pushes of a conversation that wait, and who makes them
_UNKNOWN: Counts = (None, False, None, None, None, None)
_NO_COUNTS: Mapping[str, Counts] = {}


@dataclass(eq=False, repr=False)
class FanOut:
    hub: Hub
    blocks: Blocks
    membership_events: MembershipEvents
    late_counts: LateCounts
    spawn: Spawn
    count_deliveries: Callable[[int], None]
    quiet: Callable[[], Awaitable[None]]  # returns in a later turn, when the tables do not need the loop's time

    def __post_init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def push(self, member_list: MemberList, ready: Sequence[Held]) -> None:
        """Push entries to the members connected here; others cost nothing. Older entries are history to a newcomer."""
        self._begin(member_list.head.conversation_id, self._pushes(member_list, ready))

    def push_removed(self, conversation_id: str, user_id: str) -> None:
        """Push the news of a removal to a user who is connected here, after the entries that were pushed so far."""
        self._begin(conversation_id, self._removal(conversation_id, user_id))

    def _begin(self, conversation_id: str, pushes: Iterator[int]) -> None:
        if (line := self._lines.get(conversation_id)) is not None:
            line[0].append(pushes)
            return
        waiting = deque((pushes,))
        self._push_slice(waiting)
        if waiting:
            self._lines[conversation_id] = waiting, self.spawn(object(), self._finish(conversation_id, waiting))

    def is_under_way(self, conversation_id: str) -> bool:
        """Whether entries that were pushed so far are still to go out."""
        return conversation_id in self._lines

    async def settle(self, conversation_id: str) -> None:
        """Wait until all entries that were pushed so far are out, and for none that come meanwhile."""
        if (line := self._lines.get(conversation_id)) is not None:
            are_out: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            line[0].append(_mark(are_out))
            await asyncio.wait([line[1], are_out], return_when=asyncio.FIRST_COMPLETED)

    async def _finish(self, conversation_id: str, waiting: deque[Iterator[int]]) -> None:
        try:
            while waiting:
                await self.quiet()
                self._push_slice(waiting)
        finally:
            del self._lines[conversation_id]

    def _push_slice(self, waiting: deque[Iterator[int]]) -> None:
        """Make the next pushes, as many as a turn takes. The rest waits for a later turn."""
        made = 0
        while waiting and made < PUSHES_AT_ONCE:
            for count in waiting[0]:
                made += count
                if made >= PUSHES_AT_ONCE:
                    break
            else:
                waiting.popleft()
        self.count_deliveries(made)

    def _pushes(self, member_list: MemberList, ready: Sequence[Held]) -> Iterator[int]:
        """Push to one member after the other. Yields how many events each got.

        A join is held and told when the entries before it are out: they are of an earlier membership.
        """
        if changes := [entry for entry, _, _ in ready if entry.member is not None]:
            for key in self.membership_events.hold_joins(member_list, changes):
                self.spawn(object(), self.membership_events.finish_join(key))
        conversation_id, is_limited = member_list.head.conversation_id, member_list.head.history == "joined"
        last_counts = ready[-1][1]
        voids = {
            entry.seq_no: seen_by("", entry)
            for entry, _, _ in ready
            if entry.content is not None and entry.content.only_sender
        }
        blockers = self._blockers(ready)
        members, of_user = member_list.members, self.hub.of_user
        joining, ended = self.membership_events.joining, self.membership_events.ended
        for user_id in self.hub.present(members):
            connections = of_user(user_id)
            joined_seq = members[user_id].joined_seq
            start = joined_seq - (not is_limited)
            if ended and (conversation_id, user_id, joined_seq) in ended:
                continue
            waiting = joining.get((conversation_id, user_id, joined_seq)) if joining else None
            pushed = 0
            for entry, counts, origin in ready:
                if entry.seq_no <= start:
                    continue
                if is_limited and entry.target_seq is not None:
                    entry = mask(entry, start)
                if voids and entry.seq_no in voids and user_id != entry.sender_id:
                    entry = voids[entry.seq_no]  # it has no sender, so nobody has blocked them
                is_hidden = bool(blockers) and user_id in blockers.get(entry.sender_id, ())
                event = MessageNew(entry, *(counts or _NO_COUNTS).get(user_id, _UNKNOWN), is_hidden)
                for connection in connections:
                    if connection.connection_id == origin:
                        continue
                    if waiting is None:
                        connection.push(event)
                    else:
                        waiting.append((connection, event))
                    pushed += 1
            if last_counts is not None and user_id not in last_counts:  # connected after the index
                self.late_counts.sync_soon(user_id, conversation_id)
            yield pushed

    def _removal(self, conversation_id: str, user_id: str) -> Iterator[int]:
        self.hub.push(user_id, ConversationRemoved(conversation_id))
        yield 0

    def _blockers(self, ready: Sequence[Held]) -> Mapping[str | None, Set[str]]:
        """Sender -> the people who blocked them; empty where nobody blocked any."""
        senders = {entry.sender_id for entry, _, _ in ready}
        return {one: self.blocks.blockers(one) for one in senders} if self.blocks.has_blocker(senders) else {}


def _mark(are_out: asyncio.Future[None]) -> Iterator[int]:
    """No push: its turn comes when all pushes before it are out."""
    are_out.set_result(None)
    yield 0
