-- The tables on SQLite. Columns carry the names of the fields in model.py. In messages content comes last, because a
-- long one spills to overflow pages that a count or a lookup must not touch.

CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation_heads (
  conversation_id TEXT    NOT NULL PRIMARY KEY,
  kind            TEXT    NOT NULL,
  created_ms      INTEGER NOT NULL,
  name            TEXT,
  avatar_url      TEXT,
  history         TEXT    NOT NULL,
  head            INTEGER NOT NULL,
  last_seq        INTEGER NOT NULL,
  last_ms         INTEGER NOT NULL,
  preview         TEXT,
  members_seq     INTEGER NOT NULL,
  floor_seq       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
  conversation_id TEXT    NOT NULL,
  seq_no          INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  sent_ms         INTEGER NOT NULL,
  sender_id       TEXT,
  is_deleted      INTEGER NOT NULL,
  message_id      TEXT,
  receiver_id     TEXT,
  timestamp       INTEGER,
  digest          BLOB,    -- of the text as first sent: it survives edit and delete
  target_seq      INTEGER,
  edited_ms       INTEGER,
  edit_seq        INTEGER,
  rev             INTEGER NOT NULL,
  s3_ref          TEXT,
  content         BLOB,    -- a JSON object, {"text":...} or {"member":...}; NULL when there is none any more
  PRIMARY KEY (conversation_id, seq_no)
) STRICT, WITHOUT ROWID;

-- The dedupe rows of the design: one (sender_id, message_id) in a conversation, as long as its message lives.
CREATE UNIQUE INDEX sent ON messages (conversation_id, sender_id, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE members (
  conversation_id TEXT    NOT NULL,
  user_id         TEXT    NOT NULL,
  role            TEXT    NOT NULL,
  joined_seq      INTEGER NOT NULL,
  joined_ms       INTEGER NOT NULL,
  left_seq        INTEGER,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
  user_id              TEXT    NOT NULL,
  conversation_id      TEXT    NOT NULL,
  kind                 TEXT    NOT NULL,
  name                 TEXT,
  avatar_url           TEXT,
  last_message_preview TEXT,
  last_message_ts      INTEGER NOT NULL,
  last_seq             INTEGER NOT NULL,
  unread_count         INTEGER NOT NULL,
  muted                INTEGER NOT NULL,
  pinned               INTEGER NOT NULL,
  archived             INTEGER NOT NULL,
  joined_seq           INTEGER NOT NULL,
  joined_ms            INTEGER NOT NULL,
  is_hidden            INTEGER NOT NULL,
  PRIMARY KEY (user_id, conversation_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE message_status (
  conversation_id TEXT    NOT NULL,
  user_id         TEXT    NOT NULL,
  delivered_seq   INTEGER NOT NULL,
  read_seq        INTEGER NOT NULL,
  cursor_seq      INTEGER NOT NULL,
  ranges          BLOB,    -- a JSON array of [first, last]; NULL when there are none
  version         INTEGER NOT NULL,
  since_seq       INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;

-- The cold tier: how far each conversation has been archived, and which segments must be looked at again.
CREATE TABLE archives (
  conversation_id TEXT    NOT NULL PRIMARY KEY,
  archived_seq    INTEGER NOT NULL,
  next_ms         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rechecks (
  conversation_id TEXT    NOT NULL,
  s3_ref          TEXT    NOT NULL,
  why             TEXT    NOT NULL,
  mark            TEXT    NOT NULL,
  since_ms        INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, s3_ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
  user_id            TEXT    NOT NULL PRIMARY KEY,
  name               TEXT,
  avatar_url         TEXT,
  tokens_valid_after INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  key_hash   TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  role       TEXT    NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
