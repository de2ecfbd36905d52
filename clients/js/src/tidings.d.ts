/**
 * The JavaScript client of Tidings: the types of tidings.js, and the reference of every name.
 *
 * Names on the wire are snake_case, here they are camelCase; the values are the same. Times are milliseconds since 1970
 * on the clock of the server. A seq is a position in the log of a conversation.
 */

// --- values ------------------------------------------------------------------------------------------

export type ConversationKind = 'direct' | 'group' | 'channel';
export type Role = 'owner' | 'admin' | 'member';
/** `connecting` includes the wait before a retry. `disconnected`: before connect(), after close(), or after a stop. */
export type ConnectionState = 'disconnected' | 'connecting' | 'connected';
/** The state of an own message. Delivered and read mean: by all other members of the conversation. */
export type MessageState = 'sending' | 'sent' | 'delivered' | 'read' | 'failed';

export interface MemberChange {
  readonly action: 'added' | 'removed' | 'left' | 'role' | 'accepted';
  readonly userIds: readonly string[];
  readonly role: Role | null;
}

/** A numbered entry as the server keeps it. The seqs of a conversation have no gaps. */
export interface Entry {
  readonly seq: number;
  /** 'message', 'member', 'edit', 'delete', 'void', 'reaction', 'pin', 'conversation', or one of a newer server. */
  readonly kind: string;
  readonly messageId: string | null;
  readonly senderId: string | null;
  readonly text: string | null;
  readonly ts: number | null;
  readonly sentAt: number;
  readonly deleted: boolean;
  /** Present when the text is in the cold tier and cannot be read now. */
  readonly unavailable?: true;
  readonly editedAt: number | null;
  readonly targetSeq: number | null;
  readonly member: MemberChange | null;
  /** Of a message: counts by key. Of a reaction: key, users who added it, users who took it away. */
  readonly reactions?: Reactions | readonly (readonly [string, readonly string[], readonly string[]])[];
  /** `reactions` of a message hold every entry of kind 'reaction' up to this one. */
  readonly reactionsSeq?: number;
  /** Of a message: it is pinned. Of a pin: whether it was set. */
  readonly pinned?: boolean;
  /** Of a change of the conversation: what it is now. */
  readonly conversation?: Readonly<Record<string, string | null>>;
}

export type Reactions = Readonly<Record<string, { readonly count: number; readonly mine: boolean }>>;

/** A row of a screen: a message, or a change of members. It never changes in place: an update brings a new object. */
export interface Message {
  /** The key of a row in a list: the same from `sending` to `read`, and after a reload. */
  readonly key: string;
  readonly conversationId: string;
  /** null until the server has numbered it. */
  readonly seq: number | null;
  readonly kind: 'message' | 'member';
  readonly messageId: string | null;
  readonly senderId: string | null;
  /** null when deleted or unavailable, and for a change of members. */
  readonly text: string | null;
  /** The application's own object, as it was sent. */
  readonly data: Record<string, unknown> | null;
  /** It counts for nobody, and moves no conversation in the inbox. */
  readonly silent: boolean;
  /** The seq of the message that it quotes. */
  readonly replyTo: number | null;
  /** The root of the thread that it is a reply in. */
  readonly threadSeq: number | null;
  /** It is a reply that counts in the conversation too. */
  readonly alsoHere: boolean;
  /** Of a root, in pages: its thread as the user sees it. */
  readonly thread?: ThreadSummary;
  readonly files: readonly MessageFile[];
  /** It was written by somebody whom the user has blocked. */
  readonly hidden?: true;
  /** It was imported: `ts` is the time to show. */
  readonly imported?: true;
  /** The server deletes it then; null: never. */
  readonly expiresAt: number | null;
  /** The users whom its author named, and whether it is for all members or those who were online. */
  readonly mentions: readonly string[];
  readonly mention: 'all' | 'here' | null;
  /** The sender's clock; for display only. */
  readonly ts: number | null;
  /** The server's clock; null until it is stored. */
  readonly sentAt: number | null;
  readonly deleted: boolean;
  /** The text is in the cold tier and cannot be read now. The message is not deleted. */
  readonly unavailable: boolean;
  readonly editedAt: number | null;
  readonly member: MemberChange | null;
  /** Counts by key; empty when there are none. */
  readonly reactions: Reactions;
  readonly reactionsSeq: number;
  readonly pinned: boolean;
  readonly mine: boolean;
  /** null for messages of others and for changes of members. */
  readonly state: MessageState | null;
  /** Of a message that is written while it is read: 'streaming', 'done' or 'interrupted'. */
  readonly stream?: 'streaming' | 'done' | 'interrupted' | null;
  /** The reason of a failure, or null. */
  readonly error: TidingsError | null;
}

export interface Hello {
  readonly userId: string;
  readonly connectionId: string;
  readonly serverTime: number;
  readonly serverVersion: string;
  readonly storeEpoch: string;
  readonly pingIntervalMs: number;
  /** Both are null while the server rebuilds the inbox; the event `unread` follows. */
  readonly totalUnread: number | null;
  readonly unreadConversations: number | null;
}

export interface ReadState {
  readonly conversationId: string;
  readonly readSeq: number;
  readonly unreadCount: number | null;
  readonly unreadCapped: boolean;
  readonly firstUnreadSeq: number | null;
  readonly totalUnread: number | null;
  readonly mentionCount: number;
  readonly firstMentionSeq: number | null;
  readonly totalMentions: number;
}

export interface Member {
  readonly userId: string;
  readonly role: Role;
  readonly joinedSeq: number;
  readonly joinedAt: number;
}

export interface ConversationDetails {
  readonly conversationId: string;
  readonly kind: ConversationKind;
  readonly name: string | null;
  readonly avatarUrl: string | null;
  readonly history: 'all' | 'joined';
  readonly head: number;
  readonly createdAt: number;
  /** By user id. Of a long list the first 1,000. */
  readonly members: readonly Member[];
  /** How many members there are, where `members` does not have them all. */
  readonly membersCount?: number;
}

export interface MembersPage {
  readonly members: readonly Member[];
  /** null: that was the last page. */
  readonly nextCursor: string | null;
}

export interface Receipts {
  readonly read: readonly string[];
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** When a member received and read the message, at the latest. It has those whose times are known. */
  readonly times?: Readonly<Record<string, { readonly deliveredAt?: number; readonly readAt?: number }>>;
  /** It is there where more members follow: pass it as `cursor`. */
  readonly nextCursor?: string;
}

export interface Presence {
  readonly userId: string;
  readonly online: boolean;
  /** null for a person who is online or was never seen. */
  readonly lastSeen: number | null;
}

export type WhoMay = 'anybody' | 'shared' | 'nobody';

export interface Preferences {
  readonly whoMayWrite: WhoMay;
  readonly whoMayAdd: WhoMay;
  /** The total on the badge: unread without muted conversations, all unread, or mentions. */
  readonly badge: 'loud' | 'all' | 'mentions';
  /** Of `quiet`, like 'Europe/Athens'; UTC where it is absent. */
  readonly timeZone?: string;
  /** Hours without a sound: days (1 is Monday) on which they begin, and times like '22:00'. A summary follows them. */
  readonly quiet?: readonly { readonly days: readonly number[]; readonly from: string; readonly to: string }[];
  /** What may make a sound all the same: 'mentions' where it is absent. */
  readonly quietLets?: 'mentions' | 'nothing';
}

export interface Profile {
  readonly userId: string;
  readonly name: string | null;
  readonly avatarUrl: string | null;
}

export interface SearchOptions {
  conversationId?: string;
  senderId?: string;
  after?: number;
  before?: number;
  has?: 'file' | 'link';
  limit?: number;
  cursor?: string | null;
}

export interface SearchPage {
  /** `snippet`: parts of the text around the hit, and of each part whether it is the hit. */
  readonly hits: readonly {
    readonly conversationId: string;
    readonly message: Message;
    readonly snippet: readonly (readonly [string, boolean])[];
  }[];
  readonly nextCursor: string | null;
  /** false: something was not looked at yet. */
  readonly complete: boolean;
}

export interface PersonFound extends Profile {
  readonly online: boolean;
}

export interface Budget {
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/** One page of the log, newest first. A cursor that is null means that nothing more lies in that direction. */
export interface HistoryPage {
  readonly messages: readonly Entry[];
  readonly nextBeforeSeq: number | null;
  readonly nextAfterSeq: number | null;
  readonly firstUnreadSeq: number | null;
  readonly head: number;
  readonly deliveredAllSeq: number;
  readonly readAllSeq: number;
}

// --- errors ------------------------------------------------------------------------------------------

export type ErrorCode =
  | 'bad_request' | 'bad_cursor' | 'unauthorized' | 'forbidden' | 'not_found' | 'conflict' | 'held' | 'too_large'
  | 'rate_limited' | 'internal' | 'unavailable'
  /** Codes of the client itself: no connection; no answer in time; close() was called; close code 45xx; the message was
   *  taken back; 1,000 messages wait, and this one was refused. */
  | 'disconnected' | 'timeout' | 'closed' | 'stopped' | 'discarded' | 'outbox_full';

export class TidingsError extends Error {
  constructor(code: ErrorCode | string, message: string, more?: {
    temporary?: boolean; retryAfterMs?: number | null; status?: number | null; closeCode?: number | null;
    reason?: string | null;
  });
  readonly code: ErrorCode | string;
  /** Whether the same request may succeed later. */
  readonly temporary: boolean;
  readonly retryAfterMs: number | null;
  /** The HTTP status of a REST answer. */
  readonly status: number | null;
  /** The close code of the WebSocket, where it was the reason. */
  readonly closeCode: number | null;
  /** Why a token was refused, where the server says it: 'expired', 'signature', 'revoked' and others. */
  readonly reason: string | null;
  /** Of a draft that is refused: the newer one. */
  readonly draft?: Draft;
}

// --- the outbox's storage ------------------------------------------------------------------------------

export interface OutboxRecord {
  readonly userId: string;
  readonly conversationId: string;
  readonly messageId: string;
  readonly text: string;
  readonly ts: number;
  /** The order of sending: it rises with each message of this device. */
  readonly order: number;
  /** The tab that sends it. */
  readonly owner: string;
  /** The code of a permanent refusal: the message is shown as failed, and is not sent again by itself. */
  readonly failed: { readonly code: string; readonly message: string } | null;
}

/** A storage of unsent messages that may survive a reload. Keys are opaque. */
export interface OutboxStorage {
  put(key: string, record: OutboxRecord): void | Promise<void>;
  /** Keep many records in one write. Without it each is put by itself. */
  putAll?(pairs: readonly (readonly [key: string, record: OutboxRecord])[]): void | Promise<void>;
  delete(key: string): void | Promise<void>;
  all(): readonly OutboxRecord[] | Promise<readonly OutboxRecord[]>;
}

/** The default: it ends with the page. A second client with the same storage finds the messages of the first. */
export function memoryStorage(): OutboxStorage;
/** Room for a few hundred short messages. It is synchronous, so a page may close right after a send. */
export function localStorageOutbox(options?: { prefix?: string; storage?: Storage }): OutboxStorage;
export function indexedDbOutbox(options?: { name?: string }): OutboxStorage;

// --- events ------------------------------------------------------------------------------------------

export interface ClientEvents {
  /** The state of the connection changed. `retryAt`: the time of the next attempt (clock of this machine), or null.
   *  `error`: why the connection was lost or stopped. */
  state: { state: ConnectionState; previous: ConnectionState; retryAt: number | null; error: TidingsError | null };
  /** A new message. Messages of others arrive in the order of the log, each once. An own message appears at once when
   *  it is sent here (state `sending`), or when another device sent it. Changes of members are messages too. */
  message: { conversation: Conversation; message: Message };
  /** A message on the screen changed: it was stored, delivered, read, edited or deleted, or it failed. */
  updated: { conversation: Conversation; message: Message; previous: Message };
  /** `conversation.messages` changed in another way: a page was loaded, the window moved, a message was discarded. */
  window: { conversation: Conversation };
  /** The next piece of a message that is being written. A message on the screen has it already. `offset` counts code
   *  points; the end of the message brings the whole text. */
  appended: { conversation: Conversation; seq: number; offset: number; text: string };
  /** Every numbered entry, own ones included, in the order of the log, each once: for bots and tests. */
  entry: { conversation: Conversation; entry: Entry };
  /** The list changed: order, preview, badge or flags. `conversation` is null when several rows changed. */
  inbox: { conversation: Conversation | null };
  /** Sends of a conversation wait, because the server refused one for now. `retryAt` (clock of this machine): when they
   *  go on; null: they go on now. `code` says why, for example 'rate_limited'. */
  waiting: { conversation: Conversation; retryAt: number | null; code: string | null };
  /** Counts changed. */
  unread: {
    conversation: Conversation | null; totalUnread: number; unreadConversations: number; totalMentions: number;
    unreadThreads: number;
  };
  /** The receipts of a member moved. `updated` follows for each message concerned. */
  receipt: { conversation: Conversation; userId: string; deliveredSeq: number; readSeq: number };
  /** In a large conversation: how many others have received and read one's newest message, `seq`. */
  receipts: { conversation: Conversation; seq: number; deliveredCount: number; readCount: number };
  /** The people who type now in a watched conversation. The list becomes empty by itself. */
  typing: { conversation: Conversation; userIds: readonly string[] };
  /** The presence of a person in a watched conversation changed. */
  presence: Presence;
  /** Another device changed the draft of a conversation; null: it has none any more. */
  draft: { conversation: Conversation; draft: Draft | null };
  /** The unread replies of a thread that the user follows changed. null: they are being counted. */
  thread: { conversation: Conversation; threadSeq: number; unreadCount: number | null; unreadThreads: number };
  /** A scheduled message of the user was refused for good. */
  'scheduled.failed': { messageId: string; code: string };
  conversation: { change: 'added' | 'updated' | 'removed'; conversation: Conversation };
  /** Entries were not replayed: too many were missed (`catchUpMax`), or the server has another store. Pages of the
   *  history have the entries up to `toSeq`. */
  skipped: { conversation: Conversation; fromSeq: number; toSeq: number };
  /** An error in the background that no call could report: of the storage, of a listener, of a receipt. */
  error: { error: unknown };
}

export type ConversationEvent = 'waiting' | 'message' | 'updated' | 'window' | 'entry' | 'inbox' | 'unread' | 'receipt' | 'typing'
  | 'conversation' | 'skipped';

// --- the client --------------------------------------------------------------------------------------

export interface ClientOptions {
  /** The address of the server, `https://chat.example.com`, without a name and a password. The default is the origin of
   *  the page. */
  url?: string;
  /** A fixed token, or better `getToken`. The client calls it at the start, before a token expires, after a refusal.
   *  After an error or 20 s without an answer it is called again, unless the error has `permanent: true`. */
  token?: string;
  getToken?: (why: { reason: 'start' | 'expiring' | 'refused' }) => string | Promise<string>;
  /** The name of this device, 1-128 of [A-Za-z0-9_.@-]. Its second connection replaces the first (close 4505).
   *  Without a name each connection is a device of its own, which is right for tabs. */
  device?: string;
  /** The storage of unsent messages. The default is memoryStorage(). */
  storage?: OutboxStorage;
  /** Messages kept per open conversation, 1000 by default. A closed conversation keeps none. */
  windowMax?: number;
  /** Entries replayed per conversation after an absence, 2000 by default. A bot that must see all sets Infinity. */
  catchUpMax?: number;
  /** How long a request waits for its answer, also without a connection, 15000 by default. Messages wait for ever. */
  requestTimeoutMs?: number;
  /** For runtimes without them: a class like the browser's WebSocket, a function like fetch, an object like
   *  navigator.locks. */
  WebSocket?: new (url: string) => WebSocketLike;
  fetch?: typeof globalThis.fetch;
  locks?: LocksLike | null;
}

export interface WebSocketLike {
  readyState: number;
  onopen: ((event: any) => any) | null;
  onmessage: ((event: any) => any) | null;
  onclose: ((event: any) => any) | null;
  onerror: ((event: any) => any) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}

export interface LocksLike {
  request(name: string, callback: () => Promise<unknown>): Promise<unknown>;
  query(): Promise<{ held?: { name?: string }[] }>;
}

/** A file of a message. `fileId` is null until it is uploaded. */
export interface MessageFile {
  readonly fileId?: string;
  readonly name: string;
  readonly mime: string;
  readonly bytes: number;
  readonly width?: number;
  readonly height?: number;
  readonly blurhash?: string;
}

export interface FilesPage {
  readonly files: ReadonlyArray<MessageFile & { readonly seq: number; readonly senderId: string }>;
  readonly nextCursor: string | null;
}

export interface SendOptions {
  /** Up to ten. They are uploaded in the turn of the message; the messages behind it wait. */
  files?: readonly Blob[];
  /** In place of `files`: files that are uploaded already, as the server has them. */
  uploaded?: readonly MessageFile[];
  /** Called after each part of a file. */
  onProgress?: (progress: { file: Blob; sent: number; size: number }) => void;
  /** Takes the message back while it waits or uploads, as `discard` does. */
  signal?: AbortSignal;
  /** 1-64 of [A-Za-z0-9_-]. The client makes one by default. */
  messageId?: string;
  /** The time of the sender's clock, now by default. */
  ts?: number;
  /** An object of the application, 8 KiB as JSON. With it the text may be empty. */
  data?: Record<string, unknown>;
  /** The message counts for nobody, and moves no conversation in the inbox. */
  silent?: boolean;
  /** The seq of the message that it quotes. */
  replyTo?: number;
  /** The root of the thread that it is a reply in. It counts there only, unless `alsoHere`. */
  threadSeq?: number;
  alsoHere?: boolean;
  /** The server deletes the message so many seconds after it was sent: 5 up to one year. */
  ttlS?: number;
  /** Users whom it mentions, 50 at most. */
  mentions?: readonly string[];
  /** Mention all members, or those who are online. */
  mention?: 'all' | 'here';
}

export type HistoryPlace = {
  beforeSeq?: number; afterSeq?: number; aroundSeq?: number; anchor?: 'first_unread' | 'first_mention'; limit?: number;
};

export class TidingsClient {
  constructor(options?: ClientOptions);

  readonly state: ConnectionState;
  /** Why the client stopped, or why it is not connected now. */
  readonly error: TidingsError | null;
  /** The time of the next attempt, or null. */
  readonly retryAt: number | null;
  /** null before the first hello. */
  readonly userId: string | null;
  readonly hello: Hello | null;
  readonly inbox: Inbox;
  /** Messages that wait to be sent, in all conversations. */
  readonly unsentCount: number;
  /** The server's clock as this client estimates it. */
  now(): number;

  /** Resolves with the first hello. Rejects when the client stopped for good (close 45xx, or a permanent error). */
  connect(): Promise<Hello>;
  /** End the connection and all waiting. The outbox stays in its storage; connect() may be called again. */
  close(): Promise<void>;
  /** Try at once instead of at `retryAt`. */
  reconnectNow(): void;

  /** Add a listener. Returns the function that removes it. */
  on<E extends keyof ClientEvents>(event: E, listener: (event: ClientEvents[E]) => void): () => void;
  off<E extends keyof ClientEvents>(event: E, listener: (event: ClientEvents[E]) => void): void;
  once<E extends keyof ClientEvents>(event: E): Promise<ClientEvents[E]>;

  /** Return the object of a conversation, always the same one for the same id. It makes no request. */
  conversation(conversationId: string): Conversation;
  createConversation(options: {
    kind: ConversationKind; members?: readonly string[]; name?: string | null; avatarUrl?: string | null;
    history?: 'all' | 'joined';
    /** Of one's own choice: the same one again is the same conversation, so the request is safe to repeat. */
    clientId?: string;
  }): Promise<Conversation>;
  /** Return the direct conversation with a user; create it if there is none. */
  direct(userId: string): Promise<Conversation>;

  /** Receive typing and presence of these conversations, beside the open ones; 50 together at most. */
  watch(conversationIds: readonly string[]): void;
  /** Return the presence known from events, or undefined. */
  presence(userId: string): Presence | undefined;
  /** Read presence from the server. Without userIds: of all other members. */
  fetchPresence(conversationId: string, userIds?: readonly string[]): Promise<readonly Presence[]>;

  /** Find people by the beginning of a name or user id. Case and accents do not matter. */
  findPeople(query?: string, options?: { limit?: number }): Promise<readonly PersonFound[]>;
  /** Threads that the user follows. */
  readonly threads: Threads;
  /** Messages that the user saved for oneself. */
  readonly saved: Saved;
  /** Messages that the server sends at their time. */
  readonly scheduled: Scheduled;
  /** Rules of conversations, and the ways into them and out of them. */
  readonly rules: Rules;

  /** Find messages of the user's own conversations by words, the newest first. Times are in ms. */
  search(q: string, options?: SearchOptions): Promise<SearchPage>;
  getProfile(userId: string): Promise<Profile>;
  block(userId: string): Promise<void>;
  unblock(userId: string): Promise<void>;
  blocks(): Promise<readonly { readonly userId: string; readonly since: number }[]>;
  preferences(): Promise<Preferences>;
  putPreferences(preferences: Partial<Preferences>): Promise<Preferences>;
  putProfile(profile: { name?: string | null; avatarUrl?: string | null }): Promise<Profile>;
  /** Upload the own profile picture: an image of at most 5 MiB. */
  putPicture(image: Blob): Promise<Profile>;
  rateLimits(): Promise<Readonly<Record<string, Budget>>>;
  /**
   * Iterate over every entry of every conversation, for ever. Without `after` it begins now; `'start'` is before the
   * first entry of all. The client must be connected.
   */
  entries(options?: { after?: string | null }): Entries;
  /** Make any other REST call with the token; the path begins with `/v1/`. Only answers are changed to camelCase. */
  rest<T = unknown>(method: string, path: string, body?: unknown): Promise<T>;
}

/** Entries of all conversations, in order per conversation. An entry is as the server has it, in camelCase. */
export class Entries implements AsyncIterableIterator<{ readonly conversationId: string; readonly entry: Entry }> {
  /** Everything up to the last entry that was handed out: pass it as `after` next time. */
  readonly cursor: string;
  /** Find out where the entries begin, before the first of them is asked for. */
  begin(): Promise<this>;
  next(): Promise<IteratorResult<{ readonly conversationId: string; readonly entry: Entry }>>;
  return(): Promise<IteratorResult<{ readonly conversationId: string; readonly entry: Entry }>>;
  [Symbol.asyncIterator](): this;
}

export interface RulesPatch {
  post?: 'all' | 'admins';
  slowS?: number | null;
  frozen?: boolean;
  visibility?: 'private' | 'listed' | 'open';
  retentionS?: number | null;
  data?: Record<string, unknown> | null;
}

/** Rules of conversations, and the ways into them and out of them. */
export class Rules {
  change(conversationId: string, rules: RulesPatch): Promise<unknown>;
  join(conversationId: string): Promise<void>;
  /** Make an invite; its text is shown once. */
  invite(
    conversationId: string, options?: { expiresS?: number; uses?: number; role?: 'admin' | 'member' },
  ): Promise<{ readonly invite: string; readonly url: string; readonly inviteId: string }>;
  /** Join by an invite, and return the id of the conversation. */
  use(invite: string): Promise<string>;
  ban(conversationId: string, userId: string, options?: { until?: number }): Promise<void>;
  unban(conversationId: string, userId: string): Promise<void>;
  report(conversationId: string, seq: number, reason?: string): Promise<void>;
}

/** A text that the user has typed and not sent. */
export interface Draft {
  readonly text: string;
  readonly version: number;
}

export interface PinnedMessage {
  readonly pinnedBy: string;
  readonly pinnedAt: number;
  readonly message: Entry;
}

export interface ThreadSummary {
  readonly replies: number;
  readonly lastSeq: number;
  readonly lastSentAt: number;
  readonly unreadCount: number;
  readonly following: boolean;
}

export interface ThreadRow {
  readonly conversationId: string;
  readonly threadSeq: number;
  /** null: the user may not see it. */
  readonly root: Entry | null;
  readonly replies: number;
  readonly lastSeq: number;
  readonly lastSentAt: number;
  readonly unreadCount: number;
  readonly firstUnreadSeq: number | null;
}

export interface ThreadsPage {
  readonly threads: readonly ThreadRow[];
  readonly nextCursor: string | null;
  readonly unreadThreads: number;
}

/** Threads that the user follows. A reply is a send with `threadSeq`. */
export class Threads {
  /** A page, the latest reply first. The pages of `unread` have `unreadThreads` rows together. */
  page(options?: { filter?: 'all' | 'unread'; limit?: number; cursor?: string | null }): Promise<ThreadsPage>;
  /** A page of the replies of one thread, newest first. */
  replies(
    conversationId: string, threadSeq: number, options?: { beforeSeq?: number; afterSeq?: number; limit?: number },
  ): Promise<HistoryPage>;
  follow(conversationId: string, threadSeq: number): Promise<ThreadState>;
  unfollow(conversationId: string, threadSeq: number): Promise<ThreadState>;
  /** Mark replies as read: up to a seq, or only these. Without either, all of them. */
  markRead(
    conversationId: string, threadSeq: number, mark?: { upToSeq?: number; seqs?: readonly number[] },
  ): Promise<ThreadState>;
  markUnread(conversationId: string, threadSeq: number, fromSeq: number): Promise<ThreadState>;
  /** Mark all threads of a conversation as read. */
  readAll(conversationId: string): Promise<ReadState>;
}

/** The counts of one thread. `unreadThreads` is left out where it is 0. */
export interface ThreadState extends ReadState {
  readonly threadSeq: number;
  readonly unreadThreads?: number;
}

export interface SavedMessage {
  readonly conversationId: string;
  readonly savedAt: number;
  readonly message: Entry;
}

/** Messages that the user saved. Nobody else learns of them. */
export class Saved {
  put(conversationId: string, seq: number): Promise<void>;
  remove(conversationId: string, seq: number): Promise<void>;
  /** A page, the latest saved first. It may be short: go on until nextCursor is null. */
  page(cursor?: string | null): Promise<{ readonly saved: readonly SavedMessage[]; readonly nextCursor: string | null }>;
}

export interface ScheduledMessage {
  readonly messageId: string;
  readonly conversationId: string;
  readonly sendAt: number;
  readonly text?: string;
  readonly data?: Record<string, unknown>;
  readonly silent?: boolean;
  readonly replyTo?: number;
  /** The ids of its files. */
  readonly files?: readonly string[];
  readonly ttlS?: number;
  readonly mentions?: readonly string[];
  readonly mention?: 'all' | 'here';
  readonly threadSeq?: number;
  readonly alsoHere?: boolean;
  /** The code of the refusal: the message is not tried again. */
  readonly failed?: string;
}

/** Messages that the server sends at their time. */
export class Scheduled {
  /** Schedule a message for `sendAt`, in milliseconds. The same messageId again replaces it. Files are uploaded now, and
   *  `signal` ends their upload. */
  put(
    conversationId: string, text: string, options: Omit<SendOptions, 'ts'> & { sendAt: number },
  ): Promise<ScheduledMessage>;
  /** The messages that wait, the soonest first. */
  all(): Promise<readonly ScheduledMessage[]>;
  remove(messageId: string): Promise<void>;
}

/** The list of conversations, the latest first. Rows are the Conversation objects themselves. */
export class Inbox {
  readonly conversations: readonly Conversation[];
  readonly totalUnread: number;
  readonly unreadConversations: number;
  /** Unread messages that mention the user. */
  readonly totalMentions: number;
  /** Followed threads with unread replies. */
  readonly unreadThreads: number;
  /** `loaded`: the first page was loaded. `hasMore`: there are more pages. */
  readonly loaded: boolean;
  readonly hasMore: boolean;
  /** The server answered from its tables alone, so counts may lag. */
  readonly stale: boolean;
  /** Load the first page, or load again from the top. */
  load(limit?: number): Promise<readonly Conversation[]>;
  loadMore(limit?: number): Promise<readonly Conversation[]>;
  /** Load the archived conversations, which the pages of the inbox leave out. */
  loadArchived(limit?: number): Promise<readonly Conversation[]>;
}

export class Conversation {
  readonly id: string;

  // The inbox row. Its fields are null, 0 or false until the server has sent it.
  readonly kind: ConversationKind | null;
  readonly name: string | null;
  readonly avatarUrl: string | null;
  readonly lastMessagePreview: string | null;
  readonly lastMessageTs: number;
  readonly lastSeq: number;
  /** Facts about the last message; null while the server has not told them. */
  readonly lastMessage: {
    readonly seq: number; readonly senderId: string | null; readonly kind: string; readonly deleted?: boolean;
    readonly textPreview?: string; readonly files?: number;
  } | null;
  /** When waiting sends go on (clock of this machine), after the server refused one for now; null: nothing waits. */
  readonly retryAt: number | null;
  /** null while the server rebuilds it. */
  readonly unreadCount: number | null;
  readonly unreadCapped: boolean;
  /** The read mark of the user: everything up to this seq is read. */
  readonly readSeq: number;
  readonly firstUnreadSeq: number | null;
  /** Unread messages that mention the user, and the first of them. */
  readonly mentionCount: number;
  readonly firstMentionSeq: number | null;
  /** Until when it is muted (ms); null: for good, or not at all. */
  readonly mutedUntil: number | null;
  /** The messages that the user is notified of. */
  readonly notify: 'all' | 'mentions' | 'none';
  /** The text that the user has typed and not sent, on any device. */
  readonly draft: Draft | null;
  /** The role of the user; null in a direct conversation. */
  readonly role: Role | null;
  /** The rules that differ from the defaults; null: none. */
  readonly rules: RulesPatch | null;
  /** The application's own. */
  readonly data: Readonly<Record<string, unknown>> | null;
  readonly muted: boolean;
  readonly pinned: boolean;
  readonly archived: boolean;
  readonly requested?: boolean;
  readonly invited?: boolean;
  /** The user is not a member any more. */
  readonly removed: boolean;

  // The window on the screen.
  readonly isOpen: boolean;
  /** Messages of the open conversation, oldest first, unsent ones last. A new array after every change. */
  readonly messages: readonly Message[];
  /** Whether the log goes on before and after `messages`. With hasNewer, new messages are not appended until loaded. */
  readonly hasOlder: boolean;
  readonly hasNewer: boolean;
  /** Set it to false while the reader is at older messages: then a full window takes no new ones (hasNewer) instead of
   *  dropping the oldest. The default is true. */
  follow: boolean;
  readonly typing: readonly string[];
  /** The lowest receipts among the other members. */
  readonly deliveredAllSeq: number;
  readonly readAllSeq: number;
  readonly unsentCount: number;

  /** Load the newest page, or the page at `at`, and watch typing and presence until close(). */
  open(options?: { at?: 'newest' | 'first_unread' | 'first_mention' | number; limit?: number }): Promise<readonly Message[]>;
  /** Drop the window; unsent messages stay. */
  close(): void;
  /** Replace the window: around a seq, at the oldest unread message, or at the newest one. */
  jumpTo(at: 'newest' | 'first_unread' | 'first_mention' | number, options?: { limit?: number }): Promise<readonly Message[]>;
  /** Load more. Resolves with the added messages, none when there are no more. Calls do not overlap. */
  loadOlder(limit?: number): Promise<readonly Message[]>;
  loadNewer(limit?: number): Promise<readonly Message[]>;
  /** Read a page of the log without changing the window. */
  history(place?: HistoryPlace): Promise<HistoryPage>;

  /** Put a message into the outbox at once, in order. Resolves when the server has it, rejects when it never will. The
   *  state of the message in `messages` shows the same. It survives a lost connection, and a reload with a storage. */
  send(text: string, options?: SendOptions): Promise<Message>;
  send(message: SendOptions & { text?: string }): Promise<Message>;
  /** Write a message piece by piece. A messageId such as `re-42` makes an answer come once. */
  stream(options?: StreamOptions): Promise<Streaming>;
  /** Send a failed message again. */
  retry(messageId: string): Promise<Message>;
  /** Take an unsent or failed message back. False when it is on its way or stored already. */
  discard(messageId: string): boolean;
  /** Change the text, the data or both. What is undefined stays; data null removes it. */
  edit(seq: number, text?: string, options?: { data?: Record<string, unknown> | null }): Promise<void>;
  delete(seq: number): Promise<void>;
  /** React to a message; the same reaction twice is once. Resolves with the reactions of the message then. */
  react(seq: number, key: string, on?: boolean): Promise<Reactions>;
  unreact(seq: number, key: string): Promise<Reactions>;
  /** Pin a message for everybody, or take the pin away. */
  pinMessage(seq: number, on?: boolean): Promise<void>;
  /** The pinned messages, the latest pinned first. */
  pins(): Promise<readonly PinnedMessage[]>;
  /** Keep a text that is not sent yet, on all devices; '' removes it. Where another device was first, the request fails
   *  with code 'conflict', and `draft` of the error and of the conversation is the newer one. */
  putDraft(text: string): Promise<Draft | null>;
  /** Say why the unread count is what it is: each of `entries` above `fromSeq` has one reason, or is unread. */
  explainUnread(): Promise<{
    readonly head: number; readonly readSeq: number; readonly fromSeq: number; readonly entries: number;
    readonly ranges: readonly (readonly [number, number])[]; readonly other: number; readonly deleted: number;
    readonly uncounted: number; readonly own: number; readonly requested: number; readonly blocked: number;
    readonly read: number; readonly unread: number; readonly unreadCount: number | null;
    readonly unreadCapped: boolean; readonly muted: boolean; readonly complete: boolean;
  }>;
  /** List who reacted to a message: key -> user ids. */
  reactions(seq: number): Promise<Readonly<Record<string, readonly string[]>>>;
  /** The files of the conversation, newest first. */
  files(asked?: { kind?: 'image' | 'file'; limit?: number; cursor?: string | null }): Promise<FilesPage>;
  /** A URL of a file that lives a minute and needs no token. */
  fileUrl(fileId: string, options?: { download?: boolean }): Promise<string>;
  /** List the members who have read it, those who have it, and the rest. A large conversation is listed in pages. */
  receipts(seq: number, page?: { limit?: number; cursor?: string | null }): Promise<Receipts>;

  /** Mark as read: up to a seq (by default everything), up to a time, or single seqs. Calls are folded together. */
  markRead(mark?: number | { upToTs: number } | { seqs: readonly number[] }): Promise<ReadState>;
  /** Mark everything from this seq on as unread. */
  markUnread(fromSeq: number): Promise<ReadState>;
  /** Call it with each keystroke. Others see it for some seconds; it ends by itself, or with a send. */
  keystroke(): void;
  stopTyping(): void;

  details(): Promise<ConversationDetails>;
  /**
   * Read names and pictures of members, 100 people at a time. People who are not members are left out. Without ids: of
   * all members; `too_large` when there are more than 100.
   */
  profiles(userIds?: readonly string[]): Promise<Profile[]>;
  update(changes: { name?: string | null; avatarUrl?: string | null }): Promise<ConversationDetails>;
  /** Read a page of the members, by user id. */
  members(page?: { limit?: number; cursor?: string | null }): Promise<MembersPage>;
  addMembers(userIds: readonly string[]): Promise<ConversationDetails>;
  removeMember(userId: string): Promise<void>;
  setRole(userId: string, role: Role): Promise<ConversationDetails>;
  accept(): Promise<ConversationDetails>;
  leave(): Promise<void>;
  /** Delete it for everyone. Only the owner may. */
  destroy(): Promise<void>;
  mute(muted?: boolean): Promise<void>;
  pin(pinned?: boolean): Promise<void>;
  archive(archived?: boolean): Promise<void>;

  /** Listen to the events of this conversation alone. */
  on<E extends ConversationEvent>(event: E, listener: (event: ClientEvents[E]) => void): () => void;
}

// --- streamed messages ---------------------------------------------------------------------------------

export interface StreamOptions {
  text?: string;
  messageId?: string;
  data?: Record<string, unknown>;
  replyTo?: number;
  silent?: boolean;
}

/** The writer of a message. Readers see every piece; after a reconnect it goes on from what the server has. */
export interface Streaming {
  readonly seq: number;
  /** The message was begun before, by this program or another: nothing is written again. */
  readonly isDuplicate: boolean;
  write(text: string): void;
  /** Resolves when the whole text is stored. Without an end the message is interrupted after a minute. */
  end(): Promise<void>;
}
