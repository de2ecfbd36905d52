"""One typed stub per Lua file: it builds the `Call`, and knows how to read the answer.

The stubs are the seam between the use cases and the keyspace: they say what is asked in Python's words, and a
simulation may stand in for them. In the mark hash of a warm user each conversation of the inbox has one field: its mark
under its id, or `~id` with the number of its last change while it is COLD. While all of the user is COLD, `+id` notes
what changed. The user's own fields are '*' and those that begin with ':'. No conversation id can be any of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from tidings.bounds import INDEX_TTL_S, SENT_GENERATION_S
from tidings.model import ConversationKind, Ranges
from tidings.stores.keyspace.call import Arg, Call, plain
from tidings.stores.keyspace.keys import Keys, ThreadKeys
from tidings.stores.keyspace.scripts.answers import (
    Admitted,
    Chilled,
    Indexed,
    Numbered,
    Page,
    Place,
    ReadAnswer,
    UnreadState,
    is_one,
    read_admitted,
    read_all_indexed,
    read_chilled,
    read_first,
    read_marked,
    read_numbered,
    read_page,
    read_unread_state,
)
from tidings.stores.keyspace.scripts.library import Library
from tidings.stores.keyspace.scripts.marks import KIND_CODES, Flags, Mark, Sums, pack_ranges

R = TypeVar("R")
NAMES = (
    "limiter_admit",
    "conversation_number",
    "conversation_seed",
    "sent_forget",
    "inbox_index",
    "inbox_join",
    "inbox_leave",
    "inbox_page",
    "inbox_begin",
    "inbox_place",
    "inbox_install",
    "unread_state",
    "unread_put",
    "unread_read",
    "unread_chill",
    "unread_install",
)
MARKS_VERSION = 4  # the form of marks and unread sets; an index of another form is cold
_library = Library(NAMES)
_call = _library.call
SOURCES = _library.sources
NO_FLAGS = Flags()
TOP = Place("first", 0, "")  # of the whole inbox: the pinned ones come first
PAGE_SCAN_MAX = 1_000  # conversations of another kind that one page passes over: a few milliseconds of the server


def filter_top(name: str) -> Place:
    """The beginning of a filter."""
    return Place(name, 0, "")


def mentions_of(unread: str) -> str:
    """The set of mentions beside an unread set."""
    return f"{unread}:@"


class Scripts:
    """Builds calls under one tenant's keys, with this installation's cap and time to live."""

    def __init__(self, keys: Keys, *, unread_cap: int, unread_ttl_s: int, unread_policy: str = "until_read") -> None:
        self.keys = keys
        self.cap = unread_cap
        self.ttl_s = unread_ttl_s
        self.is_delivered_seen = unread_policy == "when_offline"
        # A mark counts under one cap and one policy. Under others it is cold, as it is in another epoch.
        self.epoch_tag = f"|{MARKS_VERSION}|{unread_cap}|{unread_policy}"

    @cached_property
    def threads(self) -> Scripts:
        """The same scripts for the index of the threads that users follow. Delivery alone takes nothing from it."""
        return Scripts(ThreadKeys(self.keys.prefix), unread_cap=self.cap, unread_ttl_s=self.ttl_s)

    def limiter_admit(
        self,
        user_id: str,
        class_name: str,
        *,
        window_us: int,
        limit: int,
        wanted: int,
        token: str,
        is_whole: bool = False,
    ) -> Call[Admitted]:
        """`is_whole`: all of the wanted requests pass, or none."""
        args = (window_us, limit, wanted, token, int(is_whole))
        return _call("limiter_admit", (self.keys.rate(user_id, class_name),), args, read_admitted, has_epoch=False)

    def conversation_number(
        self,
        conversation_id: str,
        ids: Sequence[str],
        *,
        node_id: str,
        open_from: int,
        is_member_change: bool,
        has_delete: bool = False,
        has_summary: bool = False,
        now_ms: int,
    ) -> Call[Numbered | None]:
        """None: the counter must be seeded first."""
        generation = now_ms // (SENT_GENERATION_S * 1000)
        change = is_member_change + 2 * has_delete + 4 * has_summary
        return _call(
            "conversation_number",
            self._numbered_keys(conversation_id, generation),
            (node_id, open_from, change, generation, 2 * SENT_GENERATION_S, INDEX_TTL_S, *ids),
            read_numbered,
        )

    def conversation_seeding(self, conversation_id: str, token: str) -> list[Call[Any]]:
        """Begin a seed: the second call answers the `seeding` to pass, ours or that of another who has begun."""
        conv = self.keys.conv(conversation_id)
        return [
            plain(conv, b"HSETNX", conv, b"seeding", token),
            plain(conv, b"HGET", conv, b"seeding"),
            plain(conv, b"EXPIRE", conv, INDEX_TTL_S),
        ]

    def conversation_seed(
        self,
        conversation_id: str,
        *,
        seq: int,
        at: int,
        members_seq: int,
        counter_id: str,
        seeding: str = "",
        now_ms: int,
    ) -> Call[int]:
        """`counter_id` is taken if there is no counter, or one of another epoch. -1: the counter was lost meanwhile."""
        generation = now_ms // (SENT_GENERATION_S * 1000)
        return _call(
            "conversation_seed",
            self._numbered_keys(conversation_id, generation),
            (seq, at, members_seq, INDEX_TTL_S, counter_id, seeding),
            int,
        )

    def sent_forget(
        self, conversation_id: str, notes: Iterable[tuple[str, int, tuple[int, int] | None]], *, now_ms: int
    ) -> Call[int]:
        """(id, the number noted for it, the (seq_no, sent_ms) it really has or None): answers how many were changed."""
        generation = now_ms // (SENT_GENERATION_S * 1000)
        args: list[Arg] = []
        for id_, seq, row in notes:
            args += (id_, seq, f"{row[0]}:{row[1]}" if row else "")
        return _call(
            "sent_forget",
            self._numbered_keys(conversation_id, generation),
            tuple(args),
            int,
            has_epoch=False,
        )

    def inbox_index(
        self,
        user_id: str,
        conversation_id: str,
        *,
        score_ms: int,
        added: Sequence[Arg],
        removed: Sequence[Arg],
        now_ms: int,
    ) -> Call[Indexed]:
        """`added`: the numbers that count for the member. `now_ms` 0: leases are not wanted."""
        shared = self.inbox_index_args(conversation_id, score_ms=score_ms, added=added, removed=removed, now_ms=now_ms)
        return self._indexed("inbox_index", self._index_keys(user_id, conversation_id), ("1", *shared), read_first)

    def inbox_index_args(
        self, conversation_id: str, *, score_ms: int, added: Sequence[Arg], removed: Sequence[Arg], now_ms: int
    ) -> tuple[Arg, ...]:
        """The arguments that all members share, as text: they are packed again for each call."""
        numbers = (score_ms, self.cap, self.ttl_s, now_ms, len(removed), *removed, *added)
        return (conversation_id, *map(str, numbers))

    def inbox_index_all(
        self, members: Mapping[str, str], conversation_id: str, shared: tuple[Arg, ...]
    ) -> Call[list[Indexed]]:
        """`members`: user -> "1" where the added numbers count, "0" where none does. `shared`: of inbox_index_args.

        The keys of all of them must be on one server. The answers come in the order of the members. A member costs the
        server about 10 us, and 2 us for each number.
        """
        keys = [key for user_id in members for key in self._index_keys(user_id, conversation_id)]
        args, steps = ("".join(members.values()), *shared), len(members) * len(shared)
        return _call("inbox_index", tuple(keys), args, read_all_indexed, epoch_tag=self.epoch_tag, steps=steps)

    def _index_keys(self, user_id: str, conversation_id: str) -> tuple[str, str, str, str]:
        keys = self.keys
        return keys.inbox(user_id), keys.mark(user_id), keys.unread(user_id, conversation_id), keys.ws(user_id)

    def inbox_join(
        self,
        user_id: str,
        conversation_id: str,
        *,
        score_ms: int,
        version: int,
        cursor: int,
        flags: Flags = NO_FLAGS,
    ) -> Call[bool]:
        """Answers False when the user is COLD."""
        placed = (flags.packed, flags.pinned_ms)
        args = (conversation_id, score_ms, version, cursor, score_ms // 86_400_000, *placed, self.cap, self.ttl_s)
        keys = self._user_keys(user_id, conversation_id)
        return self._indexed("inbox_join", keys, (*args, flags.line_ms), is_one)

    def inbox_leave(self, user_id: str, conversation_id: str, *, gen: str = "") -> Call[bool]:
        """With `gen`: only if the conversation is COLD and has not changed since."""
        args = (conversation_id, self.cap, self.ttl_s, gen)
        return self._indexed("inbox_leave", self._user_keys(user_id, conversation_id), args, is_one)

    def inbox_page(
        self, user_id: str, *, limit: int, after: Place = TOP, kind: ConversationKind | None = None
    ) -> Call[Page | None]:
        """`after`: TOP, the beginning of a filter, or the place where the page before ended. None: the user is COLD."""
        code = KIND_CODES[kind] if kind is not None else ""
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        args = (limit, after.part, after.score, after.conversation_id, self.cap, code, PAGE_SCAN_MAX)
        return self._indexed("inbox_page", keys, args, read_page)

    def inbox_begin(self, user_id: str, token: str, *, wait_ms: int, is_begun: bool = False) -> Call[int]:
        """1 warm already, 0 the rebuild is ours, -1 it is not: another node is at it, or ours (is_begun) was lost."""
        args = (token, wait_ms, self.ttl_s, int(is_begun))
        return self._indexed("inbox_begin", (self.keys.mark(user_id),), args, int)

    def inbox_place(
        self, user_id: str, token: str, unread_ids: Sequence[str], mention_ids: Sequence[str] = ()
    ) -> Call[bool]:
        """Put unread sets, and sets of mentions, in place before the index. False: the rebuild is lost, begin again."""
        unread, aside = self.keys.unread, self.aside
        pairs = [(unread(user_id, id_), aside(user_id, id_, token)) for id_ in unread_ids]
        mentions = [(unread(user_id, id_), aside(user_id, id_, token)) for id_ in mention_ids]
        pairs += [(mentions_of(key), mentions_of(built)) for key, built in mentions]
        keys = (self.keys.mark(user_id), *(key for pair in pairs for key in pair))
        return self._indexed("inbox_place", keys, (token, self.ttl_s), is_one)

    def inbox_install(self, user_id: str, token: str, sums: Sums) -> Call[bool]:
        """False: not installed, begin again."""
        inbox, mark = self.keys.inbox(user_id), self.keys.mark(user_id)
        return self._indexed(
            "inbox_install",
            (inbox, mark, f"{inbox}:{token}", f"{mark}:{token}"),
            (token, sums.size, sums.unread, sums.conversations, sums.more, self.cap, self.ttl_s),
            is_one,
        )

    def unread_state(self, user_id: str, conversation_id: str = "") -> Call[UnreadState | None]:
        """Without a conversation: the totals. None: the user is COLD."""
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        return self._indexed("unread_state", keys, (conversation_id, self.cap), read_unread_state)

    def unread_put(self, user_id: str, token: str, *, hold_ms: int, conversation_id: str = "") -> Call[int]:
        """Note that a change of the member's own state is about to be committed. hold_ms 0: the keyspace has followed
        it.

        Without a conversation, a note that stays makes all of the user cold.
        """
        args = (token, hold_ms, self.ttl_s, conversation_id)
        return self._indexed("unread_put", (self.keys.mark(user_id),), args, int)

    def unread_read(
        self,
        user_id: str,
        conversation_id: str,
        *,
        version: int,
        cursor: int,
        seen: int,
        ranges: Ranges,
        seqs: Sequence[int],
        token: str = "",
    ) -> Call[ReadAnswer]:
        """`token`: of the marker that this change removes, because the keyspace has followed it."""
        keys, packed = self._user_keys(user_id, conversation_id), pack_ranges(ranges)
        args: tuple[Arg, ...] = (conversation_id, version, cursor, seen, packed, self.cap, self.ttl_s, token)
        return self._indexed("unread_read", keys, (*args, *seqs), read_marked)

    def unread_chill(self, user_id: str, conversation_id: str, *, version: int) -> Call[Chilled]:
        """A mark of this version or a later one stays as it is."""
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        return self._indexed("unread_chill", keys, (conversation_id, self.cap, version), read_chilled)

    def unread_install(
        self,
        user_id: str,
        conversation_id: str,
        token: str,
        *,
        gen: str,
        mark: Mark,
        score_ms: int = 0,
        pinned_ms: int = 0,
    ) -> Call[bool]:
        """False: it changed meanwhile, read again."""
        keys = (*self._user_keys(user_id, conversation_id), self.aside(user_id, conversation_id, token))
        sizes = (mark.count, mark.mentions)
        args = (conversation_id, gen, mark.packed(), *sizes, pinned_ms, self.cap, self.ttl_s, score_ms)
        return self._indexed("unread_install", keys, args, is_one)

    def aside(self, user_id: str, conversation_id: str, token: str) -> str:
        """Where an unread set is built before it is installed. Its mentions are beside it, as in `mentions_of`."""
        return f"{self.keys.unread(user_id, conversation_id)}:{token}"

    def _numbered_keys(self, conversation_id: str, generation: int) -> tuple[str, str, str]:
        keys = self.keys
        return (
            keys.conv(conversation_id),
            keys.sent(conversation_id, generation),
            keys.sent(conversation_id, generation - 1),
        )

    def _indexed(self, name: str, keys: tuple[str, ...], args: tuple[Arg, ...], parse: Callable[[Any], R]) -> Call[R]:
        return _call(name, keys, args, parse, epoch_tag=self.epoch_tag)

    def _user_keys(self, user_id: str, conversation_id: str) -> tuple[str, str, str]:
        keys = self.keys
        return keys.inbox(user_id), keys.mark(user_id), keys.unread(user_id, conversation_id)
