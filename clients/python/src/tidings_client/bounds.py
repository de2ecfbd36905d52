"""Every limit of the client with its unit and its reason.

The first group repeats limits of the protocol. A test compares them with the server's.
"""

from __future__ import annotations

# --- the protocol -----------------------------------------------------------------------------------
FRAME_BYTES_MAX = 64 * 1024  # one frame of a client; the server closes the socket above it
HTTP_BODY_BYTES_MAX = 64 * 1024  # one REST body; the server refuses a larger one
DATA_BYTES_MAX = 8 * 1024  # protocol: larger data is `too_large`
FILES_PER_MESSAGE_MAX = 10  # files of one message
TEXT_BYTES_MAX = 16 * 1024  # one message text in UTF-8
ACKS_MAX = 200  # conversations in one message.delivered
REACTION_KEY_BYTES_MAX = 32  # the key of a reaction
READ_SEQS_MAX = 1_000  # numbers in one message.read
RESUME_CONVERSATIONS_MAX = 200  # conversations in `resume`, and announced after it
PAGE_DEFAULT = 20  # entries or rows of a page: one screen
PAGE_MAX = 100  # the server serves a larger limit as this
MEMBERS_NAMED_MAX = 1_000  # members of a new conversation
MEMBERS_BULK_MAX = 10_000  # members added in one call; without a server key the server refuses more than 1,000
NAME_CHARS_MAX = 100  # the name of a user or a conversation
URL_CHARS_MAX = 2_000  # the address of an avatar

# --- the connection ---------------------------------------------------------------------------------
HANDSHAKE_S = 10.0  # one attempt to open the socket and receive hello; a node answers in milliseconds
FIRST_HELLO_S = 30.0  # until the first hello; then `connect` raises the reason
BACKOFF_S = 0.25  # the longest first pause before another attempt (full jitter); it doubles each time
BACKOFF_S_MAX = 30.0  # the longest pause: a client finds a node that came back within it
REFRESH_S = 60.0  # a token is renewed this long before it expires, so that a slow refresh is still in time
TOKEN_S = 10.0  # one call of the token callback; a callback that hangs must not prevent a reconnect
SINCE_SLACK_S = 60.0  # the clocks of two machines may differ by this when the client asks for changes
SERVER_FRAME_BYTES_MAX = 16 * 1024 * 1024  # a page of 100 of the largest texts, all of it escaped
CLOSE_S = 5.0  # `close` waits this long for unanswered sends
REST_S = 10.0  # the longest silence of a node within one REST request
ADD_MEMBER_S = 0.01  # more silence for each member that one request adds: 10,000 take a slow disk half a minute
HTTP_ANSWER_BYTES_MAX = 64 * 1024 * 1024  # one REST answer: no answer of a node has a quarter of it
HTTP_CONNECTIONS_MAX = 100  # HTTP connections of one client at once; further requests wait
HTTP_IDLE_S = 5.0  # an unused HTTP connection is closed, before the other side does it
TRIES_MAX = 6  # attempts of a request that may be repeated: they bridge about 8 s of trouble

PART_S = 120.0  # the longest silence within one part of a file, over a slow network
CHUNK_BYTES = 256 * 1024  # of a file in memory at a time

# --- sending and reading ----------------------------------------------------------------------------
SENDS_MAX = 128  # unanswered sends of one client; half of the limit of a socket
LANE_SENDS_MAX = 32  # unanswered sends of one conversation, so that others get their turn
ACK_S = 0.25  # delivery receipts of a burst become one frame; a receipt may be this late
GAP_S = 0.2  # an entry that is not the next waits this long, because its predecessors usually arrive
GAP_AGAIN_S = 0.5  # a gap whose number is undecided is read again this often; the server decides within seconds
READS_MAX = 8  # conversations whose gaps are read at once: a long absence must not flood the node
EVENTS_PAUSE = 2_000  # waiting events of a stream: the client stops reading the socket until there is room
EVENTS_MAX = 50_000  # the same while a request waits and the socket must be read: the stream ends with an error

# --- webhooks and streamed messages -----------------------------------------------------------------
ENTRIES_LOOK_S = 2.0  # how often the inbox is read for new entries without a connection
ENTRIES_ALL_S = 60.0  # how often every conversation is read on: some entries move no row of the inbox
WEBHOOK_AGE_S_MAX = 300.0  # an older signature may be a request that somebody has recorded
MENTIONS_MAX = 50  # users named in one message, as in the server
STREAM_PIECE_CHARS = 8 * 1024  # characters of a streamed message in one frame: it fits, whatever they are
