-- The tables on SQLite, in the newest form: schema.py has the steps that bring an older file to it. Columns carry the
-- names of the fields in model.py. In messages the content comes last: a long content spills to overflow pages that a
-- count or a lookup must not touch.

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
  floor_seq       INTEGER NOT NULL,
  last_message    TEXT,    -- JSON: more about it than the preview
  large_ms        INTEGER NOT NULL DEFAULT 0
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
  digest          BLOB,    -- keyed, of the content as first sent: it goes with a delete
  target_seq      INTEGER,
  edited_ms       INTEGER,
  edit_seq        INTEGER,
  rev             INTEGER NOT NULL,
  s3_ref          TEXT,
  is_uncounted    INTEGER NOT NULL,
  thread_seq      INTEGER,
  mentions        TEXT,    -- user ids with blanks between them, or *
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
  is_requested    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX present ON members (conversation_id, user_id) WHERE left_seq IS NULL;

CREATE TABLE conversations (
  user_id              TEXT    NOT NULL,
  conversation_id      TEXT    NOT NULL,
  kind                 TEXT    NOT NULL,
  name                 TEXT,
  avatar_url           TEXT,
  last_message_preview TEXT,
  last_message_ts      INTEGER NOT NULL,
  last_seq             INTEGER NOT NULL,
  muted                INTEGER NOT NULL,
  pinned               INTEGER NOT NULL,
  archived             INTEGER NOT NULL,
  joined_seq           INTEGER NOT NULL,
  joined_ms            INTEGER NOT NULL,
  is_hidden            INTEGER NOT NULL,
  hidden_seq           INTEGER NOT NULL DEFAULT 0,
  is_requested         INTEGER NOT NULL DEFAULT 0,
  is_invited           INTEGER NOT NULL DEFAULT 0,
  unread_count         INTEGER,  -- exact as of last_seq; NULL: not known
  pinned_ms            INTEGER NOT NULL DEFAULT 0,
  archived_seq         INTEGER NOT NULL DEFAULT 0,
  muted_until          INTEGER,
  notify               TEXT    NOT NULL DEFAULT 'all',
  last_message         TEXT,
  role                 TEXT,
  PRIMARY KEY (user_id, conversation_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_order ON conversations (user_id, max(last_message_ts, joined_ms, 1), conversation_id);

CREATE TABLE message_status (
  conversation_id TEXT    NOT NULL,
  user_id         TEXT    NOT NULL,
  delivered_seq   INTEGER NOT NULL,
  read_seq        INTEGER NOT NULL,
  cursor_seq      INTEGER NOT NULL,
  ranges          BLOB,    -- a JSON array of [first, last]; NULL when there are none
  version         INTEGER NOT NULL,
  since_seq       INTEGER NOT NULL,
  delivered_ms    INTEGER NOT NULL DEFAULT 0,  -- when delivered_seq came to where it is; 0: not known
  read_ms         INTEGER NOT NULL DEFAULT 0,
  read_before     BLOB,    -- a JSON array of [read_seq, read_ms], the oldest first
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;

-- The cold tier: how far each conversation has been archived, and which segments must be read again.
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

-- What a user wants from others.
CREATE TABLE blocks (
  user_id    TEXT    NOT NULL,
  blocked_id TEXT    NOT NULL,
  since_ms   INTEGER NOT NULL,
  PRIMARY KEY (user_id, blocked_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX blocked ON blocks (blocked_id, user_id);

CREATE TABLE preferences (
  user_id TEXT NOT NULL PRIMARY KEY,
  choices TEXT NOT NULL    -- a JSON object
) STRICT, WITHOUT ROWID;

CREATE TABLE devices (
  user_id       TEXT    NOT NULL,
  device_id     TEXT    NOT NULL,
  provider      TEXT    NOT NULL,
  token         TEXT    NOT NULL,
  p256dh        TEXT,
  auth          TEXT,
  registered_ms INTEGER NOT NULL,
  last_seen_ms  INTEGER NOT NULL,
  PRIMARY KEY (user_id, device_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX device_token ON devices (provider, token);

CREATE TABLE pending_deliveries (
  user_id         TEXT    NOT NULL,
  conversation_id TEXT    NOT NULL,
  first_seq       INTEGER NOT NULL,
  last_seq        INTEGER NOT NULL,
  since_ms        INTEGER NOT NULL,
  expires         INTEGER NOT NULL,  -- in seconds since 1970
  PRIMARY KEY (user_id, conversation_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_expires ON pending_deliveries (expires);

-- The exceptions to the rate limits.
CREATE TABLE rate_overrides (
  scope      TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  class_name TEXT    NOT NULL,
  count      INTEGER,          -- NULL: no limit at all
  window_s   INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  PRIMARY KEY (scope, name, class_name)
) STRICT, WITHOUT ROWID;

-- The small tables of the features.
CREATE TABLE records (
  owner      TEXT    NOT NULL,  -- u:user_id, c:conversation_id or *
  collection TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  due_ms     INTEGER,
  value      BLOB    NOT NULL,
  PRIMARY KEY (owner, collection, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_due ON records (collection, due_ms) WHERE due_ms IS NOT NULL;
