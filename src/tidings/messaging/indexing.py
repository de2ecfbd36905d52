"""Stage: index. Every member's inbox and unread show a batch before anybody hears that it was sent.

One call per member, conversation and batch. It is idempotent: a duplicate, a repeated batch or the work of a dead node
is simply indexed again. A call that meets something COLD counts nothing and raises `:gen`, so whoever looks next rebuilds
from tables that already hold the entries (rebuild.py). Used by send.py and repair.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.messaging.access import Roster
from tidings.model import Entry
from tidings.stores.calls import Arg, Call, Keyspace
from tidings.stores.ports import Statuses
from tidings.stores.scripts import Indexed, Scripts

_TRIES_MAX = 3  # a keyspace that changes its epoch more often than this during one batch is not up


class Indexing:
    def __init__(
        self, keyspace: Keyspace, scripts: Scripts, statuses: Statuses, epoch_changes: Callable[[], int]
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._statuses = statuses
        self._epoch_changes = epoch_changes

    async def index(self, works: Sequence[tuple[Roster, Sequence[Entry]]], *, since: int) -> list[dict[str, Indexed]]:
        """What each member sees now. `since`: epoch_changes() when the batch began.

        A failover meanwhile may have lost what was counted before it, so the batch is indexed again.
        """
        answers: list[dict[str, Indexed]] = []
        for _ in range(_TRIES_MAX):
            answers = await self._index_once(works)
            if self._epoch_changes() == since:
                break
            since = self._epoch_changes()
        return answers

    async def _index_once(self, works: Sequence[tuple[Roster, Sequence[Entry]]]) -> list[dict[str, Indexed]]:
        calls: list[Call[Indexed]] = []
        users: list[list[str]] = []
        for roster, entries in works:
            for entry in entries:
                if entry.member is not None:
                    await self._apply_members(roster, entry)
            mine = self._calls(roster, entries)
            users.append([user_id for user_id, _ in mine])
            calls += [call for _, call in mine]
        replies = iter(await self._keyspace.run(calls))
        return [{user_id: next(replies) for user_id in group} for group in users]

    def _calls(self, roster: Roster, entries: Sequence[Entry]) -> list[tuple[str, Call[Indexed]]]:
        conversation_id = roster.head.conversation_id
        counted = [entry for entry in entries if entry.kind == "message" and not entry.is_deleted]
        messages = [entry.sent_ms for entry in entries if entry.kind == "message"]
        score_ms = max(messages, default=0)
        removed = [entry.target_seq or 0 for entry in entries if entry.kind == "delete"]
        everything = _flat(counted)
        senders = {entry.sender_id for entry in counted}
        index = self._scripts.inbox_index
        return [
            (
                user_id,
                index(
                    user_id,
                    conversation_id,
                    score_ms=score_ms,
                    added=everything if user_id not in senders else _flat(counted, but=user_id),
                    removed=removed,
                    now_ms=0,
                ),
            )
            for user_id in roster.members
        ]

    async def _apply_members(self, roster: Roster, entry: Entry) -> None:
        """A conversation enters or leaves inboxes, as the member list now says."""
        change, conversation_id = entry.member, roster.head.conversation_id
        assert change is not None
        calls: list[Call[bool]] = []
        for user_id in change.user_ids:
            member = roster.members.get(user_id)
            if member is None:
                calls.append(self._scripts.inbox_leave(user_id, conversation_id))
            elif change.action == "added" and member.joined_seq == entry.seq_no:
                statuses = await self._statuses.get(user_id, [conversation_id])
                version = statuses[conversation_id].version if conversation_id in statuses else 0
                calls.append(
                    self._scripts.inbox_join(
                        user_id, conversation_id, score_ms=entry.sent_ms, version=version, cursor=entry.seq_no
                    )
                )
        await self._keyspace.run(calls)


def _flat(entries: Sequence[Entry], but: str | None = None) -> tuple[Arg, ...]:
    return tuple(part for entry in entries if entry.sender_id != but for part in (entry.seq_no, entry.sent_ms))
