"""One typed stub per Lua file: it builds the `Call`, and knows how to read the answer.

The stubs are the seam between the use cases and the keyspace: they say what is asked in Python's words, and a
simulation may stand in for them. A mark is packed as `[version,cursor,seen,count,first,floor,day,ranges]`; only `Mark`
and the Lua files know that. In the mark hash of a warm user each conversation of the inbox has one field: its mark
under its id, or `~id` with the number of its last change while it is COLD. While all of the user is COLD, `+id` notes
what changed. The user's own fields are '*' and those that begin with ':'. No conversation id can be any of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings.bounds import INDEX_TTL_S, SENT_GENERATION_S
from tidings.model import Ranges
from tidings.stores.calls import Arg, Call
from tidings.stores.keys import Keys
from tidings.stores.library import Library

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
    "inbox_install",
    "unread_state",
    "unread_put",
    "unread_read",
    "unread_chill",
    "unread_install",
)
_library = Library(NAMES)
_call = _library.call
SOURCES = _library.sources


class Admitted(msgspec.Struct, frozen=True, gc=False):
    admitted: int
    remaining: int
    retry_after_us: int
    reset_us: int


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """Numbers for a group. `known`: position -> (seq_no, at) of ids that had a number before."""

    members_seq: int
    first_seq: int
    first_at: int
    known: dict[int, tuple[int, int]]


class Indexed(msgspec.Struct, frozen=True, gc=False):
    """What a member sees after a batch. COLD: counts are None."""

    is_user_cold: bool
    is_cold: bool
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None
    leases: tuple[str, ...]


class Mark(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """The built marker of one conversation of one user."""

    version: int
    cursor: int
    seen: int  # nothing at or below counts: the cursor, or what was delivered where the policy says so
    count: int
    first: int  # the oldest unread, 0 = none or not known
    floor: int  # the highest seq that was trimmed off the set
    day: int = 0  # when its keys last got their time to live
    ranges: Ranges = ()

    @property
    def is_capped(self) -> bool:
        return self.floor > self.seen

    def shown(self, cap: int) -> int:
        return cap if self.floor > self.seen else self.count

    def packed(self) -> str:
        return _encode(self).decode()


_encode = msgspec.json.Encoder().encode
unpack_mark = msgspec.json.Decoder(Mark).decode


def pack_ranges(ranges: Ranges) -> str:
    return _encode(ranges).decode()


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One line of an inbox page. `mark` None: this conversation is COLD."""

    conversation_id: str
    score_ms: int
    mark: Mark | None


class Page(msgspec.Struct, frozen=True):
    left: int  # conversations that come after this page
    total_unread: int
    unread_conversations: int
    cold: int  # conversations without a mark: while there are any, the totals are not known
    listed: list[Listed]


class Look(msgspec.Struct, frozen=True, gc=False):
    """The totals, and one conversation. `total_unread` None: some conversation is COLD; `mark` None: this one is."""

    total_unread: int | None
    unread_conversations: int
    mark: Mark | None


class ReadAnswer(msgspec.Struct, frozen=True, gc=False):
    is_cold: bool
    unread_count: int
    unread_capped: bool
    total_unread: int | None
    first: int
    read_seq: int


class Chilled(msgspec.Struct, frozen=True, gc=False):
    """What unread_chill found: a mark that is good as it is, or COLD as of `gen`, or neither."""

    is_user_cold: bool
    mark: Mark | None
    gen: str | None  # None without a mark: the conversation is not in the inbox


class Scripts:
    """Builds calls under one tenant's keys, with this installation's cap and time to live."""

    def __init__(self, keys: Keys, *, unread_cap: int, unread_ttl_s: int) -> None:
        self.keys = keys
        self.cap = unread_cap
        self.ttl_s = unread_ttl_s

    def limiter_admit(
        self, user_id: str, class_name: str, *, window_us: int, limit: int, wanted: int, token: str
    ) -> Call[Admitted]:
        key = self.keys.rate(user_id, class_name)
        return _call("limiter_admit", (key,), (window_us, limit, wanted, token), _admitted, has_epoch=False)

    def conversation_number(
        self,
        conversation_id: str,
        ids: Sequence[str],
        *,
        node_id: str,
        open_from: int,
        is_member_change: bool,
        has_delete: bool = False,
        now_ms: int,
    ) -> Call[Numbered | None]:
        """None: the counter must be seeded first."""
        generation = now_ms // (SENT_GENERATION_S * 1000)
        keys = self.keys
        change = 1 if is_member_change else 2 if has_delete else 0
        return _call(
            "conversation_number",
            (
                keys.conv(conversation_id),
                keys.sent(conversation_id, generation),
                keys.sent(conversation_id, generation - 1),
            ),
            (node_id, open_from, change, generation, 2 * SENT_GENERATION_S, INDEX_TTL_S, *ids),
            _numbered,
        )

    def conversation_seed(self, conversation_id: str, *, seq: int, at: int, members_seq: int) -> Call[int]:
        return _call("conversation_seed", (self.keys.conv(conversation_id),), (seq, at, members_seq, INDEX_TTL_S), int)

    def sent_forget(
        self, conversation_id: str, notes: Iterable[tuple[str, int, tuple[int, int] | None]], *, now_ms: int
    ) -> Call[int]:
        """(id, the number noted for it, the (seq_no, sent_ms) it really has or None): answers how many were changed."""
        generation = now_ms // (SENT_GENERATION_S * 1000)
        keys = self.keys
        args: list[Arg] = []
        for id_, seq, row in notes:
            args += (id_, seq, f"{row[0]}:{row[1]}" if row else "")
        return _call(
            "sent_forget",
            (
                keys.conv(conversation_id),
                keys.sent(conversation_id, generation),
                keys.sent(conversation_id, generation - 1),
            ),
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
        """`added` is flat: seq, sent_ms, seq, sent_ms, … `now_ms` 0: leases are not wanted."""
        shared = self.inbox_index_args(conversation_id, score_ms=score_ms, added=added, removed=removed, now_ms=now_ms)
        return self.inbox_index_with(user_id, conversation_id, shared)

    def inbox_index_args(
        self, conversation_id: str, *, score_ms: int, added: Sequence[Arg], removed: Sequence[Arg], now_ms: int
    ) -> tuple[Arg, ...]:
        """What is the same for all members: as text, once, because it is packed for each of a thousand."""
        numbers = (score_ms, self.cap, self.ttl_s, now_ms, len(removed), *removed, *added)
        return (conversation_id, *(str(number) for number in numbers))

    def inbox_index_with(self, user_id: str, conversation_id: str, shared: tuple[Arg, ...]) -> Call[Indexed]:
        """`shared`: of inbox_index_args."""
        keys = self.keys
        return _call(
            "inbox_index",
            (
                keys.inbox(user_id),
                keys.mark(user_id),
                keys.unread(user_id, conversation_id),
                keys.ws(user_id),
            ),
            shared,
            _indexed,
        )

    def inbox_join(self, user_id: str, conversation_id: str, *, score_ms: int, version: int, cursor: int) -> Call[bool]:
        """Answers False when the user is COLD."""
        day = score_ms // 86_400_000
        args = (conversation_id, score_ms, version, cursor, day, self.cap, self.ttl_s)
        return _call("inbox_join", self._user_keys(user_id, conversation_id), args, lambda reply: bool(reply == 1))

    def inbox_leave(self, user_id: str, conversation_id: str, *, gen: str = "") -> Call[bool]:
        """With `gen`: only if the conversation is COLD and has not changed since."""
        args = (conversation_id, self.cap, self.ttl_s, gen)
        return _call("inbox_leave", self._user_keys(user_id, conversation_id), args, lambda reply: bool(reply == 1))

    def inbox_page(self, user_id: str, *, limit: int, after: tuple[int, str] | None) -> Call[Page | None]:
        """None: the user is COLD."""
        score_ms, after_id = after or (0, "")
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        return _call("inbox_page", keys, (limit, score_ms, after_id), _page)

    def inbox_begin(self, user_id: str, token: str, *, wait_ms: int, is_begun: bool = False) -> Call[int]:
        """1 warm already, 0 the rebuild is ours, -1 it is not: another node is at it, or ours (is_begun) was lost."""
        args = (token, wait_ms, self.ttl_s, int(is_begun))
        return _call("inbox_begin", (self.keys.mark(user_id),), args, int)

    def inbox_install(
        self, user_id: str, token: str, *, size: int, totals: tuple[int, int], unread_ids: Sequence[str]
    ) -> Call[bool]:
        """False: not installed, begin again."""
        keys = self.keys
        pairs = (name for id_ in unread_ids for name in (keys.unread(user_id, id_), self.aside(user_id, id_, token)))
        inbox, mark = keys.inbox(user_id), keys.mark(user_id)
        return _call(
            "inbox_install",
            (inbox, mark, f"{inbox}:{token}", f"{mark}:{token}", *pairs),
            (token, size, *totals, self.cap, self.ttl_s),
            lambda reply: bool(reply == 1),
        )

    def unread_state(self, user_id: str, conversation_id: str = "") -> Call[Look | None]:
        """Without a conversation: the totals. None: the user is COLD."""
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        return _call("unread_state", keys, (conversation_id,), _look)

    def unread_put(self, user_id: str, token: str, *, hold_ms: int) -> Call[int]:
        """A change of the member's own state is about to be committed. hold_ms 0: the keyspace has followed it."""
        return _call("unread_put", (self.keys.mark(user_id),), (token, hold_ms, self.ttl_s), int)

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
    ) -> Call[ReadAnswer]:
        keys = (self.keys.mark(user_id), self.keys.unread(user_id, conversation_id))
        head: tuple[Arg, ...] = (conversation_id, version, cursor, seen, pack_ranges(ranges), self.cap, self.ttl_s)
        return _call("unread_read", keys, (*head, *seqs), _read)

    def unread_chill(self, user_id: str, conversation_id: str, *, version: int) -> Call[Chilled]:
        """A mark of this version or a later one stays as it is."""
        keys = (self.keys.inbox(user_id), self.keys.mark(user_id))
        return _call("unread_chill", keys, (conversation_id, self.cap, version), _chilled)

    def unread_install(self, user_id: str, conversation_id: str, token: str, *, gen: str, mark: Mark) -> Call[bool]:
        """False: it changed meanwhile, read again."""
        keys = (
            self.keys.mark(user_id),
            self.keys.unread(user_id, conversation_id),
            self.aside(user_id, conversation_id, token),
        )
        args = (conversation_id, gen, mark.packed(), mark.count, mark.shown(self.cap), self.ttl_s)
        return _call("unread_install", keys, args, lambda reply: bool(reply == 1))

    def aside(self, user_id: str, conversation_id: str, token: str) -> str:
        """Where an unread set is built before it is installed."""
        return f"{self.keys.unread(user_id, conversation_id)}:{token}"

    def _user_keys(self, user_id: str, conversation_id: str) -> tuple[str, str, str]:
        keys = self.keys
        return keys.inbox(user_id), keys.mark(user_id), keys.unread(user_id, conversation_id)


def _known(total: int) -> int | None:
    return None if total < 0 else total


def _admitted(reply: list[int]) -> Admitted:
    return Admitted(*reply)


def _numbered(reply: list[int]) -> Numbered | None:
    if not reply:
        return None
    rest = reply[3:]
    known = {rest[i]: (rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)}
    return Numbered(reply[0], reply[1], reply[2], known)


def _indexed(reply: list[Any]) -> Indexed:
    state, shown, capped, total, leases = reply[:5]
    names = tuple(lease.decode() for lease in leases)
    if state != 1:
        return Indexed(state < 0, True, None, False, None, names)
    return Indexed(False, False, shown, capped == 1, _known(total), names)


def _page(reply: list[Any]) -> Page | None:
    if not reply:
        return None
    left, total, convs, cold = reply[:4]
    listed = [
        Listed(reply[i].decode(), int(float(reply[i + 1])), unpack_mark(reply[i + 2]) if reply[i + 2] else None)
        for i in range(4, len(reply), 3)
    ]
    return Page(left, total, convs, cold, listed)


def _look(reply: list[Any]) -> Look | None:
    if not reply:
        return None
    total, convs, cold, packed = reply
    return Look(None if cold else total, convs, unpack_mark(packed) if packed else None)


def _read(reply: list[int]) -> ReadAnswer:
    state, shown, capped, total, first, read_seq = reply
    return ReadAnswer(state != 1, shown, capped == 1, _known(total), first, read_seq)


def _chilled(reply: list[Any]) -> Chilled:
    state, value = reply
    return Chilled(state == -1, unpack_mark(value) if state == 1 else None, value.decode() if state == 0 else None)
