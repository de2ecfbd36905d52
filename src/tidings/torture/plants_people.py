"""Mistakes towards people: told late, in the wrong order, not at all, or the wrong ones. See plants.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from tidings.errors import NotFound
from tidings.messaging.access import Access, Admitted, Roster
from tidings.messaging.deliver import Deliver
from tidings.messaging.receipts import Receipts
from tidings.messaging.resume import Resume
from tidings.messaging.send import Sends
from tidings.model import Entry, Member
from tidings.routing.registry import Registry
from tidings.stores.calls import plain as command

_FILES = 20  # opened per send, and kept
_kept: list[TextIO] = []


def resume_skips_one() -> None:
    plain = Resume._write

    async def write(self: Any, outbound: Any, roster: Roster, after: int, page: list[Entry], turn: Any) -> int:
        return await plain(self, outbound, roster, after, page[1:] if len(page) > 1 else page, turn)

    seam: Any = Resume
    seam._write = write


def newest_first() -> None:
    plain = Deliver._push

    def push(self: Any, roster: Roster, ready: Sequence[Any]) -> None:
        plain(self, roster, list(reversed(ready)))

    seam: Any = Deliver
    seam._push = push


def registry_by_user() -> None:
    def release(self: Any, outbound: Any) -> None:
        ws = self._keys.ws(outbound.user_id)
        self._later([command(ws, b"DEL", ws)])

    seam: Any = Registry
    seam.release = release


def open_door() -> None:
    plain = Access.authorize_beside

    async def authorize_beside(self: Any, user_id: str, conversation_id: str, action: Any, *beside: Any) -> Admitted:
        try:
            return await plain(self, user_id, conversation_id, action, *beside)
        except NotFound:
            roster = await self.load(conversation_id)
            if action != "read" or roster is None:
                raise
            stranger = Member(conversation_id=conversation_id, user_id=user_id)
            return Admitted(_with(roster, {user_id: stranger}), 0, None)

    seam: Any = Access
    seam.authorize_beside = authorize_beside


def members_for_ever() -> None:
    plain = Access.load

    async def load(self: Any, conversation_id: str) -> Roster | None:
        before = self.cached(conversation_id)
        roster = await plain(self, conversation_id)
        if roster is None or before is None:
            return roster
        kept = _with(roster, {id_: one for id_, one in before.members.items() if id_ not in roster.members})
        self._rosters[conversation_id] = kept
        return kept

    seam: Any = Access
    seam.load = load


def _with(roster: Roster, members: dict[str, Member]) -> Roster:
    return msgspec.structs.replace(roster, members={**roster.members, **members})


def ticks_by_themselves() -> None:
    plain = Receipts.delivered

    def delivered(self: Any, user_id: str, acks: dict[str, int], origin: str) -> None:
        plain(self, user_id, {id_: seq_no + 1_000 for id_, seq_no in acks.items()}, origin)

    seam: Any = Receipts
    seam.delivered = delivered


def files_leak() -> None:
    plain = Sends.submit

    def submit(self: Any, draft: Any) -> None:
        _kept.extend(open(os.devnull) for _ in range(_FILES))  # noqa: SIM115
        plain(self, draft)

    seam: Any = Sends
    seam.submit = submit
