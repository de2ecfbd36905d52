"""The tables in one schema of a PostgreSQL database: the adapter for several hosts without a cloud.

A write that was answered is committed with synchronous_commit on; the first open refuses a database where it is off.
Each port is a module of this folder; database.py has the connections, schema.py the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.findings import Finding
from tidings.stores.tables.open import Adapter
from tidings.stores.tables.ports import NO_COUNTS, Counts, Tables
from tidings.stores.tables.postgres.accounts import PostgresAccounts
from tidings.stores.tables.postgres.archive import PostgresArchive
from tidings.stores.tables.postgres.conversations import PostgresConversations
from tidings.stores.tables.postgres.devices import PostgresDevices
from tidings.stores.tables.postgres.inboxes import PostgresInboxes
from tidings.stores.tables.postgres.log import PostgresLog
from tidings.stores.tables.postgres.overrides import PostgresOverrides
from tidings.stores.tables.postgres.pending import PostgresPending
from tidings.stores.tables.postgres.people import PostgresPeople
from tidings.stores.tables.postgres.records import PostgresRecords
from tidings.stores.tables.postgres.search import PostgresSearch
from tidings.stores.tables.postgres.server import schema
from tidings.stores.tables.postgres.server.database import COMMAND_S, Database, Link
from tidings.stores.tables.postgres.server.examination import check_database
from tidings.stores.tables.postgres.statuses import PostgresStatuses
from tidings.stores.tables.postgres.whole import PostgresWhole

SCHEMA = "tidings"  # unless the URL names another one
LINKS = 10  # connections of a node, unless the URL names another number
_OURS = ("schema", "links", "prepared")  # parameters of the URL that are not the database's
_SYNCHRONOUS = "SELECT current_setting('synchronous_commit')"
# Each statement is planned once and goes by its index. Otherwise PostgreSQL plans every statement over the partitions
# of `messages` again, which costs more than to run it. A plan of a small table must not read all of it when it has
# grown.
_PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}


class Place:
    """The parts of a URL: what the database is told, and what is for us."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self.schema = query.get("schema", SCHEMA)
        self.links = int(query.get("links", LINKS))
        self.is_prepared = query.get("prepared", "on") == "on"
        self.takes_settings = True  # False: a pooler that refuses settings at the start of a connection
        rest = urlencode({name: value for name, value in query.items() if name not in _OURS})
        self.dsn = urlunsplit(parts._replace(query=rest))
        user, _, host = parts.netloc.rpartition("@")
        self.name = f"postgresql://{user.partition(':')[0]}{'@' if user else ''}{host}{parts.path}?schema={self.schema}"

    @property
    def options(self) -> dict[str, Any]:
        """A pooler in transaction mode before version 1.21 keeps no prepared statements: `prepared=off`."""
        cached = {} if self.is_prepared else {"statement_cache_size": 0}
        plans = {"server_settings": _PLANS} if self.takes_settings else {}
        return {"dsn": self.dsn, "timeout": COMMAND_S, "command_timeout": COMMAND_S, **cached, **plans}


def name(url: str) -> str:
    return Place(url).name


def folder(url: str) -> Path | None:
    return None


def exists(url: str) -> bool:
    return True  # it cannot be known without asking the database


async def open(url: str, counts: Counts, clock: Clock) -> Tables:
    place = Place(url)
    identity = await _prepare(place, clock)
    pool = await asyncpg.create_pool(**place.options, min_size=1, max_size=place.links, connection_class=Link)
    database = Database(pool, place.schema, counts)

    async def ping() -> None:
        await database.rows("meta", "SELECT 1 FROM @meta LIMIT 1")

    return Tables(
        log=PostgresLog(database),
        conversations=PostgresConversations(database),
        inboxes=PostgresInboxes(database),
        statuses=PostgresStatuses(database),
        accounts=PostgresAccounts(identity, database),
        devices=PostgresDevices(database),
        pending=PostgresPending(database),
        overrides=PostgresOverrides(clock, database),
        people=PostgresPeople(database),
        records=PostgresRecords(database),
        archive=PostgresArchive(identity.archive_id, database),
        whole=PostgresWhole(database),
        search=PostgresSearch(database),
        ping=ping,
        close=database.close,
    )


async def _prepare(place: Place, clock: Clock) -> schema.Identity:
    """Make or upgrade the tables. Raises Unavailable in one line when they cannot be used."""
    link = await _connect(place)
    try:
        if await link.fetchval(_SYNCHRONOUS) == "off":
            raise Unavailable(
                f"{place.name} has synchronous_commit off, so it may lose acknowledged messages; turn it on"
            )
        async with link.transaction():
            return await schema.bring_up_to_date(link, place.schema, place.name, clock)
    except asyncpg.PostgresError as error:
        raise Unavailable(f"cannot prepare {place.name}: {error}") from error
    finally:
        await link.close()


async def _connect(place: Place) -> Any:
    try:
        try:
            return await asyncpg.connect(**place.options)
        except asyncpg.ProtocolViolationError:  # from here on it goes without them
            place.takes_settings = False
            return await asyncpg.connect(**place.options)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Unavailable(f"cannot connect to {place.name}: {str(error) or type(error).__name__}") from error


async def create(url: str, clock: Clock) -> list[str]:
    is_new = bool(await check(url, clock))
    await _prepare(Place(url), clock)
    return [name(url)] if is_new else []


async def check(url: str, clock: Clock) -> list[str]:
    place = Place(url)
    link = await _connect(place)
    try:
        found = await link.fetchval("SELECT to_regclass($1)", f'"{place.schema}".meta')
        if found is None:
            return [f"{place.name}: missing"]
        version = int((await schema.read_meta(link, place.schema))["schema_version"])
        says = f"{place.name}: schema version {version}, this Tidings needs {schema.SCHEMA_VERSION}"
        return [] if version == schema.SCHEMA_VERSION else [says]
    finally:
        await link.close()


async def renew_epoch(url: str, clock: Clock) -> str:
    tables_epoch = clock.random_id()
    tables = await open(url, NO_COUNTS, clock)
    await tables.close()
    place = Place(url)
    link = await _connect(place)
    try:
        await link.execute(f"UPDATE \"{place.schema}\".meta SET value = $1 WHERE key = 'store_epoch'", tables_epoch)
    finally:
        await link.close()
    return tables_epoch


def back_up(url: str, to: Path) -> int:
    raise ValueError(f"PostgreSQL makes its own copies: pg_dump -n {Place(url).schema} -Fc, or pg_basebackup")


async def examine(url: str, clock: Clock) -> list[Finding]:
    place = Place(url)
    return [finding async for finding in check_database(place.options, place.schema, place.name, clock)]


if TYPE_CHECKING:
    from tidings.stores.tables.postgres import adapter

    _CHECKED: Adapter = adapter
