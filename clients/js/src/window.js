/** The window of an open conversation: the part of its log that a screen shows, from one seq to another. */
import { AMENDS_MAX, PAGE } from './limits.js';

/** Kinds of entries that a screen shows as a row. Others change a row, or nothing. */
export const SHOWN = new Set(['message', 'member']);
export const AMENDS = new Set(['edit', 'delete', 'reaction', 'pin']); // any other kind changes nothing but the seq

const placeOf = (at) => (at === 'newest' ? {} : typeof at === 'string' ? { anchor: at } : { around_seq: at });
const DELETED = { text: null, data: null, deleted: true, unavailable: false, reactions: {}, pinned: false };

export class Window {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this.shown = []; // messages with a seq, ascending
    this._from = 1;
    this._to = 0;
    this._jumps = 0;
    this._paging = { older: null, newer: null };
    this._amends = []; // the last entries that changed another
    this._isReading = false; // the text so far of a message that is being written
    Object.assign(this, { isOpen: false, follow: true, hasOlder: false, hasNewer: false });
  }

  async open({ at = 'newest', limit = 50 } = {}) {
    this._client._presence.watchOpen(this._conversation, true);
    return this.jumpTo(at, { limit });
  }

  close() {
    this._jumps += 1;
    this._client._presence.watchOpen(this._conversation, false);
    this._conversation.stopTyping();
    Object.assign(this, { isOpen: false, follow: true, hasOlder: false, hasNewer: false });
    Object.assign(this, { shown: [], _from: 1, _to: 0 });
    this._conversation._changed();
  }

  async jumpTo(at, { limit = 50 } = {}) {
    const jump = ++this._jumps;
    const page = await this._page({ ...placeOf(at), limit });
    if (jump !== this._jumps) return this._conversation.messages; // a later jump, or close(), decides
    this._conversation.firstUnreadSeq = page.firstUnreadSeq;
    Object.assign(this, { isOpen: true, hasOlder: page.nextBeforeSeq !== null });
    this.shown = [];
    this._install([], page.messages);
    this._from = page.messages[0]?.seq ?? page.head + 1;
    this._to = page.messages[page.messages.length - 1]?.seq ?? (at === 'newest' ? 0 : page.head);
    this._begin(page);
    await this._reachEnd(page);
    this._conversation._windowChanged();
    return this._conversation.messages;
  }

  loadOlder(limit = 50) {
    this._paging.older ??= this._loadOlder(limit).finally(() => (this._paging.older = null));
    return this._paging.older;
  }

  loadNewer(limit = 50) {
    this._paging.newer ??= this._loadNewer(limit).finally(() => (this._paging.newer = null));
    return this._paging.newer;
  }

  // --- new entries ---

  /** Add the next entry at the end, if the window shows the end of the log. */
  append(message) {
    if (!this.isOpen || this.hasNewer || message.seq <= this._to) return;
    if (!this.follow && this.shown.length >= this._client._windowMax) this.hasNewer = true;
    else {
      this.shown = [...this.shown, message];
      this._to = message.seq;
      this._dropOldest();
    }
  }

  /** Move on over an entry that is not shown. */
  pass(seq) {
    if (this.isOpen && !this.hasNewer) this._to = Math.max(this._to, seq);
  }

  /** Apply an entry that changes its target: another text or none, reactions, a pin. */
  amend(entry) {
    this._amends = [...this._amends.slice(1 - AMENDS_MAX), entry];
    this._amendShown(entry);
  }

  /** Add a piece to a message that is being written. A page may hold a part of it already. Where a piece is missing,
   *  the text so far is read again. */
  grow(seq, offset, piece) {
    const at = this._indexOf(seq);
    if (at < 0 || this.shown[at].stream !== 'streaming') return;
    const text = this.shown[at].text ?? '';
    const known = [...text].length;
    if (offset > known) this._readText(seq);
    else {
      const more = [...piece].slice(known - offset).join('');
      if (more) this._replace(at, { text: text + more });
    }
  }

  async _readText(seq) {
    if (this._isReading) return;
    this._isReading = true;
    try {
      const { messages } = await this._conversation.history({ aroundSeq: seq, limit: 2 });
      const { text = null } = messages.find((one) => one.seq === seq) ?? {};
      const at = this._indexOf(seq);
      const isLonger = at >= 0 && (text?.length ?? 0) > (this.shown[at].text?.length ?? 0);
      if (isLonger && this.shown[at].stream === 'streaming') this._replace(at, { text });
    } catch (error) {
      if (!error.temporary) this._client._report(error); // the next piece tries again
    } finally {
      this._isReading = false;
    }
  }

  /** Show the new state of own messages after `seq`, when receipts moved. */
  restate(seq) {
    for (let at = this.shown.length - 1; at >= 0 && this.shown[at].seq > seq; at -= 1) {
      const { seq: own, mine, state } = this.shown[at];
      const now = this._conversation._stateOf(own);
      if (mine && state !== now) this._replace(at, { state: now });
    }
  }

  /** Show the newest page again after entries were skipped. */
  showAnew() {
    if (this.isOpen) this.jumpTo('newest').catch((error) => this._client._report(error));
  }

  /** An edit without a text was followed by another edit, or by a delete. */
  _amendShown(entry) {
    const { kind, targetSeq, text, data = null, sentAt, state = null } = entry;
    const at = this._indexOf(targetSeq);
    if (at < 0 || this.shown[at].deleted) return;
    if (kind === 'reaction') return this._react(at, entry);
    if (kind === 'pin') return this._pin(at, entry);
    const isNewer = text !== null && sentAt > (this.shown[at].editedAt ?? 0);
    if (kind === 'delete') this._replace(at, { ...DELETED });
    else if (isNewer) {
      const isEnd = this.shown[at].stream === 'streaming'; // the end of a streamed message is no edit
      const editedAt = isEnd ? this.shown[at].editedAt : sentAt;
      this._replace(at, { text, data, editedAt, stream: state, unavailable: false });
    }
  }

  /** Apply the changes of one entry, once: a page may hold them already. */
  _react(at, { seq, reactions: changes = [] }) {
    const { reactions: before, reactionsSeq } = this.shown[at];
    if (seq <= reactionsSeq) return;
    const reactions = { ...before };
    const me = this._client.userId;
    for (const [key, added, removed] of changes) {
      const { count, mine } = reactions[key] ?? { count: 0, mine: false };
      const isMine = added.includes(me) || (mine && !removed.includes(me));
      const now = { count: count + added.length - removed.length, mine: isMine };
      if (now.count > 0) reactions[key] = now;
      else delete reactions[key];
    }
    this._replace(at, { reactions, reactionsSeq: seq });
  }

  _pin(at, { pinned = false }) {
    if (this.shown[at].pinned !== pinned) this._replace(at, { pinned });
  }

  _indexOf(seq) {
    let low = 0;
    let high = this.shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.shown[middle].seq < seq) low = middle + 1;
      else high = middle;
    }
    return this.shown[low]?.seq === seq ? low : -1;
  }

  _replace(at, changes) {
    const previous = this.shown[at];
    const message = { ...previous, ...changes };
    this.shown = this.shown.slice();
    this.shown[at] = message;
    this._conversation._updated(message, previous);
  }

  // --- pages ---

  async _loadOlder(limit) {
    if (!this.isOpen) return (await this.open({ limit })).slice();
    if (!this.hasOlder) return [];
    const jump = this._jumps;
    const page = await this._page({ before_seq: this._from, limit });
    if (jump !== this._jumps) return [];
    const before = this.shown.length;
    this._install(page.messages, []);
    this._from = page.messages[0]?.seq ?? this._from;
    this.hasOlder = page.nextBeforeSeq !== null;
    const added = this.shown.slice(0, this.shown.length - before);
    this._dropNewest();
    this._conversation._windowChanged();
    return added;
  }

  async _loadNewer(limit) {
    if (!this.isOpen || !this.hasNewer) return [];
    const jump = this._jumps;
    const page = await this._page({ after_seq: this._to, limit });
    if (jump !== this._jumps) return [];
    const before = this.shown.length;
    this._extend(page);
    const added = this.shown.slice(before);
    this._dropOldest();
    await this._reachEnd(page);
    this._conversation._windowChanged();
    return added;
  }

  /** Read a page, in the order of the log. */
  async _page(place) {
    const page = await this._client._ask('history', { conversation_id: this._conversation.id, ...place });
    page.messages.reverse();
    this._conversation._takeMarks(page);
    return page;
  }

  _install(before, after) {
    const shown = (entries) =>
      entries.filter((entry) => SHOWN.has(entry.kind)).map((entry) => this._conversation._place(entry));
    this.shown = [...shown(before), ...this.shown, ...shown(after)];
    for (const entry of this._amends) this._amendShown(entry); // the page may be older than these
  }

  /** Add the entries of a page that lie after the window. Returns how many there were. */
  _extend(page) {
    const newer = page.messages.filter((entry) => entry.seq > this._to);
    this._install([], newer);
    this._to = newer[newer.length - 1]?.seq ?? this._to;
    return newer.length;
  }

  /** Learn from a page where the log begins for this client. The page may also be ahead of the pushed entries. */
  _begin(page) {
    const { messages } = page;
    const log = this._conversation._log;
    const old = messages.filter((entry) => entry.sentAt <= this._client._bornAt);
    if (page.nextAfterSeq === null && (old.length || page.nextBeforeSeq === null)) {
      log.begin(old[old.length - 1]?.seq ?? (messages.length ? messages[0].seq - 1 : page.head));
    }
    if (log.last === null) log.goOn();
    else if (page.nextAfterSeq === null) for (const entry of messages) log.accept(entry);
  }

  /** Go live at the end of the log: read the entries that were pushed while the page was read. */
  async _reachEnd(page) {
    this.hasNewer = page.nextAfterSeq !== null || this._to < (this._conversation._log.last ?? 0);
    if (page.nextAfterSeq !== null || !this.hasNewer) return;
    const jump = this._jumps;
    const rest = await this._page({ after_seq: this._to, limit: PAGE });
    if (jump !== this._jumps) return;
    if (this._extend(rest)) await this._reachEnd(rest);
  }

  _dropOldest() {
    const excess = this.shown.length - this._client._windowMax;
    if (excess <= 0) return;
    this.shown = this.shown.slice(excess);
    this._from = this.shown[0].seq;
    this.hasOlder = true;
  }

  _dropNewest() {
    if (this.shown.length <= this._client._windowMax) return;
    this.shown = this.shown.slice(0, this._client._windowMax);
    this._to = this.shown[this.shown.length - 1].seq;
    this.hasNewer = true;
  }
}
