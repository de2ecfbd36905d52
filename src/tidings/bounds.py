"""Every limit, with its unit last and its reason beside it. Nothing in Tidings is unbounded.

An operator changes limits in config/settings.py; the limits here are part of the design or the protocol.
"""

from __future__ import annotations

import msgspec


class Limit(msgspec.Struct, frozen=True, gc=False):
    """At most `count` requests in any `window_s` seconds."""

    count: int
    window_s: int

    def __str__(self) -> str:
        return f"{self.count}/{self.window_s}s"


# --- the wire -------------------------------------------------------------------------------------
FRAME_BYTES_MAX = 64 * 1024  # protocol: a larger frame closes the socket with 1009
DATA_BYTES_MAX = 8 * 1024  # protocol: larger data is `too_large`
MENTIONS_MAX = 50  # users named in one message; whoever means more has `mention: all`
DATA_DEPTH_MAX = 8  # protocol: data that is nested deeper is `bad_request`
TTL_S_MIN = 5  # protocol: a message that lives shorter could not be read
TTL_S_MAX = 366 * 86_400  # protocol: one year; longer times belong to the retention of the conversation
TEXT_BYTES_MAX = 16 * 1024  # protocol: a larger text is `too_large`
HTTP_BODY_BYTES_MAX = 64 * 1024  # the same as a frame, so REST and WebSocket take the same things
TOKEN_CHARS_MAX = 8 * 1024  # a JWT with generous claims; more is work for nothing
ID_CHARS_MAX = 128  # user and conversation ids: they are part of keys and rows
MESSAGE_ID_CHARS_MAX = 64  # room for a UUID, a ULID or a Snowflake with a prefix
NAME_CHARS_MAX = 100  # protocol: names are shown in a list; longer ones are a mistake
URL_CHARS_MAX = 2_000  # browsers and proxies agree on this length for an avatar_url
RESUME_CONVERSATIONS_MAX = 200  # protocol: conversations named in `resume`, and those announced after it
PAGE_DEFAULT = 20  # the design's page: one screen of an inbox or a conversation
PAGE_MAX = 100  # protocol: a larger limit is served as this
PAGES_PER_USER_MAX = 4  # pages of one user made at a time; a page of large texts takes milliseconds of the loop
PAGE_BYTES_MAX = 1024 * 1024  # entries of a page of history; one slow reader must not hold more of the node's memory
READ_SEQS_MAX = 1_000  # single messages named in one read mark; they fold into ranges
ACKS_MAX = 200  # conversations acknowledged in one message.delivered
ACKS_PER_SLOT = 10  # acknowledgements, or watched conversations, that one slot of a limit pays for
UNREAD_ROWS_PER_SLOT = 100  # rows that a mark of `unread` may read for one slot of `read`
REFRESHES_FAILED_MAX = 5  # bad tokens in a row, given to a connection by auth.refresh; the last one closes it

# --- sockets --------------------------------------------------------------------------------------
HANDSHAKE_S = 10  # a slow handshake holds a file descriptor and nothing else
HELLO_TOTALS_S = 1.0  # hello waits this long for the totals of a cold inbox; then `read.synced` brings them
TOTALS_AGAIN_S = 1.0  # pause between two tries to count them, while a store does not answer
CONNECT_S = 5  # protocol: the first frame must be `connect`, within this time
PING_INTERVAL_S = 25  # below the 30-60 s after which common proxies cut idle tunnels
IDLE_S = 60  # nothing came for two pings and some slack: the client is gone
SOCKET_QUEUE_BYTES_MAX = 1024 * 1024  # per socket; past it the reader is slow and resumes later
NODE_QUEUE_BYTES_MAX = 256 * 1024 * 1024  # all sockets of a node together
CONNECTIONS_PER_USER_MAX = 100  # devices and tabs of one person on one node
BAD_FRAMES_MAX = 20  # within BAD_FRAMES_WINDOW_S: repeated nonsense closes the socket
BAD_FRAMES_WINDOW_S = 10  # see BAD_FRAMES_MAX
PINGS_MAX = 100  # ping and pong frames within BAD_FRAMES_WINDOW_S; a flood of them closes the socket
FRAGMENTS_MAX = 256  # pieces of one frame: a node must not wait for empty pieces without end
CLOSE_LINGER_S = 5.0  # after our close frame, for the client to read what is queued and to answer
SOCKET_READ_BYTES = 4 * 1024  # read of one socket in one turn of the loop: a flood of frames waits for the others
FLUSH_BYTES = 64 * 1024  # frames of one turn of the loop are written together; above this size at once
HTTP_HEAD_BYTES_MAX = 32 * 1024  # request line and headers: a node must not wait for an endless head
HTTP_PIPELINED_MAX = 16  # requests that wait behind another one of their connection; more end the connection
HTTP_STALLED_S = 20  # an answer of which nothing was read for this long is thrown away, with its connection
HTTP_CONNECTIONS_PER_USER_MAX = 64  # of one user to a node: ten browsers; each may hold an unread answer
HTTP_FINISH_S = 2.0  # for requests under way when a node leaves; a store that hangs must not hold it up
HTTP_KEEP_ALIVE_S = 30  # an idle HTTP connection; longer than the pause between two pages
IN_FLIGHT_MAX = 4_096  # requests but sends under way on a node: what is left of the node is the reserve of sends
IN_FLIGHT_PER_USER_MAX = 256  # of one user, over all sockets and HTTP connections: as many as one socket may have
IN_FLIGHT_RETRY_MS = 200  # most requests end well before that
IN_FLIGHT_PER_SOCKET_MAX = 256  # requests of one socket under way; more wait unread in its buffer

# --- conversations --------------------------------------------------------------------------------
MEMBERS_MAX = 100_000  # the member list is in memory on each node that serves it: 30 MB
MEMBERS_LARGE = 500  # design: above it nothing is written per member when somebody posts; the default of the setting
MEMBERS_NAMED_MAX = 1_000  # protocol: members whom a user names in one call: one body of HTTP_BODY_BYTES_MAX
MEMBERS_BULK_MAX = 10_000  # the same by a server key: they join in slices of MEMBER_CHANGE_USERS_MAX
MEMBERS_BULK_BYTES_MAX = 1_500_000  # a body that names so many, with ids of the longest kind
MEMBERS_SHOWN_MAX = 1_000  # members in the answer about a conversation; the others come in pages
ANNOUNCEMENTS_MAX = 1_000  # creates and renames that are pushed to members at the same time; more are dropped
MEMBER_CHANGE_USERS_MAX = 45  # users in one entry: 2 rows each + 3 fit DynamoDB's 100-item transaction
READ_RANGES_MAX = 64  # ranges of singly read messages above a cursor; more is `too_large`
PREVIEW_CHARS_MAX = 120  # the part of the last message that an inbox row shows

# --- people ---------------------------------------------------------------------------------------
BLOCKS_PER_USER_MAX = 1_000  # people whom one user has blocked: read with each rebuild of a count
SHARED_ROWS_MAX = 5_000  # rows of a stranger that are compared to find a shared group: 50 reads at most
PEOPLE_FOUND_MAX = 50  # people in one answer of the directory
PEOPLE_READ_MAX = 1_000  # entries of the directory that one question reads: 5 reads of 200
PEOPLE_SHARED_MAX = 5_000  # people of shared conversations whose names one question compares: 50 reads at most
PEOPLE_SIGN_INS_MAX = 1_000  # sign-ins under way whose user is entered in the directory; others are at the next one
PEOPLE_NOTED_MAX = 100_000  # users whose entries in the directory a node need not check again: 10 MB
NAME_WORDS_MAX = 16  # places at which the directory finds one user: the words of the name, and the user id
SEARCH_READ_MAX = 10_000  # messages that a search reads where the store has no index
BLOCKS_CACHED_MAX = 100_000  # users whose blocks are kept in a node's memory: 20 MB at most
BLOCKS_READ_S = 1.0  # how often a node asks which blocks have changed: it is the delay of a block on other nodes
BLOCKS_CHANGED_S = 15.0  # a change is read again for so long: a commit that began with it is over by then

# --- the send path --------------------------------------------------------------------------------
LANES = 4  # batches under way at once: enough to overlap commit and keyspace, few enough to gather
LANE_QUEUE_BYTES_MAX = 48 * 1024 * 1024  # sends waiting in one lane; past it they are refused as `unavailable`
CONVERSATION_QUEUE_BYTES_MAX = 16 * 1024 * 1024  # the same of one conversation: one must not fill the lane of others
STRANGERS_KNOWN_S = 1.0  # a user who was refused twice by a conversation is refused from memory for so long
STRANGERS_KNOWN_MAX = 10_000  # such pairs of user and conversation; a forgotten one is read again
BATCH_ENTRIES_MAX = 512  # entries in one batch of a lane
BATCH_FANOUT_MAX = 2_000  # index calls in one batch: closed early when its fan-out is large
GROUP_FANOUT_MAX = 100  # entries times members of a group in a batch with others: more takes a batch of its own
GROUP_ENTRIES_MAX = 45  # entries of one conversation in a batch, and the rows beside: DynamoDB's transaction limit
STORE_SHARED_S = 1.0  # the same, while stored groups of the batch wait for the others to be acknowledged
STORE_DEADLINE_S = 5.0  # retries of an ambiguous commit before the sends are refused as `unavailable`
RENUMBER_MAX = 8  # tries to find free numbers before a group is refused; two nodes never need three
GAP_CLOSE_S = 3.0  # design: a gap this old is closed by a void
MEMBERS_WAIT_S = 4.0  # how long a send waits until a numbered member change is decided; a gap is closed after 3 s
SENT_GENERATION_S = 600  # two generations of the dedupe fast path: a resend comes within minutes
CLEAR_OPEN_S = 0.25  # how often finished work is taken off the open set, many conversations at a time
OPEN_KEPT_S = 3.0  # a conversation stays in the open set this long after its last batch: a lively one is added once
REINDEX_S = 60.0  # what was indexed so long before an epoch change, or up to twice that, is indexed again
REINDEX_MAX = 20_000  # conversations remembered for that; with more the older half is forgotten earlier
HOLD_MESSAGES_MAX = 1_000  # refused sends remembered per socket and conversation
REACTION_KEY_BYTES_MAX = 32  # protocol: an emoji with its modifiers, or the name of the application's own
HOLD_CONVERSATIONS_MAX = 1_000  # conversations with refused sends per socket; one with more is closed (4013)

# --- unread, inbox, history -----------------------------------------------------------------------
UNKNOWN_OUTCOMES_MAX = 100_000  # users remembered after a store did not answer; a node takes fewer marks in that time
REBUILDS_MAX = 8  # users rebuilt at the same time per node: a cold keyspace must not melt the tables
REBUILDS_BIG_MAX = 2  # of those with more than REBUILD_CHUNK conversations: small inboxes never wait for them
REBUILD_TRIES_MAX = 20  # a rebuild overtaken by sends this often is refused as `unavailable`
REBUILD_CHUNK = 500  # rows, heads and marks per round trip of a rebuild
REBUILD_BIG_CHUNK = 25  # the same of a bigger inbox: a millisecond of the loop, then others have a turn
INDEX_TTL_S = 30 * 86_400  # inbox and marks of a user whom nobody writes to and who reads nothing; rebuilt on demand
SCRUB_EVERY_S = 300  # pause between two rounds of counting the connected users again: a wrong count lasts minutes
SCRUB_ROWS_PER_S = 500  # conversations counted again in a second at most: sends must not feel it
SCRUB_AGAIN_S = 2.0  # a difference that is still there after this time is no send on its way
ROW_WRITE_S = 1.0  # conversation rows are written this much later, last value per row
ROW_WRITE_BIG_S = 10.0  # the same for conversations above ROW_WRITE_BIG_MEMBERS
ROW_WRITE_BIG_MEMBERS = 50  # a channel must not cost a row per member and message
CONVERSATIONS_CACHED_MAX = 50_000  # conversations of which a node remembers some small thing
MEMBERS_CACHED_MAX = 300_000  # members in the lists that a node keeps in memory: 0.3 KB each, so about 90 MB

# --- presence and typing: true for a moment, dropped first ----------------------------------------------
WATCHED_MAX = 50  # conversations that one connection watches: those on its screen, not the whole inbox
WATCH_S = 60  # a node counts as having watchers for this long after it last announced them
WATCH_RENEW_S = 20.0  # how often a node announces its watchers: two announcements may be lost
TYPING_S = 7.0  # a typist without a frame for this long has stopped; clients renew every few seconds
TYPING_AGAIN_S = 2.0  # one typing event of the same typist is pushed in this time
TYPISTS_MAX = 10_000  # people typing at the same time through one node; more are not shown
AWAY_S = 3.0  # a user who is back within this time was never away: a reload, or a change of network
PRESENCE_MEMBERS_MAX = 50  # in a conversation with more members, a new watcher gets no list of who is online
PRESENCE_BURST_MAX = 200  # presence events in answer to one watch
PROFILES_MAX = 100  # profiles in one answer: a read of a row each
PRESENCE_CONVERSATIONS_MAX = 50  # a user's latest conversations, whose watchers learn that the user comes or goes
PRESENCE_BATCH = 20  # users whose coming or going is published in one round trip
PRESENCE_PACE_S = 0.05  # pause between two such batches: a storm of reconnects must not feel it
PRESENCE_WAITING_MAX = 10_000  # users whose presence waits to be published; the next comparison finds the rest
PRESENCE_COMPARED_MAX = 1_000  # people compared with their leases per WATCH_RENEW_S: this finds lost events
LIVE_STATUS_TASKS_MAX = 1_000  # typing and presence events being pushed at the same time; more are dropped

# --- keyspace and tables --------------------------------------------------------------------------
KEYSPACE_COMMAND_S = 5.0  # a command without an answer for this long: the link is cut and made again
KEYSPACE_CONNECT_S = 3.0  # one attempt to connect, AUTH and load included
KEYSPACE_RETRY_S = 0.2  # pause between attempts to reconnect, with jitter
KEYSPACE_WAIT_S = 0.5  # a call waits this long for a link that just went down, then it is refused at once
CLUSTER_REFRESH_S = 2.0  # how often the topology is read again: a failover that no call met is found by then
CLUSTER_RETRY_S = 0.2  # the same while a shard is down, and the least pause between two readings
CLUSTER_REDIRECTS_MAX = 5  # a call that is redirected more often than this meets a broken cluster
CLUSTER_KEYS_CACHED_MAX = 50_000  # keys whose slot is remembered: 10 MB at most
KEYSPACE_RUNS_MAX = 50_000  # runs that wait for answers on one link; the deadline empties it long before
VALKEY_START_S = 300.0  # the embedded server reads its AOF first; a big one takes minutes, not more
VALKEY_MEMORY_SHARE = 0.5  # of the machine: past it writes are refused, before the kernel kills a process
VALKEY_STOP_S = 10.0  # from SIGTERM to the last fsync; then it is killed
VALKEY_STEADY_S = 10.0  # an embedded server that dies younger than this is in a crash loop
VALKEY_RESTART_S_MAX = 5.0  # pause before a restart in a crash loop, at most
VALKEY_LOCK_S = 0.5  # a verb that only reads holds the data folder's lock for microseconds
VALKEY_LOG_BYTES_MAX = 10 * 1024 * 1024  # a longer log is set aside at the next start; one old log is kept
UNIX_PATH_BYTES_MAX = 100  # sockaddr_un has room for 107 on Linux and 103 on macOS
EPOCH_CHECK_S = 1.0  # design: the epoch is read again this often
SENTINEL_CHECK_S = 2.0  # how often a link asks the sentinels whether its server is still the primary
NODE_LEASE_S = 10.0  # a node that renewed nothing for this long is dead, and another node finishes its work
NODE_RENEW_S = 2.0  # how often a node renews its lease
READY_KNOWN_S = 1.0  # /readyz asks the stores this often at most: anybody may call it, without a token
READY_S = 2.0  # a store that does not answer /readyz in this time counts as down
DEVICES_REMEMBERED_MAX = 100  # device names kept per user; past it the longest unseen half is forgotten
CLOCKS_APART_S = 1.0  # two nodes: where two times differ by less than this, their order is unknown
LEASE_S = 45.0  # a connection without a renewal for this long is not live: three renewals may be missed
LEASE_RENEW_S = 15.0  # how often a node renews the leases of its connections
BUS_BYTES_MAX = 4 * 1024 * 1024  # one publish to another node; well below the 8 MB at which servers cut subscribers
BUS_PROBE_S = 1.0  # a subscription sends PING this often, and must get something within KEYSPACE_COMMAND_S
BUS_WAITING_MAX = 10_000  # items for one node while the keyspace is down; a lost one leaves a gap, which is found
JOIN_WAIT_S = 0.3  # beyond NODE_RENEW_S: a node that joins waits for the nodes that have not answered yet
GAP_WAIT_S = 0.05  # design: an entry that is not the next one waits this long before the gap is read from the log
GAP_AGAIN_S = 0.2  # a gap that the log has too is read again this often, until it is filled or voided
STREAM_IDLE_S = 90.0  # after this long without an entry, perhaps no member was connected here: twice a lease
SEAM_S = 30.0  # how far back a node reads for entries that it missed: well above the difference of two clocks
RECEIPT_WRITE_S = 0.2  # receipts of a burst become one write per member and conversation
RECEIPT_MEMBERS_MAX = 50  # above it senders get summaries: a frame per member and message costs more than the message
RECEIPT_LARGE_PASSES = 10  # receipts of a large conversation wait for so many writes: 2 s, below the grace of a push
RECEIPTS_PER_USER_MAX = 2_000  # conversations of one user with a receipt that waits: more than a device gets at once
RECEIPTS_UNKNOWN_PER_USER_MAX = 100  # of them conversations that this node does not know: they may be made up
RECEIPTS_WAITING_MAX = 50_000  # receipts waiting to be written; a lost one is sent again with the next
RECEIPT_ENTRIES_MAX = 2_000  # entries read to find the senders for the receipts of one flush
RECEIPTS_KNOWN_MAX = 50_000  # receipts that a node remembers, so that a late one never shows less than an earlier one
RESUME_ENTRIES_MAX = 500  # entries replayed per conversation; the rest is read as history
RESUME_HELD_MAX = 5_000  # live events that wait for a resume to end; past it the reader is slow
CONNECTS_MAX = 32  # connects and resumes carried out at the same time: a storm must not starve the connected
RESUMES_SLOW_MAX = 64  # resumes that wait for their readers without a permit: each holds up to 8 pages of entries
DRAIN_S = 30.0  # design: from SIGTERM to exit 0, at most
WORKERS_MAX = 256  # worker processes of one supervisor: more than any machine has use for
WORKER_DEATHS_MAX = 3  # design: a worker that dies this often within WORKER_DEATHS_S stops all of them
WORKER_DEATHS_S = 60.0  # the time in which deaths of a worker count together
WORKER_START_S = 120.0  # a worker that does not listen by then counts as dead; a large SQLite file upgrades its schema
WORKER_RETRY_S = 2.0  # pause before a worker that found a store down is started again
WORKER_STOP_S = DRAIN_S + 10.0  # from SIGTERM until a worker is killed
WORKER_ASK_S = 1.0  # a worker or supervisor that does not answer another by then is left out
WORKER_LINE_BYTES_MAX = 8 * 1024 * 1024  # one page of metrics between two processes
WORKER_QUESTIONS_MAX = 64  # questions between two processes under way; each is shared by its callers

COUNT_RESYNC_S = 0.5  # counts of two nodes within this time may have crossed; longer than any publish takes
COUNT_RESYNC_USERS_MAX = 100_000  # users remembered with the node that pushed counts last
COUNT_RESYNC_CONVERSATIONS_MAX = 200  # conversations of a user pushed again at once; an inbox page shows the rest
PUSHES_AT_ONCE = 50  # events of one conversation pushed in a turn of the loop: half a millisecond of it

# --- pending deliveries and push ------------------------------------------------------------------
DUE_SHARDS = 16  # sorted sets of conversations that are due: a cluster spreads them
DUE_CLAIM_MAX = 64  # conversations taken from one shard at a time
DUE_HOLD_S = 30.0  # a taken conversation is left to its node for this long, then any node may take it
DUE_LOOK_S = 1.0  # how often a node checks for what is due
DUE_PASSES_MAX = 16  # conversations checked together: their reads share transactions
DUE_PASS_S = 20.0  # one conversation, all of it; below DUE_HOLD_S, so that no node finishes after another began
DUE_ENTRIES_MAX = 200  # entries that a node reads back in a conversation that it has not checked before
DUE_RECENT_MAX = 100_000  # conversations remembered, to record them again after a lost keyspace
WAITING_TTL_S = 30 * 86_400  # a pending delivery that nobody fetched; the message itself stays
WAITING_EXPIRE_S = 600.0  # how often expired pending deliveries are deleted
DEVICES_PER_USER_MAX = 20  # registered for push; the device that was not seen for longest makes room
PUSH_TOKEN_CHARS_MAX = 4_096  # the longest token or endpoint that a provider gives out
PUSH_SHARDS = 4  # streams of jobs: a cluster spreads them
PUSH_JOBS_MAX = 100_000  # jobs to do in one shard (the oldest are given up), and as many to try again (the latest due)
PUSH_DEAD_MAX = 10_000  # dead letters kept for an operator to read
PUSH_DELIVERIES_MAX = 5  # design: a job that was handed out this often and never finished is a dead letter
PUSH_IDLE_S = 30.0  # a job that is not finished for this long belongs to a dead worker
PUSH_CONSUMER_IDLE_S = 3_600  # a worker not seen for this long, and without a job, is taken off the group's list
PUSH_JOB_S = 15.0  # one device, a renewed token included; below PUSH_IDLE_S: a slow worker is not a dead one
PUSH_SEND_S = 8.0  # one request to a provider
PUSH_IN_FLIGHT_MAX = 64  # jobs of one node under way; HTTP/2 carries them over one connection
PUSH_POLL_S = 0.5  # how often a node checks for jobs of other nodes
PUSH_RETRY_S = 5.0  # the first wait after a provider failed, doubled each time
PUSH_RETRY_S_MAX = 600.0  # the longest of these waits; a provider may ask for more
PUSH_RETRY_AFTER_S_MAX = 86_400.0  # the longest wait that a provider may ask for: the job is a dead letter by then
PUSH_AGE_S = 86_400  # a job that failed for this long is a dead letter
PUSH_TTL_S = 28 * 86_400  # how long a provider keeps a notice for a device that is off: the most that all three take
TOUCHED_TOGETHER = 500  # devices whose last_seen is written in one turn: acknowledgements wait behind them
PUSH_NOTES_MAX = 50_000  # acknowledgements and badges of a node that wait to be written; more are forgotten
ACKS_FIELDS_MAX = 20_000  # of one user, devices times conversations; beyond it all of them are forgotten
ACKS_TTL_S = 86_400  # what a device has acknowledged or was notified of; if forgotten, it may be notified once more
ACKS_WRITE_S = 0.5  # acknowledgements of devices are written this much later, many at a time; far below the grace time

# --- doctor, top, traces ----------------------------------------------------------------------------
DOCTOR_CHECK_S = 20.0  # one family of checks, all of it: a store that hangs must not hide what the others found
DOCTOR_CENSUS_S = 20.0  # walking the keys of one server, unless --budget says otherwise; a million keys take less
DOCTOR_SCAN_COUNT = 200  # keys read in one turn of the server: about half a millisecond of it
DOCTOR_MEASURED_MAX = 200  # ordinary keys of a family whose memory is asked for: enough for a mean
DOCTOR_BIG_MAX = 20  # biggest keys that are reported
DOCTOR_HOT_MAX = 100  # keys read a second time, to see which are in use
DOCTOR_FOREIGN_ENTRIES_MAX = 100_000  # a larger key that is not ours is reported: walking it takes tens of milliseconds
DOCTOR_MEMORY_SAMPLES = 5  # elements of a key from which its server estimates its memory
DOCTOR_SLOWLOG_MAX = 128  # the server's own default length: all there is
DOCTOR_LOAD_S = 0.3  # between two readings of a server's CPU, at least: long enough for a figure
DOCTOR_PINGS = 50  # pings for p50 and p99: 5 ms on a good network
DOCTOR_SKEW_S = 1.0  # clocks further apart than this are wrong: leases, and what is due, would be early or late
DOCTOR_PING_S = 0.005  # a slower keyspace (p99) makes every stage of a send slow
DOCTOR_FSYNC_S = 0.05  # a slower disk (p99) makes every commit slow
DOCTOR_FSYNCS = 12  # writes for p50 and p99: each takes as long as a commit
DOCTOR_SLOW_CALL_US = 10_000  # the server's own idea of a slow command
DOCTOR_DISK_BYTES_MIN = 512 * 1024 * 1024  # room for an AOF rewrite and a checkpoint of a small installation
DOCTOR_DISK_SHARE_MIN = 0.05  # the share of a disk below which it is full by tomorrow
DOCTOR_INTEGRITY_BYTES_MAX = 64 * 1024 * 1024  # a database of this size is read through in a fraction of a second
DOCTOR_OPEN_FILES_MIN = 10_240  # a connection is an open file; 10,000 of them fit a small node
DOCTOR_SECRET_BITS_MIN = 80  # below it a secret can be searched with rented machines
TOP_FETCH_S = 2.0  # one read of /metrics; a node that takes longer is shown as lost
TOP_PAGE_BYTES_MAX = 4 * 1024 * 1024  # a page of metrics is a few dozen kilobytes
OTEL_EXPORT_S = 5.0  # one hand-over of spans to the collector, beside the event loop
OTEL_CLOSE_S = 3.0  # for what waits at the end; a collector that is down must not hold up a drain
OTEL_SENDS_MAX = 32  # messages of one traced batch with a span of their own: enough to see, and a batch may hold 512

# --- limits, audit, activity ----------------------------------------------------------------------
CLASSES = ("send", "read", "typing", "connect", "http", "create", "search", "upload", "reaction")  # each has its limit
MEMBERS_NAMED_PER_SLOT = 50  # protocol: a new conversation takes one slot of class `create` for so many members
MEMBERS_CHANGED_PER_SLOT = 10  # protocol: the same for members who are added to one that exists
OVERRIDES_MAX = 10_000  # all of them are in every node's memory; for more people than that there are roles
OVERRIDES_READ_S = 2.0  # how often a node checks whether overrides changed: one small read
ROLES_KNOWN_MAX = 200_000  # users whose role a node remembers: more than it can have connected
LIMIT_COUNT_MAX = 9_999_999  # of an override, as of a setting
LIMIT_WINDOW_S_MAX = 86_400  # of an override, as of a setting
REFUSALS_PER_PERIOD_MAX = 2  # refusals of one user that are answered at once; the next wait for the next period
REFUSALS_PERIOD_S = 0.01  # 200 refusals a second are plenty to learn from; few at a time, so nobody waits behind them
REFUSED_WAITING_MAX = 10_000  # REST requests of refused users that wait for their answer; past it they are answered
AUDIT_SHARDS = 4  # streams: a cluster spreads them
AUDIT_FLUSH_S = 0.1  # design: what is gathered is written ten times a second, with a count
AUDIT_NOTES_MAX = 2_500  # different events gathered per shard; past it users are counted together as `*`
AUDIT_ACTIONS_MAX = 250  # actions gathered per shard while the keyspace is down; past it the oldest are forgotten
AUDIT_FLUSH_MAX = 500  # events of one shard in one flush: a script must stay short
AUDIT_FLUSH_TTL_S = 3_600  # a flush whose answer was lost is sent again within seconds of the keyspace's return
AUDIT_ENTRIES_MAX = 100_000  # entries kept in one shard: 20 MB; the oldest are trimmed
AUDIT_TTL_S = 30 * 86_400  # a stream without a new entry for this long is deleted
AUDIT_TAKE_MAX = 500  # entries that a worker takes from one shard at a time
AUDIT_POLL_S = 1.0  # how often a worker checks for new entries
AUDIT_IDLE_S = 30.0  # an entry that was taken and not counted for this long belongs to a dead worker
AUDIT_DELIVERIES_MAX = 5  # design: an entry handed out this often without being counted is a dead letter
AUDIT_DEAD_MAX = 10_000  # dead letters kept for an operator to read
AUDIT_SUMS_MAX = 10_000  # users and classes counted apart in one minute and shard; past it they are counted as `*`
AUDIT_SUMS_TTL_S = 7 * 86_400  # a minute's sums: a week is enough to see what happened on the weekend
AUDIT_CONSUMER_IDLE_S = 3_600  # a worker not seen for this long is taken off the group's list
AUDIT_MINUTES_MAX = 1_440  # minutes that one question about sums may cover: a day
RECOUNT_TRIES_MAX = 10  # a minute whose sums change during every try is left as it is
ACTIVITY_WRITE_S = 5.0  # the users of today are written this much later, each user once a day
ACTIVITY_WRITE_MAX = 1_000  # users in one such write
ACTIVITY_USERS_MAX = 200_000  # users of today that a node remembers; past it some are written again, which is harmless
ACTIVE_TTL_S = 400 * 86_400  # 12 KB a day: a year and a month, to compare
DAYS_TTL_S = 400 * 86_400  # the days of a user who does not come any more
ACTIVE_DAYS_MAX = 400  # days that one question may cover

# --- integration ----------------------------------------------------------------------------------
WEBHOOKS_MAX = 100  # every node keeps all of them in memory, and asks each about every entry
WEBHOOK_CONVERSATIONS_MAX = 1_000  # conversations that one webhook names; without a list it hears of all
WEBHOOK_ENTRIES_MAX = 100  # protocol: entries in one request to an endpoint
WEBHOOK_BODY_BYTES_MAX = 512 * 1024  # of entries in one request; many endpoints refuse more than a megabyte
WEBHOOK_POST_S = 10.0  # one request to an endpoint, all of it
WEBHOOK_LEASE_S = 30.0  # a node that delivers is alone for so long: longer than a request and its writes
WEBHOOK_BACKOFF_S = 1.0  # the pause after a first failure of an endpoint; each next one is twice as long
WEBHOOK_BACKOFF_MAX_S = 60.0  # an endpoint that is back hears of everything about a minute later
WEBHOOK_REFUSALS_MAX = 8  # refusals of the same entries in a row, over two minutes; then the conversation is paused
WEBHOOK_POSTS_MAX = 8  # requests to one endpoint at the same time, from one node
WEBHOOK_TASKS_MAX = 256  # conversations that a node brings to their webhooks at the same time; others wait
WEBHOOK_LOOK_S = 1.0  # how often a node looks for work that it did not see itself, such as that of a dead node
WEBHOOK_LOOK_MAX = 200  # conversations found in one look
WEBHOOK_JOIN_S = 1.0  # a webhook that is slower than this does not hold up the others of a conversation
WEBHOOKS_READ_S = 1.0  # how often a node reads the list of webhooks
WEBHOOKS_STALE_S = 3.0  # a node with an older list acts as if any webhook might exist; a new one begins after it
WEBHOOK_LEAVE_S = 2.0  # for requests under way when a node leaves; another node repeats what is cut off
WEBHOOK_STATE_MAX = 500  # conversations with undelivered entries that the state of a webhook looks at
WEBHOOK_LAG_MAX = 50  # the same for the metric, which is read all the time
WEBHOOK_WALK_USERS = 20  # users whose conversations one step of a walk finds, for a webhook from the start

# --- messages and time ----------------------------------------------------------------------------
TIMED_EVERY_S = 0.5  # pause between two looks at what is due; scheduled messages are at most 2 s late
TIMED_LEASE_S = 1.2  # a node that looked at nothing for this long has lost its turn
SLOW_S_MAX = 86_400  # protocol: one message a day
RETENTION_S_MAX = 3_660 * 86_400  # ten years; without a rule messages stay for ever
SCHEDULED_PER_USER_MAX = 100  # messages that wait for their time; a list of them is one page
SCHEDULED_AHEAD_S = 366 * 86_400  # a message for a later time is a mistake

# --- the cold tier --------------------------------------------------------------------------------
SEGMENT_ENTRIES_MAX = 1_000  # entries that one segment covers: a page of history reads one object, rarely two
SEGMENT_BYTES_MAX = 512 * 1024  # of text in one segment, before compression: decoded in a few milliseconds
SEGMENT_ENTRIES_MIN = 100  # a smaller one waits for ARCHIVE_PATIENCE_S: objects are paid for one by one
SEGMENT_CACHE_BYTES_MAX = 32 * 1024 * 1024  # decoded segments that a node keeps: a reader who scrolls reads each once
ARCHIVE_PATIENCE_S = 7 * 86_400  # how long past its day a text may wait for others; never longer than after_days
ARCHIVE_PAGE = 250  # entries read at a time: the largest texts are 4 MB then
ARCHIVE_WALK = 500  # conversations checked per step of a pass
ARCHIVE_AT_ONCE = 8  # conversations archived side by side: an object's round trips overlap
ARCHIVE_MOVES_MAX = 250  # rows changed in one commit on SQLite: sends wait for it, a millisecond or two
ARCHIVE_LEASE_S = 30.0  # an archiver that renewed nothing for this long has lost its lease
ARCHIVE_RENEW_S = 5.0  # how often an archiver renews its lease: several renewals may be missed
ARCHIVE_SWEEP_S = 86_400  # how often all objects are listed, to find those that nothing refers to
ARCHIVE_ORPHAN_S = 86_400  # an object younger than this is not swept, whatever else is known of it
ARCHIVE_RECHECK_ROUNDS = 5  # tries for a segment whose messages are edited while it is rewritten
COLD_READ_S = 8.0  # one object for a reader: after that the page is answered `unavailable`
COLD_TRIES_MAX = 3  # a row that moved to another segment meanwhile is read again
DAMAGED_KNOWN_S = 60.0  # a damaged segment is read again after this time: an operator may have restored it
MISSING_KNOWN_S = 2.0  # a missing segment is read again after this time: a read that finds nothing is cheap
DAMAGED_KNOWN_MAX = 1_000  # damaged segments that a node remembers
BLOBS_REQUEST_S = 20.0  # one request to the blobs: a segment is small
BLOBS_CONNECT_S = 5.0  # one attempt to reach them
BLOBS_RETRIES = 5  # of a request that failed in passing
BLOBS_DEADLINE_S = 60.0  # one request with all its retries

# --- files ----------------------------------------------------------------------------------------
FILES_PER_MESSAGE_MAX = 10  # protocol: files of one message, each a record in its commit
FILE_NAME_CHARS_MAX = 255  # file systems take no longer ones, and a person downloads them
FILE_TYPE_CHARS_MAX = 127  # of `mime`, as registries have it
FILE_PART_BYTES = 5 * 1024 * 1024  # protocol: sent again at most once when the network breaks
FILE_PARTS_MAX = 100  # of one upload: larger files have larger parts
FILE_CHUNK_BYTES = 256 * 1024  # of a file in a node's memory at a time, for each upload and download under way
UPLOAD_S = 86_400  # an upload that is not attached to a message within a day is removed
FILE_LINK_S = 60  # protocol: a link to a file lives so long: a removed member keeps nothing longer
FILES_LOOKED_MAX = 500  # records that one page of files looks at: those of one kind may be rare
FILE_STREAMS_MAX = 512  # parts and files of a folder that pass a node at a time: each takes half a megabyte at most
FILE_STREAMS_PER_USER_MAX = 16  # the same of one user: a browser has six
FILES_SWEPT = 100  # records of files that a sweep reads at a time
FILE_DAY_TRIES_MAX = 20  # uploads of one user that begin at the same moment count one after the other

# --- the admin page -------------------------------------------------------------------------------
STREAM_LAG_S = 15.0  # how often a node reads the lag of the streams: once per scrape of Prometheus
SAMPLE_S = 2.0  # how often a node writes its counts for the charts: one small write
SAMPLES_MAX = 150  # samples kept of each node: five minutes
SAMPLES_TTL_S = 600  # of a node that is gone

# --- trying it out --------------------------------------------------------------------------------
DEV_TOKEN_TTL_S = 30 * 86_400  # a token of --dev: a demo outlives a holiday
GREETINGS_WAITING_MAX = 100  # users whom the bot of --dev has yet to greet; more are not greeted
