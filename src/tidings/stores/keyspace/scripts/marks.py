"""Marks: the built marker of one conversation of one user, as the mark hash holds it.

A mark is packed as `[version,cursor,seen,count,first,floor,day,ranges]`; only this module and the Lua files know that.
"""

from __future__ import annotations

import msgspec

from tidings.model import Ranges


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
