"""The steps from an older file to the newest schema: the same tables as in a new file, and every row still there."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.contracts import START_MS, group, log, message
from tidings.clock import Clock
from tidings.model import Head
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.sqlite import adapter
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.schema import SCHEMA_VERSION
from tidings.stores.tables.values import Device, Override

# The file as version 1 made it, column for column. Version 2 added the cold tier.
VERSION_1 = """
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE conversation_heads (
  conversation_id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, created_ms INTEGER NOT NULL, name TEXT,
  avatar_url TEXT, history TEXT NOT NULL, head INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_ms INTEGER NOT NULL,
  preview TEXT, members_seq INTEGER NOT NULL, floor_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
  conversation_id TEXT NOT NULL, seq_no INTEGER NOT NULL, kind TEXT NOT NULL, sent_ms INTEGER NOT NULL,
  sender_id TEXT, is_deleted INTEGER NOT NULL, message_id TEXT, receiver_id TEXT, timestamp INTEGER, digest BLOB,
  target_seq INTEGER, edited_ms INTEGER, edit_seq INTEGER, rev INTEGER NOT NULL, s3_ref TEXT, content BLOB,
  PRIMARY KEY (conversation_id, seq_no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sent ON messages (conversation_id, sender_id, message_id) WHERE message_id IS NOT NULL;
CREATE TABLE members (
  conversation_id TEXT NOT NULL, user_id TEXT NOT NULL, role TEXT NOT NULL, joined_seq INTEGER NOT NULL,
  joined_ms INTEGER NOT NULL, left_seq INTEGER, PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE conversations (
  user_id TEXT NOT NULL, conversation_id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT, avatar_url TEXT,
  last_message_preview TEXT, last_message_ts INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  unread_count INTEGER NOT NULL, muted INTEGER NOT NULL, pinned INTEGER NOT NULL, archived INTEGER NOT NULL,
  joined_seq INTEGER NOT NULL, joined_ms INTEGER NOT NULL, is_hidden INTEGER NOT NULL,
  PRIMARY KEY (user_id, conversation_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE message_status (
  conversation_id TEXT NOT NULL, user_id TEXT NOT NULL, delivered_seq INTEGER NOT NULL, read_seq INTEGER NOT NULL,
  cursor_seq INTEGER NOT NULL, ranges BLOB, version INTEGER NOT NULL, since_seq INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
  user_id TEXT NOT NULL PRIMARY KEY, name TEXT, avatar_url TEXT, tokens_valid_after INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
  key_hash TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', '1'), ('store_epoch', 'epoch-of-the-old-file');
INSERT INTO conversation_heads VALUES ('c', 'group', 1, NULL, NULL, 'all', 1, 1, 1700000000001, 'hello', 0, 0);
INSERT INTO messages VALUES (
  'c', 1, 'message', 1700000000001, 'alice', 0, 'm1', NULL, 7,
  x'8ed7252f4b03f9e8376db5b2', NULL, NULL, NULL, 0, NULL,
  CAST('{"text":"hello"}' AS BLOB)
);
"""
COLD_TIER = """
CREATE TABLE archives (
  conversation_id TEXT NOT NULL PRIMARY KEY, archived_seq INTEGER NOT NULL, next_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE rechecks (
  conversation_id TEXT NOT NULL, s3_ref TEXT NOT NULL, why TEXT NOT NULL, mark TEXT NOT NULL,
  since_ms INTEGER NOT NULL, PRIMARY KEY (conversation_id, s3_ref)
) STRICT, WITHOUT ROWID;
UPDATE meta SET value = '2' WHERE key = 'schema_version';
"""
# A node of version 2 made these when it first opened the file, and with them the name of the archive.
MADE_AT_FIRST_USE = """
CREATE TABLE devices (
  user_id TEXT NOT NULL, device_id TEXT NOT NULL, provider TEXT NOT NULL, token TEXT NOT NULL, p256dh TEXT, auth TEXT,
  registered_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL, PRIMARY KEY (user_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX device_token ON devices (provider, token);
CREATE TABLE pending_deliveries (
  user_id TEXT NOT NULL, conversation_id TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  since_ms INTEGER NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (user_id, conversation_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_expires ON pending_deliveries (expires);
CREATE TABLE rate_overrides (
  scope TEXT NOT NULL, name TEXT NOT NULL, class_name TEXT NOT NULL, count INTEGER, window_s INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL, PRIMARY KEY (scope, name, class_name)
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('archive_id', 'a1b2c3'), ('overrides_version', 'v7');
INSERT INTO devices VALUES ('bob', 'phone', 'fcm', 'token', NULL, NULL, 1, 2);
"""
OLD_FILES = {
    "version 1": VERSION_1,
    "version 2, made by the command line": VERSION_1 + COLD_TIER,
    "version 2, used by a node": VERSION_1 + COLD_TIER + MADE_AT_FIRST_USE,
}


def old_file(path: Path, sql: str) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()
    return path


def shape_of(path: Path) -> tuple[dict[str, list[object]], set[object]]:
    """Every table with its columns, and the names of the indexes."""
    connection = sqlite_file.connect(path)
    try:
        found = connection.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
        tables = sorted(str(name) for kind, name in found if kind == "table")
        columns = {name: connection.execute(f"PRAGMA table_info('{name}')").fetchall() for name in tables}
        return {name: list(rows) for name, rows in columns.items()}, {name for kind, name in found if kind == "index"}
    finally:
        connection.close()


@pytest.mark.parametrize("sql", OLD_FILES.values(), ids=OLD_FILES.keys())
def test_an_older_file_gets_the_schema_of_a_new_one(tmp_path: Path, sql: str) -> None:
    path = old_file(tmp_path / "old.db", sql)
    identity = sqlite_file.prepare(path, Clock())
    assert identity.store_epoch == "epoch-of-the-old-file"
    sqlite_file.prepare(tmp_path / "new.db", Clock())
    assert shape_of(path) == shape_of(tmp_path / "new.db")
    assert sqlite_file.prepare(path, Clock()) == identity


@pytest.mark.parametrize("sql", OLD_FILES.values(), ids=OLD_FILES.keys())
async def test_an_older_file_is_read_and_written_as_before(tmp_path: Path, sql: str) -> None:
    path = old_file(tmp_path / "old.db", sql)
    tables = await adapter.open(f"sqlite://{path}", NO_COUNTS, Clock())
    assert await log(tables, "c") == [message("c", 1)]
    assert await tables.log.append([group(message("c", 2))]) == [None]
    assert await tables.conversations.create(Head(conversation_id="d", kind="group", created_ms=START_MS), [], [])
    await tables.devices.put(Device(user_id="carol", device_id="phone", provider="fcm", token="t2"))
    await tables.overrides.put(Override(scope="user", name="bob", class_name="send", count=1))
    assert await tables.archive.take_fence() == 1
    await tables.close()


async def test_what_a_node_of_version_2_stored_is_still_there(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old.db", OLD_FILES["version 2, used by a node"])
    tables = await adapter.open(f"sqlite://{path}", NO_COUNTS, Clock())
    assert [device.token for device in await tables.devices.of_user("bob")] == ["token"]
    assert (await tables.archive.id(), await tables.overrides.version()) == ("a1b2c3", "v7")
    await tables.close()


def test_the_version_is_where_an_older_tidings_reads_it(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old.db", VERSION_1)
    sqlite_file.prepare(path, Clock())
    connection = sqlite_file.connect(path)
    found = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
    connection.close()
    assert found == [(str(SCHEMA_VERSION),)]
