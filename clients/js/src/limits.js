/** Every limit of the client with its reason. */

// --- the connection ---
export const HELLO_MS = 10000; // from the opening of a socket to its hello
export const REQUEST_MS = 15000; // a request without an answer for this long has failed
export const SEND_MS = 30000; // after this long without an answer to a send, another connection sends it again
export const PROBE_MS = 10000; // how long a ping may take after a quiet time
export const ASLEEP_MS = 15000; // own timers fire more often: after a longer jump of the clock the program was asleep
export const RETRY_MS = 500; // the first wait after a lost connection is random below this; it doubles each time
export const RETRY_MS_MAX = 30000; // the longest of these waits
export const STABLE_MS = 5000; // a connection that lasted this long resets the waits
export const BUSY_MS = 2000; // the shortest wait after close 4013
export const TOKEN_MS = 20000; // getToken has this long to answer; then the client tries again, as after a failure
export const TOKEN_MARGIN_MS = 5000; // a token that expires this soon is not used for a new connection
export const TOKEN_LEAD_MS = 60000; // a token is renewed this long before its end, or at a quarter of the time left
export const TOKEN_AGAIN_MS = 1000; // getToken is not asked more often, also when it gives the same old token again
export const TIMER_MS_MAX = 2 ** 31 - 1; // the longest time that setTimeout can wait

// --- the protocol ---
export const RESUME_MAX = 200; // the server's limit of conversations in a resume, and in message.delivered
export const WATCH_MAX = 50; // the server's limit of watched conversations
export const PAGE = 100; // entries per page when catching up: the server's limit
export const PREVIEW_CHARS = 120; // the server cuts a preview here

// --- reading ---
export const WINDOW_MAX = 1000; // messages kept per open conversation: some dozen screens
export const CATCH_UP_MAX = 2000; // entries replayed after an absence; nobody reads more of them one by one
export const SINCE_MARGIN_MS = 30000; // an entry may arrive this late; the client notices repeated entries
export const GAP_MS = 150; // an own ok may overtake entries of others by a moment: a younger gap is not read
export const GAP_TRIES_MAX = 30; // reads of a gap that nothing fills: the server decides an open number within 3 s
export const HELD_MAX = 500; // entries kept beyond a gap; more are read from the history
export const AMENDS_MAX = 20; // edits and deletes remembered for a page that was read before them
export const MARKS_MS = 250; // receipts of the members of a group are read together
export const ACK_MS = 200; // deliveries of a burst are acknowledged together

// --- entries for bots ---
export const ENTRIES_ALL_MS = 60_000; // without news for so long, every conversation is read on

// --- sending ---
export const FLYING_MAX = 16; // unanswered sends of one conversation
export const PART_MS = 300_000; // a part of a file without an answer for this long is sent again
export const PART_BYTES_PER_MS = 16; // and for as long as its bytes take in a very slow network
export const PART_TRIES_MAX = 6; // attempts to send a part of a file; then the message waits for its next turn
export const OUTBOX_MAX = 1000; // messages that wait to be sent
export const ADOPT_MS = 2000; // how often a tab checks whether another tab ended with unsent messages

// --- typing and presence ---
export const TYPING_AGAIN_MS = 3000; // a typist repeats it this often: the server forgets after 7 s
export const TYPING_PAUSE_MS = 5000; // without a keystroke for this long the user has stopped
export const TYPING_MS = 8000; // a typist without a newer event for this long has stopped
export const PRESENCES_MAX = 5000; // people whose presence is remembered
