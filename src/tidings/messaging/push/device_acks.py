"""Device acknowledgements: for each device the highest seq that it has or was notified of, and its badge.

Push is decided by device, not by user: a laptop that has a message says nothing about the phone. All of this may be
lost: then a device is notified once more, under the same collapse id. The fields of `acks:{user}` are
`device:conversation` (has), `device:conversation:told` (was notified) and `device` (badge); ids have no colons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidings.bounds import ACKS_FIELDS_MAX, ACKS_TTL_S, PUSH_NOTES_MAX
from tidings.stores.keyspace.call import Arg, Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys


def has(device_id: str, conversation_id: str) -> str:
    return f"{device_id}:{conversation_id}"


def notified(device_id: str, conversation_id: str) -> str:
    return f"{device_id}:{conversation_id}:told"


class DeviceAcks:
    def __init__(self, keyspace: Keyspace, keys: Keys) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._late: dict[str, dict[str, int]] = {}  # user -> fields not yet written

    def note(self, user_id: str, device_id: str, acks: Mapping[str, int]) -> None:
        """Record that a device has these. Never blocks; the next flush writes it."""
        late = self._late.get(user_id)
        if late is None:
            if len(self._late) >= PUSH_NOTES_MAX:
                return
            late = self._late[user_id] = {}
        for conversation_id, seq_no in acks.items():
            field = has(device_id, conversation_id)
            late[field] = max(seq_no, late.get(field, 0))

    async def flush(self) -> None:
        """Write the waiting fields in one round trip. A client may name conversations that do not exist, so the record
        of a user with far too many fields is deleted."""
        late, self._late = self._late, {}
        keys = [self._keys.acks(user_id) for user_id in late]
        calls = [call for user_id, fields in late.items() for call in self.set_calls(user_id, fields)]
        if not calls:
            return
        sizes = (await self._keyspace.run([*calls, *(plain(key, b"HLEN", key) for key in keys)]))[len(calls) :]
        full = [key for key, size in zip(keys, sizes, strict=True) if size > ACKS_FIELDS_MAX]
        if full:
            await self._keyspace.run([plain(key, b"UNLINK", key) for key in full])

    def set_calls(self, user_id: str, fields: Mapping[str, int]) -> list[Call[object]]:
        if not fields:
            return []
        key = self._keys.acks(user_id)
        words: tuple[Arg, ...] = tuple(part for pair in fields.items() for part in pair)
        return [plain(key, b"HSET", key, *words), plain(key, b"EXPIRE", key, ACKS_TTL_S)]

    async def seqs(
        self, wanted: Sequence[tuple[str, Sequence[str]]], conversation_id: str, place: str = ""
    ) -> list[list[int]]:
        """For each (user, devices): the seq up to which each device has the conversation or was notified of the place.

        The place is the conversation itself, or one of its threads."""
        asked = [
            (
                user_id,
                [
                    field
                    for id_ in device_ids
                    for field in (has(id_, conversation_id), notified(id_, place or conversation_id))
                ],
            )
            for user_id, device_ids in wanted
        ]
        return [[max(found[i], found[i + 1]) for i in range(0, len(found), 2)] for found in await self._get(asked)]

    async def badges(self, user_id: str, device_ids: Sequence[str]) -> list[int]:
        """The last badge that was sent to each device; -1: none is known."""
        key = self._keys.acks(user_id)
        found = await self._keyspace.one(plain(key, b"HMGET", key, *device_ids))
        return [-1 if value is None else int(value) for value in found]

    async def _get(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[int]]:
        keys = [self._keys.acks(user_id) for user_id, _ in asked]
        calls = [plain(key, b"HMGET", key, *fields) for key, (_, fields) in zip(keys, asked, strict=True)]
        replies = await self._keyspace.run(calls)
        return [[int(value or 0) for value in reply] for reply in replies]
