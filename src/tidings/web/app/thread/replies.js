// The replies of one thread, and what a conversation shows of its threads. Replies are entries of the one log: those of
// the loaded part of the conversation are taken from there, with their state; older ones are read by themselves.

const PAGE = 50;
const CHANGES = new Set(['edit', 'delete', 'reaction', 'pin']);

/** Whether a message belongs into the conversation: it is no reply, or one that was sent there too. */
export const isHere = ({ threadSeq, alsoHere }) => !threadSeq || Boolean(alsoHere);

export class Replies {
  constructor(client, conversation, rootSeq) {
    this.client = client;
    this.conversation = conversation;
    this.rootSeq = rootSeq;
    this.hasOlder = false;
    this.firstUnreadSeq = null;
    this._known = new Map(); // seq -> message, the root included
  }

  async load() {
    const { conversation, rootSeq } = this;
    const wasFollowed = this.isFollowed;
    const [page, around] = await Promise.all([this._page({}), conversation.history({ aroundSeq: rootSeq, limit: 2 })]);
    for (const entry of around.messages) if (entry.seq === rootSeq) this.put(this._rowOf(entry));
    this.firstUnreadSeq = page.firstUnreadSeq;
    // A reply that was written meanwhile has made its author a follower, and this answer may not know.
    if (this.isFollowed === wasFollowed) this.isFollowed = this.root?.thread?.following ?? false;
  }

  async loadOlder() {
    await this._page({ beforeSeq: Math.min(...[...this._known.keys()].filter((seq) => seq !== this.rootSeq)) });
  }

  async _page(place) {
    const page = await this.client.threads.replies(this.conversation.id, this.rootSeq, { ...place, limit: PAGE });
    for (const entry of page.messages) if (entry.kind === 'message') this.put(this._rowOf(entry));
    this.hasOlder = page.nextBeforeSeq !== null;
    return page;
  }

  put(message) {
    if (message.seq !== null) this._known.set(message.seq, message);
  }

  /** Whether an entry of the log concerns this thread; a changed message is read again. */
  take({ kind, targetSeq, seq, threadSeq }) {
    if (CHANGES.has(kind) && this._known.has(targetSeq)) this._readAgain(targetSeq);
    return threadSeq === this.rootSeq || seq === this.rootSeq;
  }

  async _readAgain(seq) {
    const page = await this.conversation.history({ aroundSeq: seq, limit: 2 }).catch(() => null);
    for (const entry of page?.messages ?? []) if (entry.seq === seq) this.put(this._rowOf(entry));
    this.conversation.messages.forEach((one) => this._known.has(one.seq) && this.put(one));
    this.changed?.();
  }

  get root() {
    return this._known.get(this.rootSeq) ?? null;
  }

  /** The root, its replies, and those that wait to be sent. */
  get messages() {
    const waiting = [];
    for (const one of this.conversation.messages) {
      if (one.seq === this.rootSeq || (one.threadSeq === this.rootSeq && one.seq !== null)) this.put(one);
      else if (one.threadSeq === this.rootSeq) waiting.push(one);
    }
    const stored = [...this._known.values()].sort((one, other) => one.seq - other.seq);
    return [...stored, ...waiting];
  }

  /** An entry as a row shows it. */
  _rowOf({ state = null, ...entry }) {
    const mine = entry.senderId === this.client.userId;
    const { readAllSeq, deliveredAllSeq } = this.conversation;
    const tick = entry.seq <= readAllSeq ? 'read' : entry.seq <= deliveredAllSeq ? 'delivered' : 'sent';
    const empty = { files: [], reactions: {}, mentions: [], mention: null, replyTo: null, threadSeq: null, error: null };
    const key = `${entry.senderId}/${entry.messageId}`;
    return { ...empty, ...entry, key, conversationId: this.conversation.id, mine, state: mine ? tick : null, stream: state };
  }
}

/** What a conversation shows of its threads: how many replies, when the last one came, how many are unread. */
export class Summaries {
  constructor() {
    this._live = new Map(); // seq of a root -> { replies: seq -> sentAt, unreadCount }
  }

  clear() {
    this._live.clear();
  }

  _of(rootSeq) {
    if (!this._live.has(rootSeq)) this._live.set(rootSeq, { replies: new Map(), unreadCount: null });
    return this._live.get(rootSeq);
  }

  /** Count a reply that came while the conversation is open. */
  take({ kind, seq, threadSeq, sentAt }) {
    if (kind === 'message' && threadSeq) this._of(threadSeq).replies.set(seq, sentAt);
  }

  count(rootSeq, unreadCount) {
    this._of(rootSeq).unreadCount = unreadCount ?? 0;
  }

  /** Of a root: { replies, lastSentAt, unreadCount }; null where nobody replied. */
  of({ seq, thread = null }) {
    const live = this._live.get(seq);
    if (!thread && !live?.replies.size) return null;
    const newer = [...(live?.replies ?? [])].filter(([reply]) => reply > (thread?.lastSeq ?? 0));
    const lastSentAt = newer.length ? newer.at(-1)[1] : thread?.lastSentAt;
    return { replies: (thread?.replies ?? 0) + newer.length, lastSentAt, unreadCount: live?.unreadCount ?? thread?.unreadCount ?? 0 };
  }
}
