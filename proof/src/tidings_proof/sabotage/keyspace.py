"""Mistakes of the index: counted twice or not at all, moved back, believed after its life was over. See plants.py."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from tidings.messaging.send import index
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.unread import unread
from tidings.model import Status
from tidings.stores.keyspace import link as keyspace_link
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings_proof.sabotage.log import rewrite_lua
from tidings_proof.sabotage.seams import replace

# The line that moves a plain conversation; the others are for flags, filters and conversations without a mark.
MOVES = "  if redis.call('ZADD', inbox, 'GT', score, id) == 1 then\n"
COUNTS = "  local n = redis.call('ZCARD', unread)\n"


def inbox_without_gt() -> None:
    rewrite_lua("inbox_index", (MOVES, MOVES.replace(" 'GT',", "")))


def unread_by_adding() -> None:
    rewrite_lua(
        "inbox_index",
        (
            "added = redis.call('ZADD', unread, unpack(add))",
            "redis.call('ZADD', unread, unpack(add)); added = #add / 2",
        ),
        (COUNTS, "  local n = count + added - removed\n"),
    )


def half_the_members() -> None:
    plain = index.sliced

    def sliced(members: Mapping[str, str], size: int) -> Any:
        some = islice(members.items(), max(1, len(members) // 2))
        return plain(dict(some), size)

    replace(index, "sliced", sliced)


def old_life_believed() -> None:
    plain = keyspace_link.read_facts

    def read_facts(*sections: bytes) -> keyspace_link.Facts:
        return msgspec.structs.replace(plain(*sections), epoch="always-the-same")

    replace(keyspace_link, "read_facts", read_facts)


def settings_forgotten() -> None:
    """A mark does not say under which cap and policy it was made."""
    plain = Scripts.__init__

    def init(self: Any, keys: Any, **settings: Any) -> None:
        plain(self, keys, **settings)
        self.epoch_tag = ""

    replace(Scripts, "__init__", init)


def work_never_cleared() -> None:
    async def clear_closed(self: Any, older_than_s: float = 0.0) -> None:
        return None

    replace(OpenWork, "clear_closed", clear_closed)


def cursor_goes_back() -> None:
    def read_up_to(status: Status, seq_no: int) -> Status:
        return msgspec.structs.replace(status, cursor_seq=seq_no, ranges=())

    replace(unread, "read_up_to", read_up_to)
