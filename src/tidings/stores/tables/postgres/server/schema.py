"""The schema of the PostgreSQL tables, and the numbered steps that bring an older one to it.

schema.sql makes a new schema in its newest form. Each later version is one step that turns a schema of the version
before into its own; steps run in order, in one transaction under an advisory lock, so that nodes that start together
make the tables once. The version is the row `schema_version` of `meta`, as in every adapter.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

from tidings.clock import Clock
from tidings.errors import Unavailable

PARTITIONS = 16  # of messages, by a hash of the conversation: smaller indexes, and vacuum in parts
# The version that a step leads to -> its SQL. A step is never changed once it was released.
_STEPS = {
    # The small tables of the features.
    2: """
        CREATE TABLE @records (
          owner text COLLATE "C" NOT NULL, collection text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
          version bigint NOT NULL, due_ms bigint, value bytea NOT NULL, PRIMARY KEY (owner, collection, name)
        );
        CREATE INDEX record_due ON @records (collection, due_ms) WHERE due_ms IS NOT NULL;
    """,
    # Flags of a row that say since when, until when and how much.
    3: """
        ALTER TABLE @conversations
          ADD COLUMN pinned_ms bigint NOT NULL DEFAULT 0, ADD COLUMN archived_seq bigint NOT NULL DEFAULT 0,
          ADD COLUMN muted_until bigint, ADD COLUMN notify text NOT NULL DEFAULT 'all';
        UPDATE @conversations SET archived_seq = last_seq WHERE archived;
        UPDATE @conversations SET pinned_ms = 1 WHERE pinned;
    """,
    # The words of messages, for search.
    4: """
        CREATE TABLE @search_cursors (conversation_id text COLLATE "C" NOT NULL PRIMARY KEY, up_to bigint NOT NULL);
        CREATE TABLE @search (
          conversation_id text COLLATE "C" NOT NULL, seq_no bigint NOT NULL, mark bigint NOT NULL,
          sender_id text NOT NULL, has_file boolean NOT NULL, has_link boolean NOT NULL, words tsvector NOT NULL,
          PRIMARY KEY (conversation_id, seq_no)
        );
        CREATE INDEX search_words ON @search USING gin (words);
        CREATE INDEX search_marks ON @search (conversation_id, mark);
    """,
    # More about the last message than its preview, and the role of the member.
    5: """
        ALTER TABLE @conversation_heads ADD COLUMN last_message text;
        ALTER TABLE @conversations ADD COLUMN last_message text, ADD COLUMN role text;
        UPDATE @conversations AS c SET role = m.role FROM @members AS m
        WHERE m.conversation_id = c.conversation_id AND m.user_id = c.user_id;
    """,
    # Times of delivery and reading.
    6: """
        ALTER TABLE @message_status
          ADD COLUMN delivered_ms bigint NOT NULL DEFAULT 0, ADD COLUMN read_ms bigint NOT NULL DEFAULT 0;
    """,
    # Times of earlier reads.
    7: "ALTER TABLE @message_status ADD COLUMN read_before bytea;",
    # Large conversations. An older Tidings would count nobody in them.
    8: "ALTER TABLE @conversation_heads ADD COLUMN large_ms bigint NOT NULL DEFAULT 0;",
}
SCHEMA_VERSION = max(_STEPS, default=1)
_LOCK = "SELECT pg_advisory_xact_lock(hashtext($1))"
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = $1"


class Identity(NamedTuple):
    """Random names that are made once with the tables."""

    store_epoch: str  # changed only by a restore
    archive_id: str  # the folder of their objects in the cold tier
    secret: str  # the key of what nobody outside may compute


async def bring_up_to_date(link: Any, schema: str, name: str, clock: Clock) -> Identity:
    """Make the tables of an empty schema, or run the steps that an older one lacks. Runs inside a transaction.

    Raises Unavailable for a schema that is not ours or newer than this version, and changes nothing in it.
    """
    await link.execute(_LOCK, f"tidings {schema}")
    found = {row[0] for row in await link.fetch(_TABLES, schema)}
    if not found:
        await _create(link, schema, Identity(clock.random_id(), clock.random_id(6), clock.random_id(32)))
    elif "meta" not in found:
        raise Unavailable(
            f"the schema {schema!r} of {name} holds tables, but not those of Tidings: name another schema"
        )
    meta = await read_meta(link, schema)
    version = int(meta["schema_version"])
    if version > SCHEMA_VERSION:
        raise Unavailable(
            f"{name} has schema version {version}, this Tidings knows {SCHEMA_VERSION}: start the newer Tidings instead"
        )
    for number in range(version + 1, SCHEMA_VERSION + 1):
        await link.execute(_in(schema, _STEPS[number]))
        await link.execute(_in(schema, "UPDATE @meta SET value = $1 WHERE key = 'schema_version'"), str(number))
    return Identity(meta["store_epoch"], meta["archive_id"], meta["secret"])


async def read_meta(link: Any, schema: str) -> dict[str, str]:
    return {row[0]: row[1] for row in await link.fetch(_in(schema, "SELECT key, value FROM @meta"))}


async def _create(link: Any, schema: str, identity: Identity) -> None:
    await link.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    text = files("tidings.stores.tables.postgres.server").joinpath("schema.sql").read_text("utf-8")
    await link.execute(_in(schema, "\n".join(line for line in text.splitlines() if not line.startswith("--"))))
    for number in range(PARTITIONS):
        part = f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        await link.execute(_in(schema, f"CREATE TABLE @messages_{number} PARTITION OF @messages {part}"))
    meta = {"schema_version": str(SCHEMA_VERSION), **identity._asdict()}
    await link.executemany(_in(schema, "INSERT INTO @meta (key, value) VALUES ($1, $2)"), list(meta.items()))


def _in(schema: str, sql: str) -> str:
    return sql.replace("@", f'"{schema}".')
