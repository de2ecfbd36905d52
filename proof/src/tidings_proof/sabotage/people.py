"""Mistakes towards people: told late, in the wrong order, not at all, or the wrong ones. See plants.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from tidings.errors import NotFound
from tidings.messaging.access import Access, Admitted, MemberList
from tidings.messaging.deliver.fan_out import FanOut
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.reading.resume import Resume
from tidings.messaging.send import members
from tidings.messaging.send.lanes import Sends
from tidings.model import Entry, Member
from tidings.routing.registry import Registry
from tidings.stores.keyspace.call import plain as command
from tidings_proof.sabotage.seams import replace

_FILES = 20  # opened per send, and kept
_kept: list[TextIO] = []


def resume_skips_one() -> None:
    plain = Resume._write

    async def write(
        self: Any, connection: Any, member_list: MemberList, after: int, page: list[Entry], *rest: Any
    ) -> int:
        return await plain(self, connection, member_list, after, page[1:] if len(page) > 1 else page, *rest)

    replace(Resume, "_write", write)


def newest_first() -> None:
    plain = FanOut.push

    def push(self: Any, member_list: MemberList, ready: Sequence[Any]) -> None:
        plain(self, member_list, list(reversed(ready)))

    replace(FanOut, "push", push)


def registry_by_user() -> None:
    def release(self: Any, connection: Any) -> None:
        ws = self._keys.ws(connection.user_id)
        self._later([command(ws, b"DEL", ws)])

    replace(Registry, "release", release)


def open_door() -> None:
    plain = Access.authorize_beside

    async def authorize_beside(self: Any, user_id: str, conversation_id: str, action: Any, *beside: Any) -> Admitted:
        try:
            return await plain(self, user_id, conversation_id, action, *beside)
        except NotFound:
            member_list = await self.load(conversation_id)
            if action != "read" or member_list is None:
                raise
            stranger = Member(conversation_id=conversation_id, user_id=user_id)
            return Admitted(_with(member_list, {user_id: stranger}), 0, None)

    replace(Access, "authorize_beside", authorize_beside)


def anybody_sends() -> None:
    replace(members, "_check_senders", lambda group: [])


def members_for_ever() -> None:
    plain = Access.load

    async def load(self: Any, conversation_id: str) -> MemberList | None:
        before = self.cached(conversation_id)
        member_list = await plain(self, conversation_id)
        if member_list is None or before is None:
            return member_list
        kept = _with(member_list, {id_: one for id_, one in before.members.items() if id_ not in member_list.members})
        self._member_lists[conversation_id] = kept
        return kept

    replace(Access, "load", load)


def _with(member_list: MemberList, members: dict[str, Member]) -> MemberList:
    return msgspec.structs.replace(member_list, members={**member_list.members, **members})


def ticks_by_themselves() -> None:
    plain = Receipts.delivered

    def delivered(self: Any, user_id: str, acks: dict[str, int], tell: Any = None) -> None:
        plain(self, user_id, {id_: seq_no + 1_000 for id_, seq_no in acks.items()}, tell)

    replace(Receipts, "delivered", delivered)


def files_leak() -> None:
    plain = Sends.submit

    def submit(self: Any, draft: Any) -> None:
        _kept.extend(open(os.devnull) for _ in range(_FILES))  # noqa: SIM115
        plain(self, draft)

    replace(Sends, "submit", submit)
