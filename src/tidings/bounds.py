"""Every limit, with its unit last and its reason beside it. Nothing in Tidings is unbounded.

What an operator may change is in config.py; what is here is part of the design or the protocol.
"""

# --- the wire -------------------------------------------------------------------------------------
FRAME_BYTES_MAX = 64 * 1024  # protocol: a larger frame closes the socket with 1009
TEXT_BYTES_MAX = 16 * 1024  # protocol: a larger text is `too_large`
HTTP_BODY_BYTES_MAX = 64 * 1024  # the same as a frame, so REST and WebSocket take the same things
TOKEN_CHARS_MAX = 8 * 1024  # a JWT with generous claims; more is work for nothing
ID_CHARS_MAX = 128  # user and conversation ids: they are part of keys and rows
MESSAGE_ID_CHARS_MAX = 64  # room for a UUID, a ULID or a Snowflake with a prefix
NAME_CHARS_MAX = 200  # names are shown in a list; longer ones are a mistake
URL_CHARS_MAX = 2_000  # what browsers and proxies agree on for an avatar_url
RESUME_CONVERSATIONS_MAX = 200  # protocol: named in `resume`, and announced after it
PAGE_DEFAULT = 20  # the design's page: one screen of an inbox or a conversation
PAGE_MAX = 100  # protocol: a larger limit is served as this
READ_SEQS_MAX = 1_000  # sparse reads named in one frame; they fold into ranges
ACKS_MAX = 200  # conversations acknowledged in one message.delivered

# --- sockets --------------------------------------------------------------------------------------
HANDSHAKE_S = 10  # a slow handshake holds a file descriptor and nothing else
CONNECT_S = 5  # protocol: the first frame must be `connect`, within this time
PING_INTERVAL_S = 25  # below the 30-60 s after which common proxies cut idle tunnels
IDLE_S = 60  # nothing heard for two pings and some slack: the peer is gone
SOCKET_QUEUE_BYTES_MAX = 1024 * 1024  # per socket; past it the reader is slow and resumes later
NODE_QUEUE_BYTES_MAX = 256 * 1024 * 1024  # all sockets of a node together
CONNECTIONS_PER_USER_MAX = 100  # devices and tabs of one person on one node
BAD_FRAMES_MAX = 20  # within BAD_FRAMES_WINDOW_S: repeated nonsense closes the socket
BAD_FRAMES_WINDOW_S = 10  # see BAD_FRAMES_MAX
PINGS_MAX = 100  # ping and pong frames within BAD_FRAMES_WINDOW_S; a flood of them closes the socket
FRAGMENTS_MAX = 256  # pieces of one frame: empty pieces without end must not be waited for
CLOSE_LINGER_S = 5.0  # after our close frame, for the peer to read what is queued and answer it
FLUSH_BYTES = 64 * 1024  # frames of one loop turn are written together; from here on at once
HTTP_HEAD_BYTES_MAX = 32 * 1024  # request line and headers; an endless head must not be waited for
HTTP_FINISH_S = 2.0  # for requests under way when a node leaves; a store that hangs must not hold it up
HTTP_KEEP_ALIVE_S = 30  # an idle HTTP connection; longer than the pause between two pages
IN_FLIGHT_PER_SOCKET_MAX = 256  # requests of one socket under way; more wait unread in its buffer

# --- conversations --------------------------------------------------------------------------------
MEMBERS_MAX = 1_000  # one index call per member and batch; more wants another design
MEMBER_CHANGE_USERS_MAX = 45  # users in one entry: 2 rows each + 3 fit DynamoDB's 100-item transaction
READ_RANGES_MAX = 64  # sparse ranges above a cursor; more is `too_large`
PREVIEW_CHARS_MAX = 120  # what an inbox row shows of the last message

# --- the send path --------------------------------------------------------------------------------
LANES = 4  # batches under way at once: enough to overlap commit and keyspace, few enough to gather
LANE_QUEUE_MAX = 20_000  # sends waiting in one lane; past it they are refused as `unavailable`
BATCH_ENTRIES_MAX = 512  # entries in one batch of a lane
BATCH_FANOUT_MAX = 2_000  # index calls in one batch: closed early when its fan-out is large
GROUP_ENTRIES_MAX = 45  # entries of one conversation in a batch: DynamoDB's transaction limit with dedupe rows
STORE_DEADLINE_S = 5.0  # retries of an ambiguous commit before the sends are refused as `unavailable`
RENUMBER_MAX = 8  # tries to find free numbers before a group is refused; two nodes never need three
OPEN_SLOT_S = 3.0  # design: an open slot this old is closed by a void
MEMBERS_WAIT_S = 4.0  # how long a batch waits for a numbered member change to be decided (a slot is, in 3 s)
SENT_GENERATION_S = 600  # two generations of the dedupe fast path: a resend comes within minutes
CLEAR_OPEN_S = 0.25  # how often finished work is taken off the open list, many at a time
OPEN_KEPT_S = 3.0  # a conversation stays on it this long after its last batch: a lively one is noted once
HOLD_MESSAGES_MAX = 1_000  # refused sends remembered per socket and conversation
HOLD_CONVERSATIONS_MAX = 1_000  # conversations with refused sends per socket; one with more is closed (4013)

# --- unread, inbox, history -----------------------------------------------------------------------
DOUBTS_MAX = 100_000  # users remembered after a store did not answer: more marks than a node takes in that time
REBUILDS_MAX = 8  # users rebuilt at the same time per node: a cold keyspace must not melt the tables
REBUILD_TRIES_MAX = 20  # a rebuild overtaken by sends this often is refused as `unavailable`
REBUILD_CHUNK = 500  # rows, heads and marks per round trip of a rebuild
INDEX_TTL_S = 30 * 86_400  # inbox and marks of a user nobody writes to or reads; rebuilt on demand
ROW_WRITE_S = 1.0  # conversation rows are written this much later, last value per row
ROW_WRITE_BIG_S = 10.0  # the same for conversations above ROW_WRITE_BIG_MEMBERS
ROW_WRITE_BIG_MEMBERS = 50  # a channel must not cost a row per member and message
CONVERSATIONS_CACHED_MAX = 50_000  # member lists kept in a node's memory

# --- presence and typing: true for a moment, dropped first ----------------------------------------------
WATCHED_MAX = 50  # conversations one connection watches: what is on screen, not the whole inbox
WATCH_S = 60  # a node is known to have watchers for this long after it last said so
WATCH_RENEW_S = 20.0  # how often it says so: two may be lost
TYPING_S = 7.0  # a typist who says nothing for this long has stopped; clients renew every few seconds
TYPING_AGAIN_S = 2.0  # the same typist is told about once in this time
TYPISTS_MAX = 10_000  # people typing at the same time through one node; more are not told about
AWAY_S = 3.0  # whoever is back within this time was never gone: a reload, a change of network
PRESENCE_MEMBERS_MAX = 50  # above it, members are not listed to whoever begins to watch
PRESENCE_BURST_MAX = 200  # people told about in answer to one watch
PROFILES_MAX = 100  # profiles in one answer: a read of a row each
PRESENCE_CONVERSATIONS_MAX = 50  # of a user who comes or goes, the latest ones: who watches an older one is not told
PRESENCE_BATCH = 20  # users whose coming and going is told in one round trip
PRESENCE_PACE_S = 0.05  # pause between two such batches: a storm of reconnects must not feel it
PRESENCE_WAITING_MAX = 10_000  # users waiting to be told about; the rest is found by the next comparison
PRESENCE_COMPARED_MAX = 1_000  # people compared with their leases per WATCH_RENEW_S: finds what was lost
SIGNALS_MAX = 1_000  # signals being told at the same time; more are dropped

# --- keyspace and tables --------------------------------------------------------------------------
KEYSPACE_COMMAND_S = 5.0  # a command unanswered this long: the link is cut and taken up again
KEYSPACE_CONNECT_S = 3.0  # one attempt to connect, AUTH and load included
KEYSPACE_RETRY_S = 0.2  # pause between attempts to reconnect, with jitter
KEYSPACE_WAIT_S = 0.5  # a call waits this long for a link that just went down, then it is refused at once
CLUSTER_REFRESH_S = 2.0  # the topology is read again this often: a failover that nobody stumbled over is met by then
CLUSTER_RETRY_S = 0.2  # the same while a shard is down, and the least pause between two readings
CLUSTER_REDIRECTS_MAX = 5  # a call sent on more often than this is in a cluster that is not one
CLUSTER_KEYS_CACHED_MAX = 50_000  # keys whose slot is remembered: 10 MB at most
KEYSPACE_RUNS_MAX = 50_000  # runs that wait for answers on one link; the deadline empties it long before
VALKEY_START_S = 300.0  # the embedded server reads its AOF first; a big one takes minutes, not more
VALKEY_STOP_S = 10.0  # from SIGTERM to the last fsync; then it is killed
VALKEY_STEADY_S = 10.0  # an embedded server that dies younger than this is in a crash loop
VALKEY_RESTART_S_MAX = 5.0  # pause before a restart in a crash loop, at most
VALKEY_LOCK_S = 0.5  # a verb that only looks holds the data folder's lock for microseconds
VALKEY_LOG_BYTES_MAX = 10 * 1024 * 1024  # a longer log is set aside at the next start; one old log is kept
UNIX_PATH_BYTES_MAX = 100  # sockaddr_un has room for 107 on Linux and 103 on macOS
EPOCH_CHECK_S = 1.0  # design: the epoch is read again this often
SQLITE_BUSY_S = 5.0  # several nodes may share one file; a commit takes milliseconds
SQLITE_READERS = 2  # reader threads; each hop carries every read that waits
SQLITE_WAL_PAGES = 4_000  # 16 MB of log before a checkpoint: pages written often are then copied once
SQLITE_DELETE_CHUNK = 2_000  # entries of a deleted conversation removed in one commit: other writers wait for it
DYNAMODB_DEADLINE_S = 3.0  # one operation with all its retries; below STORE_DEADLINE_S, so that the batch can decide
DYNAMODB_ATTEMPT_S = 1.0  # one request: ten times a slow answer, and a retry still fits the deadline
DYNAMODB_PAUSE_S = 0.025  # the longest first pause before a retry (full jitter), doubled each time
DYNAMODB_PAUSE_S_MAX = 0.5  # the longest of these pauses
DYNAMODB_LINKS = 64  # connections of a node unless its URL says otherwise: at 10 ms a request, 6,000 a second
DYNAMODB_IDLE_S = 20.0  # a connection unused for this long may be closed by the other side any moment
DYNAMODB_TRANSACTION_ITEMS_MAX = 100  # DynamoDB's limit
DYNAMODB_BATCH_GET_MAX = 100  # DynamoDB's limit
DYNAMODB_BATCH_WRITE_MAX = 25  # DynamoDB's limit
DYNAMODB_SENT_TTL_S = 30 * 86_400  # dedupe rows: a resend after a month is a new message
DYNAMODB_RESERVED_TTL_S = 3_600  # the mark of a large conversation being created; its creator takes seconds
DYNAMODB_DELETING_S = 60  # a deletion not continued for this long may be finished: by the archiver, or a new creation
DYNAMODB_WALK_ROWS = 1_000  # pending rows looked at per expiry: the whole table each time would cost too much
DYNAMODB_CREATE_S = 300.0  # until a new table can be used; seconds as a rule
DYNAMODB_CREDENTIALS_S = 5.0  # one request for credentials
NODE_LEASE_S = 10.0  # a node that renewed nothing for this long is dead, and its work is finished by another
NODE_RENEW_S = 2.0  # how often a node says that it lives
READY_S = 2.0  # a store that does not answer /readyz in this time counts as down
DEVICES_REMEMBERED_MAX = 100  # device names kept per user; past it the longest unseen half is forgotten
CLOCKS_APART_S = 1.0  # of two nodes: who came less than this after another may have come before it
CLOCK_OFF_S_MAX = 4.0  # of a node from the keyspace's: two that are so far off do not yet take each other for dead
LEASE_S = 45.0  # a connection that was not renewed for this long is not live: three renewals may be missed
LEASE_RENEW_S = 15.0  # how often a node renews the leases of its connections
BUS_BYTES_MAX = 4 * 1024 * 1024  # one publish to another node; well below the 8 MB at which servers cut subscribers
BUS_PROBE_S = 1.0  # a subscription says PING this often, and must hear something within KEYSPACE_COMMAND_S
BUS_WAITING_MAX = 10_000  # items for one node while the keyspace is down; a lost one leaves a gap, which is found
JOIN_WAIT_S = 0.3  # beyond NODE_RENEW_S: a node that joins waits for others who do not say that they know of it
GAP_WAIT_S = 0.05  # design: an entry that is not the next waits this long before the gap is read from the log
GAP_AGAIN_S = 0.2  # an open slot in the gap is looked at this often until it is filled or voided
STREAM_IDLE_S = 90.0  # where nothing passed for this long, nobody may have been here to be told: twice a lease
SEAM_S = 30.0  # how far back a node looks for what passed it by: well above what two machines' clocks differ by
RECEIPT_WRITE_S = 0.2  # receipts of a burst become one write per member and conversation
RECEIPTS_WAITING_MAX = 50_000  # receipts waiting to be written; a lost one is sent again with the next
TICKS_ENTRIES_MAX = 2_000  # entries looked at to find whom the ticks of one turn concern; a longer way back is not told
TICKS_KNOWN_MAX = 50_000  # receipts a node remembers, so that one which comes late says what is known already
RESUME_ENTRIES_MAX = 500  # entries replayed per conversation; the rest is read as history
RESUME_HELD_MAX = 5_000  # live events that wait for a resume to end; past it the reader is slow
CONNECTS_MAX = 32  # connects and resumes carried out at the same time: a storm must not starve the connected
RESUMES_SLOW_MAX = 64  # resumes that wait for their readers without a turn: each holds up to 8 pages of entries
DRAIN_S = 30.0  # design: from SIGTERM to exit 0, at most

CROSSING_S = 0.5  # counts told by two nodes within this time may have crossed; longer than any publish takes
CROSSING_USERS_MAX = 100_000  # users remembered with who told them counts last
CROSSING_CONVERSATIONS_MAX = 200  # conversations of a user told again at once; an inbox page shows the rest

# --- pending deliveries and push ------------------------------------------------------------------
DUE_SHARDS = 16  # sorted sets of conversations that are due: a cluster spreads them
DUE_CLAIM_MAX = 64  # conversations taken from one shard at a time
DUE_HOLD_S = 30.0  # a taken conversation is left to its node for this long, then any node may take it
DUE_LOOK_S = 1.0  # how often a node looks for what is due
DUE_PASSES_MAX = 16  # conversations looked at together: their reads share hops
DUE_PASS_S = 20.0  # one conversation, all of it; below DUE_HOLD_S, so that nobody finishes after another began
DUE_ENTRIES_MAX = 200  # entries looked back at by a node that has not looked at the conversation before
DUE_RECENT_MAX = 100_000  # conversations remembered, to record them again after a lost keyspace
WAITING_TTL_S = 30 * 86_400  # a pending delivery nobody came for; the message itself stays
WAITING_EXPIRE_S = 600.0  # how often expired ones are taken away
DEVICES_PER_USER_MAX = 20  # registered for push; the one not seen for longest makes room
PUSH_TOKEN_CHARS_MAX = 4_096  # the longest token or endpoint that a provider gives out
PUSH_SHARDS = 4  # streams of jobs: a cluster spreads them
PUSH_JOBS_MAX = 100_000  # jobs to do in one shard (the oldest are given up), and as many to try again (the latest due)
PUSH_DEAD_MAX = 10_000  # dead letters kept for an operator to look at
PUSH_DELIVERIES_MAX = 5  # design: a job handed out this often without an end is a dead letter
PUSH_IDLE_S = 30.0  # a job without an end for this long is of a dead worker
PUSH_CONSUMER_IDLE_S = 3_600  # a worker not seen for this long, and without a job, is taken off the group's list
PUSH_JOB_S = 15.0  # one device, a renewed token included; below PUSH_IDLE_S: a slow worker is not a dead one
PUSH_SEND_S = 8.0  # one request to a provider
PUSH_IN_FLIGHT_MAX = 64  # jobs of one node under way; HTTP/2 carries them over one connection
PUSH_POLL_S = 0.5  # how often a node looks for jobs that others put in
PUSH_RETRY_S = 5.0  # the first wait after a provider failed, doubled each time
PUSH_RETRY_S_MAX = 600.0  # the longest of these waits; a provider may ask for more
PUSH_RETRY_AFTER_S_MAX = 86_400.0  # the longest that it gets: a job is a dead letter by then
PUSH_AGE_S = 86_400  # a job that found no way for this long is a dead letter
PUSH_TTL_S = 28 * 86_400  # how long a provider keeps a notice for a device that is off: the most that all three take
TOUCHED_TOGETHER = 500  # devices whose last_seen is written in one turn: what is acknowledged waits behind them
PUSH_NOTES_MAX = 50_000  # acknowledgements and badges of a node that wait to be written; more are forgotten
ACKS_FIELDS_MAX = 20_000  # of one user, devices times conversations; beyond it all of them are forgotten
ACKS_TTL_S = 86_400  # what a device has acknowledged or was told of; forgotten, it may be told once more
ACKS_WRITE_S = 0.5  # acknowledgements of devices are written this much later, many at a time; far below the grace time

# --- the Python client ----------------------------------------------------------------------------
CLIENT_HANDSHAKE_S = 10.0  # one attempt to open the socket and hear hello; a node answers in milliseconds
CLIENT_FIRST_S = 30.0  # until the first hello; then the program is told why there is none
CLIENT_BACKOFF_S = 0.25  # the longest first pause before another attempt (full jitter), doubled each time
CLIENT_BACKOFF_S_MAX = 30.0  # the longest of these pauses: a node that comes back is found within it
CLIENT_REFRESH_S = 60.0  # a token is renewed this long before it expires, so that a slow refresh is still in time
CLIENT_TOKEN_S = 10.0  # a token callback; one that hangs must not keep a client from coming back
CLIENT_ACK_S = 0.25  # delivered marks of a burst become one frame; a tick may be this late
CLIENT_GAP_S = 0.2  # an entry that is not the next waits this long: its predecessors are on their way as a rule
CLIENT_GAP_AGAIN_S = 0.5  # an undecided number is looked at this often; it is decided within OPEN_SLOT_S
CLIENT_SINCE_SLACK_S = 60.0  # how far two machines' clocks may differ when asking what changed while away
CLIENT_READS_MAX = 8  # conversations whose gaps are read at the same time: a long absence must not flood the node
CLIENT_SENDS_MAX = 128  # sends of one client under way; half of what a socket may have
CLIENT_LANE_SENDS_MAX = 32  # the same for one conversation: others get their turn
CLIENT_EVENTS_PAUSE = 2_000  # events nobody has taken: the socket is read no further until there is room
CLIENT_EVENTS_MAX = 50_000  # the same while answers are awaited and it must be read: then the stream ends with an error
CLIENT_FRAME_BYTES_MAX = 16 * 1024 * 1024  # a page of 100 of the largest texts, all of it escaped
CLIENT_CLOSE_S = 5.0  # leaving waits this long for unanswered sends
CLIENT_REST_S = 10.0  # one REST request
CLIENT_TRIES_MAX = 6  # of a request that may be repeated: about 8 s of trouble are bridged

# --- doctor, top, traces ----------------------------------------------------------------------------
DOCTOR_CHECK_S = 20.0  # one family of checks, all of it: a store that hangs must not hide what the others found
DOCTOR_CENSUS_S = 20.0  # walking the keys of one server, unless --budget says otherwise; a million keys take less
DOCTOR_SCAN_COUNT = 200  # keys looked at in one turn of the server: about half a millisecond of it
DOCTOR_MEASURED_MAX = 200  # ordinary keys of a family whose memory is asked for: enough for a mean
DOCTOR_BIG_MAX = 20  # biggest keys that are told
DOCTOR_HOT_MAX = 100  # keys looked at a second time, to see which are in use
DOCTOR_FOREIGN_ENTRIES_MAX = 100_000  # a key of somebody else with more is told: walking it takes tens of milliseconds
DOCTOR_MEMORY_SAMPLES = 5  # elements of a key from which its server estimates its memory
DOCTOR_SLOWLOG_MAX = 128  # the server's own default length: all there is
DOCTOR_PINGS = 50  # pings for p50 and p99: 5 ms on a good network
DOCTOR_SKEW_S = 1.0  # clocks further apart than this are wrong: leases, and what is due, would be early or late
DOCTOR_PING_S = 0.005  # a slower keyspace (p99) makes every stage of a send slow
DOCTOR_FSYNC_S = 0.05  # a slower disk (p99) makes every commit slow
DOCTOR_FSYNCS = 12  # writes for p50 and p99: each takes as long as a commit
DOCTOR_SLOW_CALL_US = 10_000  # the server's own idea of a slow command
DOCTOR_DISK_BYTES_MIN = 512 * 1024 * 1024  # room for an AOF rewrite and a checkpoint of a small installation
DOCTOR_DISK_SHARE_MIN = 0.05  # the share of a disk below which it is full by tomorrow
DOCTOR_INTEGRITY_BYTES_MAX = 64 * 1024 * 1024  # a database that is read through in a fraction of a second
DOCTOR_OPEN_FILES_MIN = 10_240  # a connection is an open file; 10,000 of them fit a small node
DOCTOR_SECRET_BITS_MIN = 80  # below it a secret can be searched with rented machines
TOP_FETCH_S = 2.0  # one read of /metrics; a node that takes longer is shown as lost
TOP_PAGE_BYTES_MAX = 4 * 1024 * 1024  # a page of metrics is a few dozen kilobytes
OTEL_EXPORT_S = 5.0  # one hand-over of spans to the collector, beside the event loop
OTEL_CLOSE_S = 3.0  # for what waits at the end; a collector that is down must not hold up a drain
OTEL_SENDS_MAX = 32  # messages of one traced batch with a span of their own: enough to see, and a batch may hold 512

# --- limits, audit, activity ----------------------------------------------------------------------
OVERRIDES_MAX = 10_000  # all of them are in every node's memory; for more people than that there are roles
OVERRIDES_READ_S = 2.0  # how often a node looks whether overrides changed: one small read
ROLES_KNOWN_MAX = 200_000  # users whose role a node remembers: more than it can have connected
LIMIT_COUNT_MAX = 9_999_999  # of an override, as of a setting
LIMIT_WINDOW_S_MAX = 86_400  # of an override, as of a setting
REFUSALS_PER_TURN_MAX = 2  # refusals of one user that are answered at once; the next wait for the next turn
REFUSALS_TURN_S = 0.01  # 200 refusals a second are plenty to learn from; few at a time, so nobody waits behind them
REFUSED_WAITING_MAX = 10_000  # REST requests of refused users that wait for their answer; past it they are answered
AUDIT_SHARDS = 4  # streams: a cluster spreads them
AUDIT_FLUSH_S = 0.1  # design: what is gathered is written ten times a second, with a count
AUDIT_NOTES_MAX = 2_500  # different events gathered per shard; past it users are counted together as `*`
AUDIT_ACTIONS_MAX = 250  # actions gathered per shard while the keyspace is down; past it the oldest are forgotten
AUDIT_FLUSH_MAX = 500  # events of one shard in one flush: a script must stay short
AUDIT_FLUSH_TTL_S = 3_600  # a flush whose answer was lost is sent again within seconds of the keyspace's return
AUDIT_ENTRIES_MAX = 100_000  # entries kept in one shard: 20 MB; the oldest are trimmed
AUDIT_TTL_S = 30 * 86_400  # a stream that nothing was added to for this long goes
AUDIT_TAKE_MAX = 500  # entries that a worker takes from one shard at a time
AUDIT_POLL_S = 1.0  # how often a worker looks for new entries
AUDIT_IDLE_S = 30.0  # an entry taken and not counted for this long is of a dead worker
AUDIT_DELIVERIES_MAX = 5  # design: an entry handed out this often without being counted is a dead letter
AUDIT_DEAD_MAX = 10_000  # dead letters kept for an operator to look at
AUDIT_SUMS_MAX = 10_000  # users and classes told apart in one minute and shard; past it they are counted as `*`
AUDIT_SUMS_TTL_S = 7 * 86_400  # a minute's sums: a week is enough to see what happened on the weekend
AUDIT_CONSUMER_IDLE_S = 3_600  # a worker not seen for this long is taken off the group's list
AUDIT_MINUTES_MAX = 1_440  # minutes that one question about sums may cover: a day
RECOUNT_TRIES_MAX = 10  # a minute that is counted into all the while is left as it is
ACTIVITY_WRITE_S = 5.0  # who was there today is written this much later, each user once a day
ACTIVITY_WRITE_MAX = 1_000  # users in one such write
ACTIVITY_USERS_MAX = 200_000  # users of today that a node remembers; past it some are written again, which is harmless
ACTIVE_TTL_S = 400 * 86_400  # 12 KB a day: a year and a month, to compare
DAYS_TTL_S = 400 * 86_400  # of a user who did not come any more
ACTIVE_DAYS_MAX = 400  # days that one question may cover

# --- the cold tier --------------------------------------------------------------------------------
SEGMENT_ENTRIES_MAX = 1_000  # entries that one segment covers: a page of history reads one object, rarely two
SEGMENT_BYTES_MAX = 512 * 1024  # of text in one segment, before compression: decoded in a few milliseconds
SEGMENT_ENTRIES_MIN = 100  # a smaller one waits for ARCHIVE_PATIENCE_S: objects are paid for one by one
SEGMENT_CACHE_BYTES_MAX = 32 * 1024 * 1024  # decoded segments that a node keeps: whoever scrolls reads each once
ARCHIVE_PATIENCE_S = 7 * 86_400  # how long past its day a text may wait for company; never longer than after_days
ARCHIVE_PAGE = 250  # entries read at a time: the largest texts are 4 MB then
ARCHIVE_WALK = 500  # conversations looked at per step of a pass
ARCHIVE_AT_ONCE = 8  # conversations archived side by side: an object's round trips overlap
ARCHIVE_MOVES_MAX = 250  # rows changed in one commit on SQLite: sends wait for it, a millisecond or two
ARCHIVE_LEASE_S = 30.0  # an archiver not heard of for this long has lost its lead
ARCHIVE_RENEW_S = 5.0  # how often it is heard of: several may be missed
ARCHIVE_SWEEP_S = 86_400  # how often all objects are listed, to find those that nothing refers to
ARCHIVE_ORPHAN_S = 86_400  # an object younger than this is not swept, whatever else is known of it
ARCHIVE_RECHECK_ROUNDS = 5  # a segment whose messages are edited while it is rewritten is looked at again this often
COLD_READ_S = 8.0  # one object for a reader: whoever scrolls is answered `unavailable` after that
COLD_TRIES_MAX = 3  # a row that moved to another segment meanwhile is read again
DAMAGED_KNOWN_S = 60.0  # a damaged segment is looked at again after this time: somebody may have put it right
DAMAGED_KNOWN_MAX = 1_000  # damaged segments that a node remembers
BLOBS_REQUEST_S = 20.0  # one request to the blobs: a segment is small
BLOBS_CONNECT_S = 5.0  # one attempt to reach them
BLOBS_RETRIES = 5  # of a request that failed in passing
BLOBS_DEADLINE_S = 60.0  # one request with all its retries

# --- the admin page -------------------------------------------------------------------------------
SAMPLE_S = 2.0  # how often a node writes down what it has counted: a chart that moves, for one small write
SAMPLES_MAX = 150  # samples kept of each node: five minutes
SAMPLES_TTL_S = 600  # of a node that is gone
ADMIN_LOOK_S = 30.0  # one look at everything of a user or of the cold tier; the operator is told that it took too long
ADMIN_CENSUS_S = 5.0  # doctor walks the keys of one server this long for the page; the command line takes its time
ADMIN_MINUTES_MAX = 1_440  # minutes of refusals that one look covers: a day
ADMIN_DAYS = 30  # days of activity that are shown
ADMIN_ROWS_MAX = 50  # dead letters, audit entries and refused users that are shown
