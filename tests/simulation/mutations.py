"""Mistakes that somebody might make in the real code. Each is switched on in a process of its own, and must be found.

A mutation of a script is a change of its text; of Python, a method put in the place of the real one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from tests.simulation import memory_valkey
from tests.simulation.lua import compiled
from tidings.errors import Unavailable
from tidings.messaging.commits import to_entry
from tidings.messaging.drafts import BatchGroup
from tidings.messaging.holds import Holds
from tidings.messaging.numbering import Numbering
from tidings.messaging.rebuild import Rebuilds
from tidings.messaging.repair import Repair
from tidings.messaging.slots import Slots
from tidings.messaging.storing import Storing
from tidings.messaging.streams import Stream
from tidings.stores.scripts import SOURCES


def change_script(name: str, old: str, new: str) -> None:
    source = SOURCES[name]
    assert old in source, f"{name} has no {old!r} any more"
    sha = hashlib.sha1(source.encode()).hexdigest().encode()
    memory_valkey.SCRIPTS[sha] = compiled(source.replace(old, new))


def inbox_moves_back() -> None:
    """ZADD without GT: whatever comes last sets the place of a conversation."""
    change_script("inbox_index", "'ZADD', inbox, 'GT', score", "'ZADD', inbox, score")


def redelivery_revives() -> None:
    """What was read is counted again when it is indexed again."""
    change_script("inbox_index", "if not is_read(seq) then", "if seq > 0 then")


def known_means_stored() -> None:
    """An id with a number is acknowledged although nobody has seen its row."""

    async def settle(self: Storing, group: BatchGroup, open_from: Any) -> None:
        for draft in [draft for draft in group.drafts if draft.is_known]:
            assert group.roster is not None
            group.found(draft, to_entry(draft, group.roster))

    Storing._settle_known = settle  # type: ignore[method-assign]


def stores_without_looking() -> None:
    """An answer that was lost is taken for a yes."""
    append = Storing.store

    async def store(self: Storing, groups: Any, open_from: Any) -> None:
        messages = self._messages

        class Hopeful:
            def __getattr__(self, name: str) -> Any:
                return getattr(messages, name)

            async def append(self, some: Any) -> Any:
                try:
                    return await messages.append(some)
                except Unavailable as error:
                    if not error.is_ambiguous:
                        raise
                    return [None] * len(some)

        self._messages = Hopeful()  # type: ignore[assignment]
        try:
            await append(self, groups, open_from)
        finally:
            self._messages = messages

    Storing.store = store  # type: ignore[method-assign]


def any_epoch_is_ours() -> None:
    """What a failover left behind is taken for warm."""
    change_script("inbox_index", "m[1] ~= epoch or", "")
    for name in ("unread_state", "inbox_page", "unread_chill"):
        change_script(name, "m[1] ~= ARGV[1] or", "")
    change_script("inbox_begin", "m[1] == ARGV[1] and", "")


def holds_are_off() -> None:
    """A refused send is overtaken by later ones."""
    Holds.is_held = lambda self, origin, conversation_id, message_id: False  # type: ignore[method-assign]


def reads_past_open_slots() -> None:
    async def after(self: Slots, conversation_id: str, after: int, limit: int) -> Any:
        return await self._rising(conversation_id, after, limit)

    Slots.after = after  # type: ignore[method-assign]


def gaps_are_skipped() -> None:
    """Whatever comes goes out at once."""

    def pop_ready(self: Stream, *args: Any) -> Any:
        ready = [self.held.pop(seq_no) for seq_no in sorted(self.held)]
        if ready:
            self.last = max(self.last or 0, ready[-1].entry.seq_no)
        return ready

    Stream.pop_ready = pop_ready  # type: ignore[method-assign]


def the_dead_are_left() -> None:
    """Nobody finishes what a dead node, or a failed batch, left undone."""

    async def nothing(self: Repair) -> int:
        return 0

    Repair.finish_dead = nothing  # type: ignore[method-assign]
    Repair.finish_own = nothing  # type: ignore[method-assign,assignment]


def counter_is_trusted() -> None:
    """A counter of another epoch goes on where it stands, and a taken slot is simply numbered again from there."""
    change_script("conversation_number", "if not c[1] or c[3] ~= epoch then", "if not c[1] then")

    async def seed(self: Numbering, conversation_id: str) -> None:
        await self._keyspace.one(self._scripts.conversation_seed(conversation_id, seq=0, at=0, members_seq=0))

    Numbering.seed = seed  # type: ignore[method-assign]


def rebuild_ignores_changes() -> None:
    """What changed while a user was rebuilt is not read again."""
    change_script("inbox_install", "if string.sub(noted[i], 1, 1) == '+' then", "if 1 == 2 then")


def ranges_are_forgotten() -> None:
    """A rebuild counts what was read one by one."""
    real = Rebuilds._unread

    async def unread(self: Rebuilds, row: Any, status: Any, after: int) -> Any:
        return await real(self, row, msgspec.structs.replace(status, ranges=()), after)

    Rebuilds._unread = unread  # type: ignore[method-assign]


MUTATIONS: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        inbox_moves_back,
        redelivery_revives,
        known_means_stored,
        stores_without_looking,
        any_epoch_is_ours,
        holds_are_off,
        reads_past_open_slots,
        gaps_are_skipped,
        the_dead_are_left,
        counter_is_trusted,
        rebuild_ignores_changes,
        ranges_are_forgotten,
    )
}
