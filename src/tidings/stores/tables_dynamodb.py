"""The tables in DynamoDB: the adapter of stores/ports.py for any number of hosts.

What one row or one group promises is kept by conditions and transactions, never by a lock; reads are consistent. Work
that was not answered in time is `Unavailable` and ambiguous, what was throttled was not done. The parts:
dynamodb_append (the log), dynamodb_log (its reads), dynamodb_conversations, dynamodb_inboxes, dynamodb_statuses, on
dynamodb_calls and dynamodb_wire. Built by wiring.py through `open_dynamodb`; `create_tables` and `check_tables` are
for the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.clock import Clock
from tidings.model import ApiKey, Entry, Head, Member, Row, Status, User
from tidings.stores import (
    dynamodb_append,
    dynamodb_conversations,
    dynamodb_inboxes,
    dynamodb_known,
    dynamodb_log,
    dynamodb_schema,
    dynamodb_statuses,
)
from tidings.stores.dynamodb_calls import Count, Store
from tidings.stores.dynamodb_items import attributes
from tidings.stores.dynamodb_wire import CountUnits, Wire, open_wire, place_of
from tidings.stores.ports import Group, Refused, Top, Touch


async def open_dynamodb(
    url: str, *, count_read: Count, count_write: Count, count_units: CountUnits, clock: Clock
) -> DynamoTables:
    """dynamodb://region?prefix=tidings_&endpoint=http://host:port&dedupe=cheap. A bad URL is a ValueError.

    Raises Unavailable in one line when the tables cannot be used. `count_read(table, rows)`, `count_write(table, rows)`
    and `count_units("read" or "write", units)` are called on the event loop.
    """
    place = place_of(url)
    wire = open_wire(place, clock, count_units)
    store = Store(wire, place, count_read=count_read, count_write=count_write)
    try:
        epoch = await dynamodb_statuses.store_epoch(store, clock)
    except BaseException:
        wire.close()
        raise
    return DynamoTables(epoch, wire=wire, store=store, is_cheap=place.is_cheap)


async def create_tables(url: str, clock: Clock | None = None) -> list[str]:
    """Makes the tables that are missing, and answers their names."""
    return await dynamodb_schema.create(place_of(url), clock or Clock())


async def check_tables(url: str, clock: Clock | None = None) -> list[str]:
    """What differs from what the tables should be, in one line each."""
    return await dynamodb_schema.check(place_of(url), clock or Clock())


async def renew_epoch(url: str, clock: Clock) -> str:
    """Another epoch for tables that were put back from a copy."""
    tables = await open_dynamodb(
        url, count_read=lambda *_: None, count_write=lambda *_: None, count_units=lambda *_: None, clock=clock
    )
    try:
        return await dynamodb_statuses.renew_epoch(tables.store, clock)
    finally:
        await tables.close()


class DynamoTables:
    """All ports over one prefix. Each method's promises are written in ports.py."""

    def __init__(self, epoch: str, *, wire: Wire, store: Store, is_cheap: bool) -> None:
        self.store = store  # for the ports of ports_push.py, on the same connections: dynamodb_devices.py
        self._store = store
        self._epoch = epoch
        self._wire = wire
        self._is_cheap = is_cheap

    # --- messages ---------------------------------------------------------------------------------
    async def append(self, groups: Sequence[Group]) -> list[Refused | None]:
        return await dynamodb_append.append(self._store, groups, is_cheap=self._is_cheap)

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        await dynamodb_known.catch_up(self._store, conversation_id, entries)

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        return await dynamodb_log.page(
            self._store, conversation_id, after=after, before=before, limit=limit, newest_first=newest_first
        )

    async def top(self, conversation_id: str) -> Top:
        return await dynamodb_log.top(self._store, conversation_id)

    async def unread(self, conversation_id: str, user_id: str, *, after: int, limit: int) -> list[tuple[int, int]]:
        return await dynamodb_log.unread(self._store, conversation_id, user_id, after=after, limit=limit)

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        return await dynamodb_log.seq_at(self._store, conversation_id, sent_ms)

    # --- conversations ----------------------------------------------------------------------------
    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        return await dynamodb_conversations.create(self._store, head, members, rows)

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]:
        return await dynamodb_conversations.heads(self._store, conversation_ids)

    async def members(self, conversation_id: str) -> list[Member]:
        return await dynamodb_conversations.members(self._store, conversation_id)

    async def rename(self, conversation_id: str, *, name: str | None, avatar_url: str | None) -> None:
        await dynamodb_conversations.rename(self._store, conversation_id, name=name, avatar_url=avatar_url)

    async def delete(self, conversation_id: str) -> None:
        await dynamodb_conversations.delete(self._store, conversation_id)

    # --- inboxes ----------------------------------------------------------------------------------
    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        return await dynamodb_inboxes.rows(self._store, user_id, conversation_ids)

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        return await dynamodb_inboxes.scan(self._store, user_id, after_id=after_id, limit=limit)

    async def touch(self, touches: Sequence[Touch]) -> None:
        await dynamodb_inboxes.touch(self._store, touches)

    async def flag(
        self, user_id: str, conversation_id: str, *, muted: bool | None, pinned: bool | None, archived: bool | None
    ) -> Row:
        return await dynamodb_inboxes.flag(
            self._store, user_id, conversation_id, muted=muted, pinned=pinned, archived=archived
        )

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        await dynamodb_inboxes.label(self._store, rows, name=name, avatar_url=avatar_url)

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        return await dynamodb_inboxes.users(self._store, after_id=after_id, limit=limit)

    # --- statuses ---------------------------------------------------------------------------------
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        return await dynamodb_statuses.get(self._store, user_id, conversation_ids)

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return await dynamodb_statuses.of_conversation(self._store, conversation_id)

    async def put(self, status: Status) -> Status:
        return await dynamodb_statuses.put_status(self._store, status)

    async def deliver(self, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
        return await dynamodb_statuses.deliver(self._store, marks)

    # --- accounts ---------------------------------------------------------------------------------
    async def user(self, user_id: str) -> User | None:
        return await dynamodb_statuses.user(self._store, user_id)

    async def put_user(self, user: User) -> None:
        await dynamodb_statuses.put_user(self._store, user)

    async def api_key(self, key_hash: str) -> ApiKey | None:
        return await dynamodb_statuses.api_key(self._store, key_hash)

    async def put_api_key(self, key: ApiKey) -> None:
        await dynamodb_statuses.put_api_key(self._store, key)

    async def api_keys(self) -> list[ApiKey]:
        return await dynamodb_statuses.api_keys(self._store)

    async def remove_api_key(self, key_hash: str) -> bool:
        return await dynamodb_statuses.remove_api_key(self._store, key_hash)

    async def store_epoch(self) -> str:
        return self._epoch

    # --- the whole --------------------------------------------------------------------------------
    async def ping(self) -> None:
        await self._store.get("meta", attributes(key="store_epoch"))

    async def close(self) -> None:
        """What is under way ends with Unavailable at its next try."""
        self._wire.close()
