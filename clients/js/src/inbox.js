/** The inbox: the conversations of the user, in the order of the server. */
import { BUSY_MS, GAP_MS } from './limits.js';
import { jitter } from './runtime.js';

export class Inbox {
  constructor(client) {
    this._client = client;
    Object.assign(this, { totalUnread: 0, unreadConversations: 0, totalMentions: 0, unreadThreads: 0 });
    Object.assign(this, { loaded: false, hasMore: false, stale: false });
    this._listed = new Set();
    this._takenCount = 0;
    this._lowest = 0; // the score of the last row of the last page
    this._sorted = null;
    this._cursor = null;
    this._loading = null;
    this._refreshing = null;
    this._underWay = new Set(); // the pages that are asked for, each as what happened meanwhile
  }

  get conversations() {
    const byTime = (a, b) => b._score - a._score || a._taken - b._taken || (a.id < b.id ? 1 : -1);
    const inOrder = (a, b) => b.pinned - a.pinned || (a.pinned ? a._taken - b._taken : byTime(a, b));
    this._sorted ??= [...this._listed].sort(inOrder);
    return this._sorted;
  }

  async load(limit = 20) {
    await this._ask({ limit }, (page) => {
      this._listed.clear();
      this._take(page);
      Object.assign(this, { loaded: true, hasMore: page.nextCursor !== null, _cursor: page.nextCursor });
    });
    return this.conversations;
  }

  /** Ask for a page and take it. It may be older than the events that arrived meanwhile, so these count after it. */
  async _ask(fields, take) {
    const changed = new Map(); // conversation -> whether it was removed
    const told = new Map(); // conversation, or this inbox -> its fields that events told
    const meanwhile = { changed, told };
    this._underWay.add(meanwhile);
    let taken;
    try {
      const page = await this._client._ask('inbox', fields);
      Object.assign(page, told.get(this));
      for (const row of page.conversations) Object.assign(row, told.get(this._client.conversation(row.conversationId)));
      taken = take(page);
    } finally {
      this._underWay.delete(meanwhile);
    }
    for (const [conversation, isRemoved] of changed) {
      if (isRemoved) {
        conversation._leave();
        this._listed.delete(conversation);
      } else this._changed(conversation);
    }
    this._changed(null, false);
    return taken;
  }

  loadMore(limit = 20) {
    this._loading ??= this._loadMore(limit).finally(() => (this._loading = null));
    return this._loading;
  }

  async _loadMore(limit) {
    if (!this.loaded) return this.load(limit);
    if (!this.hasMore) return [];
    return this._ask({ limit, cursor: this._cursor }, (page) => {
      Object.assign(this, { hasMore: page.nextCursor !== null, _cursor: page.nextCursor });
      return this._take(page, this._lowest);
    });
  }

  /** Load the archived conversations: the pages of the inbox leave them out. */
  loadArchived(limit = 100) {
    return this._ask({ limit, filter: 'archived' }, ({ conversations: rows }) => rows.map((row) => {
      const conversation = this._client.conversation(row.conversationId);
      conversation._takeRow(row);
      if (row.draft) conversation._takeDraft(row.draft);
      this._listed.add(conversation);
      conversation._follow();
      return conversation;
    }));
  }

  /** Take a page in the order of the server: a row without a message stands where the joining put it. */
  _take(page, above = this._client.now()) {
    const rows = page.conversations.map((row) => [this._client.conversation(row.conversationId), row]);
    let score = 0;
    for (const [conversation, row] of [...rows].reverse()) {
      conversation._takeRow(row);
      if (row.draft) conversation._takeDraft(row.draft);
      else conversation.draft = null;
      if (row.pinned) score = 0; // pinned ones come first, whenever their last message was
      conversation._score = score = Math.max(conversation.lastMessageTs, score);
      this._listed.add(conversation);
      conversation._follow();
    }
    for (const [conversation] of rows) {
      conversation._score ||= above; // neither it nor any row below it has a message
      conversation._taken = this._takenCount += 1;
      above = conversation._score;
    }
    this._lowest = above;
    this.stale = page.stale;
    this._total(page);
    return rows.map(([conversation]) => conversation);
  }

  /** Note a change. `conversation` is null for several rows, or for a row that only the server knows. */
  _changed(conversation, mayRefresh = true) {
    this._sorted = null;
    if (conversation !== null) this._note(conversation, false);
    if (this.loaded && conversation !== null && !this._listed.has(conversation) && !conversation.removed) {
      if (conversation._hasRow) this._listed.add(conversation);
      else return this._refreshSoon();
    }
    if (this.loaded && conversation === null && mayRefresh) return this._refreshSoon();
    this._client._emit('inbox', { conversation });
  }

  /** Read the top of the list again: it holds the latest changes. */
  _refreshSoon(waitMs = GAP_MS) {
    this._refreshing ??= setTimeout(async () => {
      this._refreshing = null; // a change from here on may be later than the page: it reads the top again
      try {
        await this._ask({ limit: 20 }, (page) => {
          const lowest = this._lowest;
          this._take(page);
          this._lowest = lowest;
        });
      } catch (error) {
        if (!error.temporary) this._client._report(error);
        else if (error.code !== 'closed') this._refreshSoon(error.retryAfterMs ?? jitter(BUSY_MS));
      }
    }, waitMs);
  }

  _note(conversation, isRemoved) {
    for (const { changed } of this._underWay) changed.set(conversation, isRemoved);
  }

  /** Note fields of a conversation, or of this inbox, as they are now: the pages under way may be older. */
  _keep(one, values) {
    for (const { told } of this._underWay) told.set(one, { ...told.get(one), ...values });
  }

  _remove(conversation) {
    this._sorted = null;
    this._note(conversation, true);
    this._listed.delete(conversation);
    this._client._emit('inbox', { conversation: null });
  }

  /** Take the totals of a hello, of a page, or of the event that follows a hello without them. */
  _total({ totalUnread, unreadConversations, totalMentions = 0, unreadThreads = 0 }) {
    if (typeof totalUnread !== 'number') return; // the server still counts
    const totals = { totalUnread, unreadConversations, totalMentions, unreadThreads };
    Object.assign(this, totals);
    this._keep(this, totals);
    this._client._emit('unread', { conversation: null, ...totals });
  }

  _count(conversation, step, totalUnread, totalMentions = 0) {
    this.unreadConversations = Math.max(0, this.unreadConversations + step);
    if (typeof totalUnread === 'number') Object.assign(this, { totalUnread, totalMentions });
    const { unreadConversations } = this;
    const { totalUnread: total, totalMentions: mentions, unreadThreads } = this;
    const totals = { totalUnread: total, unreadConversations, totalMentions: mentions, unreadThreads };
    this._keep(this, totals);
    this._client._emit('unread', { conversation, ...totals });
    this._client._emit('inbox', { conversation });
  }
}
