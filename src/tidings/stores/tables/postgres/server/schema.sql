-- The tables on PostgreSQL, in the newest form: schema.py has the steps that bring an older schema to it. `@` stands for
-- the schema in use. Columns carry the names of the fields in model.py. A text of a user is bytea: a text column cannot
-- hold the character NUL. Ids compare byte by byte (COLLATE "C"), as in every other store.

CREATE TABLE @meta (
  key   text NOT NULL PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE @conversation_heads (
  conversation_id text COLLATE "C" NOT NULL PRIMARY KEY,
  kind            text    NOT NULL,
  created_ms      bigint  NOT NULL,
  name            text,
  avatar_url      text,
  history         text    NOT NULL,
  head            bigint  NOT NULL,
  last_seq        bigint  NOT NULL,
  last_ms         bigint  NOT NULL,
  preview         bytea,
  members_seq     bigint  NOT NULL,
  floor_seq       bigint  NOT NULL,
  last_message    text,   -- JSON: more about it than the preview
  large_ms        bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE TABLE @messages (
  conversation_id text COLLATE "C" NOT NULL,
  seq_no          bigint  NOT NULL,
  kind            text    NOT NULL,
  sent_ms         bigint  NOT NULL,
  sender_id       text COLLATE "C",
  is_deleted      boolean NOT NULL,
  message_id      text COLLATE "C",
  receiver_id     text,
  timestamp       bigint,
  digest          bytea,
  target_seq      bigint,
  edited_ms       bigint,
  edit_seq        bigint,
  rev             bigint  NOT NULL,
  s3_ref          text,
  is_uncounted    boolean NOT NULL,
  thread_seq      bigint,
  mentions        text,
  content         bytea,
  PRIMARY KEY (conversation_id, seq_no)
) PARTITION BY HASH (conversation_id);

CREATE UNIQUE INDEX sent ON @messages (conversation_id, sender_id, message_id) WHERE message_id IS NOT NULL;

CREATE TABLE @members (
  conversation_id text COLLATE "C" NOT NULL,
  user_id         text COLLATE "C" NOT NULL,
  role            text    NOT NULL,
  joined_seq      bigint  NOT NULL,
  joined_ms       bigint  NOT NULL,
  left_seq        bigint,
  is_requested    boolean NOT NULL,
  PRIMARY KEY (conversation_id, user_id)
);

CREATE INDEX present ON @members (conversation_id, user_id) WHERE left_seq IS NULL;

CREATE TABLE @conversations (
  user_id              text COLLATE "C" NOT NULL,
  conversation_id      text COLLATE "C" NOT NULL,
  kind                 text    NOT NULL,
  name                 text,
  avatar_url           text,
  last_message_preview bytea,
  last_message_ts      bigint  NOT NULL,
  last_seq             bigint  NOT NULL,
  unread_count         bigint,
  muted                boolean NOT NULL,
  pinned               boolean NOT NULL,
  archived             boolean NOT NULL,
  joined_seq           bigint  NOT NULL,
  joined_ms            bigint  NOT NULL,
  is_hidden            boolean NOT NULL,
  hidden_seq           bigint  NOT NULL,
  is_requested         boolean NOT NULL,
  is_invited           boolean NOT NULL,
  status_version       bigint  NOT NULL DEFAULT 0, -- of the last status that was put: no count from before it comes back
  pinned_ms            bigint  NOT NULL DEFAULT 0,
  archived_seq         bigint  NOT NULL DEFAULT 0,
  muted_until          bigint,
  notify               text    NOT NULL DEFAULT 'all',
  last_message         text,
  role                 text,
  PRIMARY KEY (user_id, conversation_id)
) WITH (fillfactor = 70);

CREATE INDEX inbox_order ON @conversations (user_id, greatest(last_message_ts, joined_ms, 1), conversation_id);

CREATE TABLE @message_status (
  conversation_id text COLLATE "C" NOT NULL,
  user_id         text COLLATE "C" NOT NULL,
  delivered_seq   bigint  NOT NULL,
  read_seq        bigint  NOT NULL,
  cursor_seq      bigint  NOT NULL,
  ranges          bytea,
  version         bigint  NOT NULL,
  since_seq       bigint  NOT NULL,
  delivered_ms    bigint  NOT NULL DEFAULT 0,
  read_ms         bigint  NOT NULL DEFAULT 0,
  read_before     bytea,
  PRIMARY KEY (conversation_id, user_id)
) WITH (fillfactor = 70);

CREATE TABLE @archives (
  conversation_id text COLLATE "C" NOT NULL PRIMARY KEY,
  archived_seq    bigint  NOT NULL,
  next_ms         bigint  NOT NULL
);

CREATE TABLE @rechecks (
  conversation_id text COLLATE "C" NOT NULL,
  s3_ref          text COLLATE "C" NOT NULL,
  why             text    NOT NULL,
  mark            text    NOT NULL,
  since_ms        bigint  NOT NULL,
  PRIMARY KEY (conversation_id, s3_ref)
);

CREATE TABLE @users (
  user_id            text COLLATE "C" NOT NULL PRIMARY KEY,
  name               text,
  avatar_url         text,
  tokens_valid_after bigint NOT NULL
);

CREATE TABLE @api_keys (
  key_hash   text COLLATE "C" NOT NULL PRIMARY KEY,
  name       text   NOT NULL,
  role       text   NOT NULL,
  created_ms bigint NOT NULL
);

CREATE TABLE @blocks (
  user_id    text COLLATE "C" NOT NULL,
  blocked_id text COLLATE "C" NOT NULL,
  since_ms   bigint NOT NULL,
  PRIMARY KEY (user_id, blocked_id)
);

CREATE INDEX blocked ON @blocks (blocked_id, user_id);

CREATE TABLE @preferences (
  user_id text COLLATE "C" NOT NULL PRIMARY KEY,
  choices text NOT NULL
);

CREATE TABLE @devices (
  user_id       text COLLATE "C" NOT NULL,
  device_id     text COLLATE "C" NOT NULL,
  provider      text   NOT NULL,
  token         text   NOT NULL,
  p256dh        text,
  auth          text,
  registered_ms bigint NOT NULL,
  last_seen_ms  bigint NOT NULL,
  PRIMARY KEY (user_id, device_id)
);

CREATE UNIQUE INDEX device_token ON @devices (provider, token);

CREATE TABLE @pending_deliveries (
  user_id         text COLLATE "C" NOT NULL,
  conversation_id text COLLATE "C" NOT NULL,
  first_seq       bigint NOT NULL,
  last_seq        bigint NOT NULL,
  since_ms        bigint NOT NULL,
  expires         bigint NOT NULL,
  PRIMARY KEY (user_id, conversation_id)
);

CREATE INDEX pending_expires ON @pending_deliveries (expires);

CREATE TABLE @rate_overrides (
  scope      text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  class_name text COLLATE "C" NOT NULL,
  count      bigint,
  window_s   bigint NOT NULL,
  changed_ms bigint NOT NULL,
  PRIMARY KEY (scope, name, class_name)
);

CREATE TABLE @records (
  owner      text COLLATE "C" NOT NULL,
  collection text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  due_ms     bigint,
  value      bytea  NOT NULL,
  PRIMARY KEY (owner, collection, name)
);

CREATE INDEX record_due ON @records (collection, due_ms) WHERE due_ms IS NOT NULL;

-- The words of messages, for search: they may be lost, and are made anew from the log.
CREATE TABLE @search_cursors (
  conversation_id text COLLATE "C" NOT NULL PRIMARY KEY,
  up_to           bigint NOT NULL
);

CREATE TABLE @search (
  conversation_id text COLLATE "C" NOT NULL,
  seq_no          bigint   NOT NULL,
  mark            bigint   NOT NULL,
  sender_id       text     NOT NULL,
  has_file        boolean  NOT NULL,
  has_link        boolean  NOT NULL,
  words           tsvector NOT NULL,
  PRIMARY KEY (conversation_id, seq_no)
);

CREATE INDEX search_words ON @search USING gin (words);
CREATE INDEX search_marks ON @search (conversation_id, mark);
