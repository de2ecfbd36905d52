"""Marks: the built marker of one conversation of one user, as the mark hash holds it, and the sums over marks.

A mark is packed as `[version,cursor,seen,count,first,floor,day,mentions,first_mention,flags,ranges]`; only this module
and the Lua files know that. The mark of a large conversation counts nothing: its counts come from its tally, and its
first_mention says when it became large.
"""

from __future__ import annotations

import msgspec

from tidings.model import ConversationKind, Ranges

KIND_CODES: dict[ConversationKind, int] = {"direct": 0, "group": 1, "channel": 2}
_QUIET, _MUTED, _ARCHIVED, _PINNED, _KIND, _LARGE, _BLOCKLESS = 1, 2, 4, 8, 16, 64, 128


class Flags(msgspec.Struct, frozen=True, gc=False):
    """The facts about a conversation that the index has beside its counts."""

    kind: ConversationKind = "direct"
    is_quiet: bool = False  # muted, and its unread are no part of the badge
    is_muted: bool = False
    is_archived: bool = False
    pinned_ms: int = 0  # 0: not pinned
    line_ms: int = 0  # when it became large; 0: it is not
    is_blockless: bool = False  # of a large one: the user has blocked nobody. False: ask the tables

    @property
    def packed(self) -> int:
        bits = self.is_quiet * _QUIET + self.is_muted * _MUTED + self.is_archived * _ARCHIVED
        bits += (self.pinned_ms > 0) * _PINNED + (self.line_ms > 0) * _LARGE + self.is_blockless * _BLOCKLESS
        return bits + KIND_CODES[self.kind] * _KIND


class Mark(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """The built marker of one conversation of one user."""

    version: int
    cursor: int
    seen: int  # nothing at or below counts: the cursor, or what was delivered where the policy says so
    count: int
    first: int  # the oldest unread, 0 = none or not known
    floor: int  # the highest seq that was trimmed off the set
    day: int = 0  # when its keys last got their time to live
    mentions: int = 0  # how many of the numbers in the set mention the user
    first_mention: int = 0  # the oldest of those, 0 = none
    flags: int = 0
    ranges: Ranges = ()

    @property
    def is_capped(self) -> bool:
        return self.floor > self.seen

    @property
    def is_muted(self) -> bool:
        return self.flags & _MUTED > 0

    @property
    def is_archived(self) -> bool:
        return self.flags & _ARCHIVED > 0

    @property
    def is_pinned(self) -> bool:
        return self.flags & _PINNED > 0

    @property
    def is_large(self) -> bool:
        return self.flags & _LARGE > 0

    @property
    def is_blockless(self) -> bool:
        return self.flags & _BLOCKLESS > 0

    @property
    def facts(self) -> int:
        """The flags that follow from the row: all but what only saves a read."""
        return self.flags & ~_BLOCKLESS

    @property
    def kind_code(self) -> int:
        return self.flags // _KIND % 4

    def shown(self, cap: int) -> int:
        return cap if self.floor > self.seen else self.count

    def packed(self) -> str:
        return _encode(self).decode()


class Sums(msgspec.Struct):
    """The sums over the marks of a user: the totals, and the sizes of inbox and filters."""

    size: int = 0  # conversations that are not archived
    unread: int = 0
    conversations: int = 0  # with something unread
    quiet: int = 0  # the unread of quiet conversations
    mentions: int = 0
    mentioned: int = 0  # conversations with an unread mention
    muted: int = 0
    archived: int = 0
    pinned: int = 0
    large: int = 0

    def add(self, mark: Mark, cap: int) -> None:
        shown, flags = mark.shown(cap), mark.flags
        if flags & _LARGE:
            self.large += 1
        elif flags & _ARCHIVED:
            self.archived += 1
        else:
            self.size += 1
        self.unread += shown
        self.conversations += shown > 0
        self.quiet += shown if flags & _QUIET else 0
        self.mentions += mark.mentions
        self.mentioned += mark.mentions > 0
        self.muted += flags & (_MUTED | _LARGE) == _MUTED
        self.pinned += flags & _PINNED > 0

    @property
    def loud(self) -> int:
        return self.unread - self.quiet

    @property
    def more(self) -> str:
        """The field `:more` of the mark hash."""
        sizes = (self.mentioned, self.muted, self.archived, self.pinned, self.large)
        return " ".join(map(str, (self.quiet, self.mentions, *sizes)))


_encode = msgspec.json.Encoder().encode
unpack_mark = msgspec.json.Decoder(Mark).decode


def pack_ranges(ranges: Ranges) -> str:
    return _encode(ranges).decode()
