"""Mistakes that somebody might make in the real code. Each is switched on in a process of its own, and must be found.

A mutation of a script is a change of its text; of Python, a method put in the place of the real one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.errors import Throttled, Unavailable
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.deliver.sequencer import Sequencer
from tidings.messaging.files import attach
from tidings.messaging.limits.held import Holds
from tidings.messaging.log import Log
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.send import members, store
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.lanes import Lane, Sends
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.store import Store, to_entry
from tidings.messaging.send.takeover import Takeover
from tidings.messaging.unread.count import Count
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.model import Entry
from tidings.stores.keyspace.scripts.messaging import SOURCES, Scripts
from tidings.stores.tables.sqlite import log as sqlite_log
from tidings.stores.tables.values import Known, Places
from tidings_proof.simulation import memory_valkey
from tidings_proof.simulation.lua import compiled


def change_script(name: str, old: str, new: str) -> None:
    source = SOURCES[name]
    assert old in source, f"{name} has no {old!r} any more"
    sha = hashlib.sha1(source.encode()).hexdigest().encode()
    memory_valkey.SCRIPTS[sha] = compiled(source.replace(old, new))


def inbox_moves_back() -> None:
    """ZADD without GT: whatever comes last sets the place of a conversation."""
    change_script("inbox_index", "'ZADD', inbox, 'GT', score", "'ZADD', inbox, score")


def redelivery_revives() -> None:
    """Count an entry that was read once more when it is indexed again."""
    change_script("inbox_index", "if not is_read(seq, seen, ranges) then", "if seq > 0 then")


def known_means_stored() -> None:
    """An id with a number is acknowledged although nobody has seen its row."""

    async def settle(self: Store, group: BatchGroup) -> None:
        for draft in [draft for draft in group.drafts if draft.is_known]:
            assert group.member_list is not None
            group.found(draft, to_entry(draft, group.member_list))

    Store._settle_known = settle  # type: ignore[method-assign]


def stores_without_looking() -> None:
    """An answer that was lost is taken for a yes."""
    commit = Store.commit

    async def hopeful(self: Store, batch: Batch) -> None:
        messages = self.messages

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

        self.messages = Hopeful()
        try:
            await commit(self, batch)
        finally:
            self.messages = messages

    Store.commit = hopeful  # type: ignore[method-assign]


def any_epoch_is_ours() -> None:
    """Take an index that a failover left behind for warm."""
    for name in ("inbox_index", "unread_state", "inbox_page", "unread_chill", "inbox_begin"):
        change_script(name, "m[1] ~= epoch or", "")


def holds_are_off() -> None:
    """A refused send is overtaken by later ones."""
    patched: Any = Holds
    patched.is_held = lambda *args: False


def reads_past_gaps() -> None:
    async def after(self: Log, conversation_id: str, after: int, limit: int) -> Any:
        return await self._rising(conversation_id, after, limit)

    Log.after = after  # type: ignore[method-assign]


def gaps_are_skipped() -> None:
    """Whatever comes goes out at once."""

    def pop_ready(self: Sequencer, *args: Any) -> Any:
        ready = [self.held.pop(seq_no) for seq_no in sorted(self.held)]
        if ready:
            self.last = max(self.last or 0, ready[-1].entry.seq_no)
        return ready

    patched: Any = Sequencer
    patched.pop_ready = pop_ready


def the_dead_are_left() -> None:
    """Nobody finishes what a dead node, or a failed batch, left undone."""

    async def nothing(self: Takeover) -> int:
        return 0

    Takeover.finish_dead = nothing  # type: ignore[method-assign]
    Takeover.finish_own = nothing  # type: ignore[method-assign,assignment]


def counter_is_trusted() -> None:
    """A counter of another epoch goes on where it stands, and a taken slot is simply numbered again from there."""
    change_script("conversation_number", "if not c[1] or c[3] ~= epoch then", "if not c[1] then")

    async def seed(self: Counters, conversation_id: str) -> None:
        now_ms = self._clock.now_ms()
        call = self._scripts.conversation_seed(
            conversation_id, seq=0, at=0, members_seq=0, counter_id="the same", now_ms=now_ms
        )
        await self._keyspace.one(call)

    Counters.seed = seed  # type: ignore[method-assign]


def rebuild_ignores_changes() -> None:
    """Ignore what changed while a user was rebuilt."""
    change_script("inbox_install", "if string.sub(noted[i], 1, 1) == '+' then", "if 1 == 2 then")


def ranges_are_forgotten() -> None:
    """A rebuild counts what was read one by one."""
    real = Count._unread

    async def unread(self: Count, row: Any, status: Any, after: int, but: Any) -> Any:
        return await real(self, row, msgspec.structs.replace(status, ranges=()), after, but)

    Count._unread = unread  # type: ignore[method-assign]


def voids_hide_entries() -> None:
    """A group keeps the voids of a lost counter, and an entry whose number is also a void is taken for a closed one."""

    def places_of(entries: Sequence[Entry], filled: Iterable[int], known: Mapping[int, Known]) -> Places:
        voids, there = {entry.seq_no for entry in entries if entry.kind == "void"}, set(filled)
        free = [at for at, entry in enumerate(entries) if entry.seq_no not in there]
        own = {entry.seq_no for at, entry in enumerate(entries) if at in known and known[at].seq_no == entry.seq_no}
        in_the_way = there - voids - own
        taken = frozenset(at for at, entry in enumerate(entries) if entry.seq_no in in_the_way)
        return Places(free, frozenset(), taken)

    BatchGroup.take_counter = lambda self, counter_id: None  # type: ignore[method-assign]
    sqlite_log.places_of = places_of  # type: ignore[attr-defined]


def throttled_means_stored() -> None:
    """A write that the tables refused for the moment is taken for done."""
    commit = Store.commit

    async def hopeful(self: Store, batch: Batch) -> None:
        messages = self.messages

        class Hopeful:
            def __getattr__(self, name: str) -> Any:
                return getattr(messages, name)

            async def append(self, some: Any) -> Any:
                try:
                    return await messages.append(some)
                except Throttled:
                    return [None] * len(some)

        self.messages = Hopeful()
        try:
            await commit(self, batch)
        finally:
            self.messages = messages

    Store.commit = hopeful  # type: ignore[method-assign]


def everybody_may_send() -> None:
    """A sender is not looked up among the members."""
    members._check_senders = lambda group: []


def settings_are_forgotten() -> None:
    """A mark does not say under which cap and policy it was made."""
    real = Scripts.__init__

    def init(self: Scripts, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self.epoch_tag = ""

    Scripts.__init__ = init  # type: ignore[method-assign]


def the_clock_is_trusted() -> None:
    """The time of an entry is the server's, although that may go back."""
    change_script("conversation_number", "clock_ms >= at and clock_ms or at + 1", "clock_ms")


def a_lost_inbox_is_warm() -> None:
    """Nobody counts whether the inbox is as long as its mark says."""
    for name in ("inbox_page", "unread_state"):
        change_script(name, "redis.call('ZCARD', inbox) == t.size\n    and", "")


def the_last_minute_is_forgotten() -> None:
    """Nobody counts again what was counted on a primary that is gone."""

    def epoch_changed(self: OpenWork, old: str, new: str) -> None:
        self._epoch_changes += 1

    OpenWork.epoch_changed = epoch_changed  # type: ignore[method-assign]
    UnknownOutcomes.epoch_changed = lambda self, old, new: None  # type: ignore[method-assign]


def mentions_are_messages() -> None:
    """The index counts a mention as a plain message."""
    change_script("inbox_index", "word, is_mention = string.sub(word, 1, -2), true", "word = string.sub(word, 1, -2)")


def receipts_are_answered_early() -> None:
    """A device is answered before its receipt is written."""
    plain = Receipts.delivered

    def delivered(
        self: Receipts, user_id: str, acks: dict[str, int], tell: Callable[[bool], None] | None = None
    ) -> None:
        plain(self, user_id, acks)
        if tell is not None:
            tell(True)

    Receipts.delivered = delivered  # type: ignore[method-assign]


def files_are_taken_twice() -> None:
    """A file that is in another message can be sent again."""
    attach.check_file = lambda *of_file: None


def the_index_keeps_deleted_words() -> None:
    changes = Indexer._changes

    async def keeping(self: Indexer, conversation_id: str, entries: Sequence[Entry]) -> Any:
        return [document for document in await changes(self, conversation_id, entries) if document.words]

    Indexer._changes = keeping  # type: ignore[method-assign]


def any_list_decides() -> None:
    """The list that comes with an entry decides who gets it, whether it is older or newer than the entry."""
    patched: Any = Sequencer
    patched.list_seq = property(lambda self: self.members_seq, lambda self, value: None)
    Deliver.list_replaced = lambda self, old, new: None  # type: ignore[method-assign]


def what_waits_has_a_message() -> None:
    """A group that waits for a member change is taken to have something to send."""
    real = Sends._put_aside

    def put_aside(self: Sends, lane: Lane, drafts: list[Draft], *rest: Any) -> None:
        real(self, lane, [drafts[0], *drafts[1:]], *rest)

    Sends._put_aside = put_aside  # type: ignore[assignment, method-assign]


def numbers_of_two_tries_are_kept() -> None:
    """A group is stored under the numbers that its messages had, although they do not rise."""
    patched: Any = store
    patched.sorted = list


def old_numbers_are_kept() -> None:
    """A message is stored under a number that it had before, although later numbers are in the log by now."""
    real = Store._settle_known

    async def settle(self: Store, group: BatchGroup) -> None:
        log: Any = self.log

        class Low:
            def __getattr__(self, name: str) -> Any:
                return getattr(log, name)

            async def top(self, conversation_id: str) -> int:
                return 0

        patched: Any = self
        patched.log = Low()
        try:
            await real(self, group)
        finally:
            patched.log = log

    Store._settle_known = settle  # type: ignore[method-assign]


# Mistakes that only show under an oddity: its kind, and the mistake.
ODD_MUTATIONS: dict[str, tuple[str, Callable[[], None]]] = {
    mutation.__name__: (kind, mutation)
    for kind, mutation in (
        ("throttle", throttled_means_stored),
        ("strangers", everybody_may_send),
        ("settings", settings_are_forgotten),
        ("clock_back", the_clock_is_trusted),
        ("evict", a_lost_inbox_is_warm),
        ("two_primaries", the_last_minute_is_forgotten),
        ("beside", mentions_are_messages),
        ("throttle", receipts_are_answered_early),
        ("finding", files_are_taken_twice),
        ("finding", the_index_keeps_deleted_words),
        ("removals", any_list_decides),
        ("slices", what_waits_has_a_message),
        ("tables_away", numbers_of_two_tries_are_kept),
        ("tables_away", old_numbers_are_kept),
    )
}
# Mistakes that only show where counters are lost.
LOSING_MUTATIONS: dict[str, Callable[[], None]] = {
    "voids_hide_entries": voids_hide_entries,
    "counter_is_trusted": counter_is_trusted,
}

MUTATIONS: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        inbox_moves_back,
        redelivery_revives,
        known_means_stored,
        stores_without_looking,
        any_epoch_is_ours,
        holds_are_off,
        reads_past_gaps,
        gaps_are_skipped,
        the_dead_are_left,
        rebuild_ignores_changes,
        ranges_are_forgotten,
    )
}
