"""The schema of the SQLite file, and the numbered steps that bring an older file to it.

schema.sql makes a new file in its newest form. Each later version is one step that turns a file of the version before
into its own; steps run in order, in one transaction under the write lock. The version is the row `schema_version` of
`meta`: every version of Tidings reads it there, and refuses a file that is newer than itself.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable

# The version that a step leads to -> its SQL. A step is never changed once it was released.
_STEPS = {
    # The cold tier. An older Tidings would show archived messages without their text.
    2: """
        CREATE TABLE IF NOT EXISTS archives (
          conversation_id TEXT NOT NULL PRIMARY KEY, archived_seq INTEGER NOT NULL, next_ms INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS rechecks (
          conversation_id TEXT NOT NULL, s3_ref TEXT NOT NULL, why TEXT NOT NULL, mark TEXT NOT NULL,
          since_ms INTEGER NOT NULL, PRIMARY KEY (conversation_id, s3_ref)
        ) STRICT, WITHOUT ROWID;
    """,
    # Devices, pending deliveries and rate overrides. Before, a node made these tables when it first opened the file.
    3: """
        CREATE TABLE IF NOT EXISTS devices (
          user_id TEXT NOT NULL, device_id TEXT NOT NULL, provider TEXT NOT NULL, token TEXT NOT NULL, p256dh TEXT,
          auth TEXT, registered_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL, PRIMARY KEY (user_id, device_id)
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX IF NOT EXISTS device_token ON devices (provider, token);
        CREATE TABLE IF NOT EXISTS pending_deliveries (
          user_id TEXT NOT NULL, conversation_id TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
          since_ms INTEGER NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (user_id, conversation_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS pending_expires ON pending_deliveries (expires);
        CREATE TABLE IF NOT EXISTS rate_overrides (
          scope TEXT NOT NULL, name TEXT NOT NULL, class_name TEXT NOT NULL, count INTEGER, window_s INTEGER NOT NULL,
          changed_ms INTEGER NOT NULL, PRIMARY KEY (scope, name, class_name)
        ) STRICT, WITHOUT ROWID;
    """,
    # Messages that carry more. The table is made anew, because the content must stay its last column.
    4: """
        ALTER TABLE messages RENAME TO messages_3;
        DROP INDEX sent;
        CREATE TABLE messages (
          conversation_id TEXT NOT NULL, seq_no INTEGER NOT NULL, kind TEXT NOT NULL, sent_ms INTEGER NOT NULL,
          sender_id TEXT, is_deleted INTEGER NOT NULL, message_id TEXT, receiver_id TEXT, timestamp INTEGER,
          digest BLOB, target_seq INTEGER, edited_ms INTEGER, edit_seq INTEGER, rev INTEGER NOT NULL, s3_ref TEXT,
          is_uncounted INTEGER NOT NULL, thread_seq INTEGER, mentions TEXT, content BLOB,
          PRIMARY KEY (conversation_id, seq_no)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO messages
          SELECT conversation_id, seq_no, kind, sent_ms, sender_id, is_deleted, message_id, receiver_id, timestamp,
                 digest, target_seq, edited_ms, edit_seq, rev, s3_ref, 0, NULL, NULL, content
          FROM messages_3;
        DROP TABLE messages_3;
        CREATE UNIQUE INDEX sent ON messages (conversation_id, sender_id, message_id) WHERE message_id IS NOT NULL;
    """,
    # Blocks, preferences, requests and invitations. An older Tidings would show a person who was blocked.
    5: """
        CREATE TABLE blocks (
          user_id TEXT NOT NULL, blocked_id TEXT NOT NULL, since_ms INTEGER NOT NULL, PRIMARY KEY (user_id, blocked_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX blocked ON blocks (blocked_id, user_id);
        CREATE TABLE preferences (user_id TEXT NOT NULL PRIMARY KEY, choices TEXT NOT NULL) STRICT, WITHOUT ROWID;
        ALTER TABLE members ADD COLUMN is_requested INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN hidden_seq INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN is_requested INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN is_invited INTEGER NOT NULL DEFAULT 0;
    """,
    # Inboxes in their order, and members who are present, by an index. Unread counts of rows may be unknown, and all
    # are unknown now: earlier versions left wrong ones.
    6: """
        ALTER TABLE conversations DROP COLUMN unread_count;
        ALTER TABLE conversations ADD COLUMN unread_count INTEGER;
        CREATE INDEX inbox_order ON conversations (user_id, max(last_message_ts, joined_ms, 1), conversation_id);
        CREATE INDEX present ON members (conversation_id, user_id) WHERE left_seq IS NULL;
    """,
    # The small tables of the features.
    7: """
        CREATE TABLE records (
          owner TEXT NOT NULL, collection TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, due_ms INTEGER,
          value BLOB NOT NULL, PRIMARY KEY (owner, collection, name)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX record_due ON records (collection, due_ms) WHERE due_ms IS NOT NULL;
    """,
    # Flags of a row that say since when, until when and how much.
    8: """
        ALTER TABLE conversations ADD COLUMN pinned_ms INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN archived_seq INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN muted_until INTEGER;
        ALTER TABLE conversations ADD COLUMN notify TEXT NOT NULL DEFAULT 'all';
        UPDATE conversations SET archived_seq = last_seq WHERE archived = 1;
        UPDATE conversations SET pinned_ms = 1 WHERE pinned = 1;
    """,
    # More about the last message than its preview, and the role of the member.
    9: """
        ALTER TABLE conversation_heads ADD COLUMN last_message TEXT;
        ALTER TABLE conversations ADD COLUMN last_message TEXT;
        ALTER TABLE conversations ADD COLUMN role TEXT;
        UPDATE conversations SET role = (
          SELECT role FROM members AS m
          WHERE m.conversation_id = conversations.conversation_id AND m.user_id = conversations.user_id);
    """,
    # Times of delivery and reading.
    10: """
        ALTER TABLE message_status ADD COLUMN delivered_ms INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE message_status ADD COLUMN read_ms INTEGER NOT NULL DEFAULT 0;
    """,
    # Times of earlier reads.
    11: "ALTER TABLE message_status ADD COLUMN read_before BLOB;",
    # Large conversations. An older Tidings would count nobody in them.
    12: "ALTER TABLE conversation_heads ADD COLUMN large_ms INTEGER NOT NULL DEFAULT 0",
}
SCHEMA_VERSION = max(_STEPS)


class Identity(NamedTuple):
    """Random names that are made once with the tables."""

    store_epoch: str  # changed only by a restore
    archive_id: str  # the folder of their objects in the cold tier
    secret: str  # the key of what nobody outside may compute


def create(connection: apsw.Connection, identity: Identity) -> None:
    connection.execute(files("tidings.stores.tables.sqlite.file").joinpath("schema.sql").read_text("utf-8"))
    meta = {"schema_version": str(SCHEMA_VERSION), **identity._asdict()}
    connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", list(meta.items()))


def bring_up_to_date(connection: apsw.Connection, name: str, clock: Clock) -> Identity:
    """Make the tables of an empty file, or run the steps that an older file lacks. Runs inside a transaction.

    Raises Unavailable for a file that is not ours or newer than this version, and changes nothing in it.
    """
    found = {table for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not found:
        create(connection, Identity(clock.random_id(), clock.random_id(6), clock.random_id(32)))
    elif "meta" not in found:
        raise Unavailable(f"{name} is an SQLite database, but not one of Tidings")
    version = int(_meta(connection)["schema_version"])
    if version > SCHEMA_VERSION:
        raise Unavailable(
            f"{name} has schema version {version}, this Tidings knows {SCHEMA_VERSION}: start the newer Tidings instead"
        )
    for number in range(version + 1, SCHEMA_VERSION + 1):
        connection.execute(_STEPS[number])
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(number),))
    add = "INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)"
    connection.executemany(add, [("archive_id", clock.random_id(6)), ("secret", clock.random_id(32))])
    meta = _meta(connection)
    return Identity(meta["store_epoch"], meta["archive_id"], meta["secret"])


def _meta(connection: apsw.Connection) -> dict[str, str]:
    return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}
