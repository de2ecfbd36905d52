"""Mistakes of the index: counted twice or not at all, moved back, believed after its life was over. See plants.py."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.messaging import unread
from tidings.messaging.indexing import Indexing
from tidings.messaging.repair import Repair
from tidings.model import Status
from tidings.stores import keyspace_link
from tidings.torture.plants_log import rewrite_lua


def inbox_without_gt() -> None:
    rewrite_lua("inbox_index", ("redis.call('ZADD', inbox, 'GT', score, id)", "redis.call('ZADD', inbox, score, id)"))


def unread_by_adding() -> None:
    rewrite_lua(
        "inbox_index",
        (
            "added = redis.call('ZADD', unread, unpack(add))",
            "redis.call('ZADD', unread, unpack(add)); added = #add / 2",
        ),
        ("local n = redis.call('ZCARD', unread)", "local n = count + added - removed"),
    )


def half_the_members() -> None:
    plain = Indexing._calls

    def calls(self: Any, roster: Any, entries: Any) -> Any:
        made = plain(self, roster, entries)
        return made[: max(1, len(made) // 2)]

    seam: Any = Indexing
    seam._calls = calls


def old_life_believed() -> None:
    seam: Any = keyspace_link
    plain = keyspace_link.read_facts

    def read_facts(*sections: bytes) -> keyspace_link.Facts:
        return msgspec.structs.replace(plain(*sections), epoch="always-the-same")

    seam.read_facts = read_facts


def work_never_cleared() -> None:
    async def clear_finished(self: Any, older_than_s: float = 0.0) -> None:
        return None

    seam: Any = Repair
    seam.clear_finished = clear_finished


def cursor_goes_back() -> None:
    def read_up_to(status: Status, seq_no: int) -> Status:
        return msgspec.structs.replace(status, cursor_seq=seq_no, ranges=())

    seam: Any = unread
    seam.read_up_to = read_up_to
