/**
 * Tidings, the JavaScript client: types of tidings.js.
 *
 * Names on the wire are snake_case, here camelCase; the values are the same. Times are milliseconds since 1970 on the
 * server's clock, seqs are positions in a conversation's log.
 */

// --- values ------------------------------------------------------------------------------------------

export type ConversationKind = 'direct' | 'group' | 'channel';
export type Role = 'owner' | 'admin' | 'member';
/** connecting: also while a retry is waited for. disconnected: before connect(), after close(), or stopped for good. */
export type ConnectionState = 'disconnected' | 'connecting' | 'connected';
/** Of one's own messages. Delivered and read mean: by everybody else in the conversation. */
export type MessageState = 'sending' | 'sent' | 'delivered' | 'read' | 'failed';

export interface MemberChange {
  readonly action: 'added' | 'removed' | 'left' | 'role';
  readonly userIds: readonly string[];
  readonly role: Role | null;
}

/** A numbered entry as the server keeps it. Their seqs have no holes. */
export interface Entry {
  readonly seq: number;
  readonly kind: 'message' | 'member' | 'edit' | 'delete' | 'void';
  readonly messageId: string | null;
  readonly senderId: string | null;
  readonly text: string | null;
  readonly ts: number | null;
  readonly sentAt: number;
  readonly deleted: boolean;
  /** Only where it is so: the text lies in the cold tier and cannot be read. */
  readonly unavailable?: true;
  readonly editedAt: number | null;
  readonly targetSeq: number | null;
  readonly member: MemberChange | null;
}

/** What a screen shows: a message, or a change of members. Never changed in place: an update brings a new object. */
export interface Message {
  /** The same from `sending` to `read`, and after a reload: the key of a row in a list. */
  readonly key: string;
  readonly conversationId: string;
  /** null until the server has numbered it. */
  readonly seq: number | null;
  readonly kind: 'message' | 'member';
  readonly messageId: string | null;
  readonly senderId: string | null;
  /** null when deleted or unavailable, and for a change of members. */
  readonly text: string | null;
  /** The sender's clock; for display only. */
  readonly ts: number | null;
  /** The server's clock; null until it is stored. */
  readonly sentAt: number | null;
  readonly deleted: boolean;
  /** Its text lies in the cold tier and cannot be read; it is not deleted. */
  readonly unavailable: boolean;
  readonly editedAt: number | null;
  readonly member: MemberChange | null;
  readonly mine: boolean;
  /** null for other people's messages and changes of members. */
  readonly state: MessageState | null;
  /** Why it failed; else null. */
  readonly error: TidingsError | null;
}

export interface Hello {
  readonly userId: string;
  readonly connectionId: string;
  readonly serverTime: number;
  readonly serverVersion: string;
  readonly storeEpoch: string;
  readonly pingIntervalMs: number;
  readonly totalUnread: number;
  readonly unreadConversations: number;
}

export interface ReadState {
  readonly conversationId: string;
  readonly readSeq: number;
  readonly unreadCount: number | null;
  readonly unreadCapped: boolean;
  readonly firstUnreadSeq: number | null;
  readonly totalUnread: number | null;
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
  readonly members: readonly Member[];
}

export interface Receipts {
  readonly read: readonly string[];
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
}

export interface Presence {
  readonly userId: string;
  readonly online: boolean;
  /** null for who is online, or was never seen. */
  readonly lastSeen: number | null;
}

export interface Profile {
  readonly userId: string;
  readonly name: string | null;
  readonly avatarUrl: string | null;
}

export interface Budget {
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/** One page of the log, newest first. A null cursor: nothing more that way. */
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
  /** The client's own: no connection; no answer in time; close() was called; close code 45xx; message taken back; 1,000
   * messages wait, and this one was not taken. */
  | 'disconnected' | 'timeout' | 'closed' | 'stopped' | 'discarded' | 'outbox_full';

export class TidingsError extends Error {
  constructor(code: ErrorCode | string, message: string, more?: {
    temporary?: boolean; retryAfterMs?: number | null; status?: number | null; closeCode?: number | null;
  });
  readonly code: ErrorCode | string;
  /** Whether the same request may succeed later. */
  readonly temporary: boolean;
  readonly retryAfterMs: number | null;
  /** The HTTP status of a REST answer. */
  readonly status: number | null;
  /** The WebSocket's close code, where it was the reason. */
  readonly closeCode: number | null;
}

// --- the outbox's storage ------------------------------------------------------------------------------

export interface OutboxRecord {
  readonly userId: string;
  readonly conversationId: string;
  readonly messageId: string;
  readonly text: string;
  readonly ts: number;
  /** Rises with each message of this device; the order in which they are sent. */
  readonly order: number;
  /** Which tab sends it. */
  readonly owner: string;
  /** The code of a permanent refusal: it is shown as failed and not sent again by itself. */
  readonly failed: { readonly code: string; readonly message: string } | null;
}

/** Where unsent messages survive a reload. Keys are opaque. */
export interface OutboxStorage {
  put(key: string, record: OutboxRecord): void | Promise<void>;
  delete(key: string): void | Promise<void>;
  all(): readonly OutboxRecord[] | Promise<readonly OutboxRecord[]>;
}

/** The default: gone with the page. Give the same one to two clients, and the second finds what the first left. */
export function memoryStorage(): OutboxStorage;
/** A few hundred short messages; synchronous, so that nothing is lost when the page closes right after a send. */
export function localStorageOutbox(options?: { prefix?: string; storage?: Storage }): OutboxStorage;
export function indexedDbOutbox(options?: { name?: string }): OutboxStorage;

// --- events ------------------------------------------------------------------------------------------

export interface ClientEvents {
  /** The connection. `retryAt`: when the next try comes (this machine's clock), null when none is waited for.
   *  `error` says why it went, or why it stopped. */
  state: { state: ConnectionState; previous: ConnectionState; retryAt: number | null; error: TidingsError | null };
  /** A new message: of others in the order of the log, each once; one's own at once when it is sent here (state
   *  `sending`), or when it was sent from another device. Also changes of members. */
  message: { conversation: Conversation; message: Message };
  /** A message on the screen changed: acknowledged, delivered, read, failed, edited, deleted. */
  updated: { conversation: Conversation; message: Message; previous: Message };
  /** `conversation.messages` changed otherwise: a page was loaded, the window moved, a message was discarded. */
  window: { conversation: Conversation };
  /** Every numbered entry, one's own included, in the order of the log, each once: for bots and for tests. */
  entry: { conversation: Conversation; entry: Entry };
  /** The list, or one row of it, changed: order, preview, badge, flags. conversation is null: several rows. */
  inbox: { conversation: Conversation | null };
  /** Counts changed. */
  unread: { conversation: Conversation | null; totalUnread: number; unreadConversations: number };
  /** Somebody's ticks moved. The messages concerned are told by `updated`. */
  receipt: { conversation: Conversation; userId: string; deliveredSeq: number; readSeq: number };
  /** Who types now, in a watched conversation. Ends by itself. */
  typing: { conversation: Conversation; userIds: readonly string[] };
  /** Of people in watched conversations. */
  presence: Presence;
  conversation: { change: 'added' | 'updated' | 'removed'; conversation: Conversation };
  /** So much was missed that it was not replayed (`catchUpMax`), or the server's store is another one: entries up to
   *  `toSeq` come by paging only. */
  skipped: { conversation: Conversation; fromSeq: number; toSeq: number };
  /** Something in the background went wrong that no call could report: the outbox's storage, a listener, a mark. */
  error: { error: unknown };
}

export type ConversationEvent = 'message' | 'updated' | 'window' | 'entry' | 'inbox' | 'unread' | 'receipt' | 'typing'
  | 'conversation' | 'skipped';

// --- the client --------------------------------------------------------------------------------------

export interface ClientOptions {
  /** Where the server is, `https://chat.example.com`. In a page: its own origin unless said otherwise. */
  url?: string;
  /** A fixed token; or better `getToken`, which is asked at the start, before the token expires and when it was refused.
   *  An error it throws is retried, unless it has `permanent: true`; so is an answer that takes longer than 20 s. */
  token?: string;
  getToken?: (why: { reason: 'start' | 'expiring' | 'refused' }) => string | Promise<string>;
  /** Names this device, 1-128 of [A-Za-z0-9_.@-]: a second connection of it replaces the first (close 4505). Without
   *  one each connection is a device of its own, which is right for tabs. */
  device?: string;
  /** Where unsent messages are kept; memoryStorage() unless given. */
  storage?: OutboxStorage;
  /** Messages kept per open conversation: 1000. Those of conversations that are not open are not kept. */
  windowMax?: number;
  /** Entries replayed per conversation after an absence: 2000. Infinity for a bot that must see all. */
  catchUpMax?: number;
  /** How long a request waits for its answer, also while there is no connection: 15000. Messages wait for ever. */
  requestTimeoutMs?: number;
  /** For runtimes without them: a class like the browser's, a function like fetch, an object like navigator.locks. */
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

export interface SendOptions {
  /** 1-64 of [A-Za-z0-9_-]; made for you unless given. */
  messageId?: string;
  /** The sender's clock; now unless given. */
  ts?: number;
}

export type HistoryPlace = {
  beforeSeq?: number; afterSeq?: number; aroundSeq?: number; anchor?: 'first_unread'; limit?: number;
};

export class TidingsClient {
  constructor(options?: ClientOptions);

  readonly state: ConnectionState;
  /** Why it stopped, or why it is not connected just now. */
  readonly error: TidingsError | null;
  /** When the next try comes; null when none is waited for. */
  readonly retryAt: number | null;
  /** null before the first hello. */
  readonly userId: string | null;
  readonly hello: Hello | null;
  readonly inbox: Inbox;
  /** Messages that wait to be sent, all conversations together. */
  readonly unsentCount: number;
  /** The server's clock as this client estimates it. */
  now(): number;

  /** Resolves with the first hello. Rejects when it was stopped for good (close 45xx, getToken said permanent). */
  connect(): Promise<Hello>;
  /** Ends the connection and all waiting. The outbox stays in its storage; connect() may be called again. */
  close(): Promise<void>;
  /** Try at once instead of at `retryAt`. */
  reconnectNow(): void;

  /** Returns the function that takes the listener away again. */
  on<E extends keyof ClientEvents>(event: E, listener: (event: ClientEvents[E]) => void): () => void;
  off<E extends keyof ClientEvents>(event: E, listener: (event: ClientEvents[E]) => void): void;
  once<E extends keyof ClientEvents>(event: E): Promise<ClientEvents[E]>;

  /** The object of this conversation; always the same one for the same id. Asks the server for nothing. */
  conversation(conversationId: string): Conversation;
  createConversation(options: {
    kind: ConversationKind; members?: readonly string[]; name?: string | null; avatarUrl?: string | null;
    history?: 'all' | 'joined';
  }): Promise<Conversation>;
  /** The direct conversation with somebody; made if there is none. */
  direct(userId: string): Promise<Conversation>;

  /** Conversations in view whose typing and presence are wanted, beside the open ones; 50 together at most. */
  watch(conversationIds: readonly string[]): void;
  /** What is known from events; undefined when nothing is. */
  presence(userId: string): Presence | undefined;
  /** Asks the server. Without userIds: all other members. */
  fetchPresence(conversationId: string, userIds?: readonly string[]): Promise<readonly Presence[]>;

  getProfile(userId: string): Promise<Profile>;
  putProfile(profile: { name?: string | null; avatarUrl?: string | null }): Promise<Profile>;
  rateLimits(): Promise<Readonly<Record<string, Budget>>>;
  /** Any other REST call, with the token: path from `/v1/` on. Answers are in camelCase; requests as given. */
  rest<T = unknown>(method: string, path: string, body?: unknown): Promise<T>;
}

/** The list of conversations, the latest first. Rows are the Conversation objects themselves. */
export class Inbox {
  readonly conversations: readonly Conversation[];
  readonly totalUnread: number;
  readonly unreadConversations: number;
  /** Whether the first page was loaded, and whether there are more pages. */
  readonly loaded: boolean;
  readonly hasMore: boolean;
  /** The server answered from its tables alone; counts may lag. */
  readonly stale: boolean;
  /** The first page, or again from the top. */
  load(limit?: number): Promise<readonly Conversation[]>;
  loadMore(limit?: number): Promise<readonly Conversation[]>;
}

export class Conversation {
  readonly id: string;

  // The inbox row. null, 0 or false until the server said something of it.
  readonly kind: ConversationKind | null;
  readonly name: string | null;
  readonly avatarUrl: string | null;
  readonly lastMessagePreview: string | null;
  readonly lastMessageTs: number;
  readonly lastSeq: number;
  /** null while the server rebuilds it. */
  readonly unreadCount: number | null;
  readonly unreadCapped: boolean;
  /** One's own cursor: everything up to here is read. */
  readonly readSeq: number;
  readonly firstUnreadSeq: number | null;
  readonly muted: boolean;
  readonly pinned: boolean;
  readonly archived: boolean;
  /** One is not in it any more. */
  readonly removed: boolean;

  // What is on the screen.
  readonly isOpen: boolean;
  /** Oldest first; unsent ones last. A new array after every change. Filled while the conversation is open. */
  readonly messages: readonly Message[];
  /** Whether the log goes on before and after `messages`. hasNewer: live messages are not appended until loaded. */
  readonly hasOlder: boolean;
  readonly hasNewer: boolean;
  /** Set it to false while the reader looks at older messages: then a full window stops taking new ones (hasNewer)
   *  instead of dropping the oldest. true unless set. */
  follow: boolean;
  readonly typing: readonly string[];
  /** The lowest marks among the other members. */
  readonly deliveredAllSeq: number;
  readonly readAllSeq: number;
  readonly unsentCount: number;

  /** Loads the newest page (or the one at `at`), and watches typing and presence until close(). */
  open(options?: { at?: 'newest' | 'first_unread' | number; limit?: number }): Promise<readonly Message[]>;
  /** Not on the screen any more: the window is dropped, unsent messages stay. */
  close(): void;
  /** Replaces the window: around a seq, at the oldest unread message, or back to now. */
  jumpTo(at: 'newest' | 'first_unread' | number, options?: { limit?: number }): Promise<readonly Message[]>;
  /** The messages that were put in front. Nothing is loaded when there is nothing more; calls do not overlap. */
  loadOlder(limit?: number): Promise<readonly Message[]>;
  loadNewer(limit?: number): Promise<readonly Message[]>;
  /** A page of the log, past the window; nothing is kept. */
  history(place?: HistoryPlace): Promise<HistoryPage>;

  /** In the outbox at once, in order; resolves when the server has it, rejects when it never will. It need not be
   *  awaited: the message is in `messages` and its state tells. Survives a lost connection, and a reload if storage does. */
  send(text: string, options?: SendOptions): Promise<Message>;
  /** Sends a failed message again. */
  retry(messageId: string): Promise<Message>;
  /** Takes an unsent or failed message back. false: too late, it is on its way or stored. */
  discard(messageId: string): boolean;
  edit(seq: number, text: string): Promise<void>;
  delete(seq: number): Promise<void>;
  /** Who has it, who has read it. */
  receipts(seq: number): Promise<Receipts>;

  /** Up to here (without an argument: all that has come), or up to a time, or single ones. Calls are folded together. */
  markRead(mark?: number | { upToTs: number } | { seqs: readonly number[] }): Promise<ReadState>;
  /** Everything from here on is unread again. */
  markUnread(fromSeq: number): Promise<ReadState>;
  /** Call it with each keystroke; said to others every few seconds, and ended by itself, or with a send. */
  keystroke(): void;
  stopTyping(): void;

  details(): Promise<ConversationDetails>;
  /**
   * Names and pictures of members, 100 people at a time; whoever is not a member is left out. Without ids: of all,
   * and `too_large` where they are more than 100.
   */
  profiles(userIds?: readonly string[]): Promise<Profile[]>;
  update(changes: { name?: string | null; avatarUrl?: string | null }): Promise<ConversationDetails>;
  addMembers(userIds: readonly string[]): Promise<ConversationDetails>;
  removeMember(userId: string): Promise<void>;
  setRole(userId: string, role: Role): Promise<ConversationDetails>;
  leave(): Promise<void>;
  /** For everyone; the owner's right. */
  destroy(): Promise<void>;
  mute(muted?: boolean): Promise<void>;
  pin(pinned?: boolean): Promise<void>;
  archive(archived?: boolean): Promise<void>;

  /** The client's events that concern this conversation. */
  on<E extends ConversationEvent>(event: E, listener: (event: ClientEvents[E]) => void): () => void;
}
