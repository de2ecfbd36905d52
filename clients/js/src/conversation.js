/** One conversation: what a screen shows of it. What a user may do with it over REST is in actions.js. */
import { shown } from './content.js';
import { Actions } from './actions.js';
import { Log } from './log.js';
import { GAP_MS, MARKS_MS } from './limits.js';
import { ReadMarks } from './marks.js';
import { Typing } from './presence.js';
import { previewOf } from './runtime.js';
import { Streaming } from './streaming.js';
import { Unsent } from './unsent.js';
import { AMENDS, SHOWN, Window } from './window.js';

const NOTHING_BESIDE = { reactions: {}, reactionsSeq: 0, pinned: false };
const ROW = ['kind', 'name', 'avatarUrl', 'lastMessagePreview', 'lastMessageTs', 'lastSeq', 'unreadCount',
  'unreadCapped', 'readSeq', 'firstUnreadSeq', 'muted', 'pinned', 'archived', 'lastMessage'];

export class Conversation extends Actions {
  constructor(client, id) {
    super();
    this.id = id;
    this._client = client;
    this._path = `/v1/conversations/${encodeURIComponent(id)}`;
    Object.assign(this, { kind: null, name: null, avatarUrl: null });
    Object.assign(this, { lastMessagePreview: null, lastMessageTs: 0, lastSeq: 0, lastMessage: null, retryAt: null });
    Object.assign(this, { unreadCount: 0, unreadCapped: false, readSeq: 0, firstUnreadSeq: null });
    Object.assign(this, { mentionCount: 0, firstMentionSeq: null, mutedUntil: null, notify: 'all' });
    Object.assign(this, { muted: false, pinned: false, archived: false, removed: false });
    this.deliveredAllSeq = this.readAllSeq = 0;
    Object.assign(this, { draft: null, _draftVersion: 0, role: null, rules: null, data: null });
    this._log = new Log(this, client);
    this._window = new Window(this, client);
    this._unsent = new Unsent(this, client);
    this._marks = new ReadMarks(this, client);
    this._typing = new Typing(this, client);
    this._messages = null;
    this._marksTimer = null;
    this._hasRow = false;
    this._score = 0; // its place in the inbox
    this._taken = 0; // and its place among equals
    this._touched = 0; // the time of its last entry, for the choice of what to resume
  }

  get messages() {
    return (this._messages ??= [...this._window.shown, ...this._unsent.messages]);
  }

  get typing() {
    return this._typing.userIds;
  }

  get unsentCount() {
    return this._client._outbox.countOf(this.id);
  }

  on(event, listener) {
    return this._client.on(event, (value) => value.conversation === this && listener(value));
  }

  // --- the window ---

  get isOpen() {
    return this._window.isOpen;
  }

  get hasOlder() {
    return this._window.hasOlder;
  }

  get hasNewer() {
    return this._window.hasNewer;
  }

  get follow() {
    return this._window.follow;
  }

  set follow(follow) {
    this._window.follow = follow;
  }

  open(options) {
    return this._window.open(options);
  }

  close() {
    this._window.close();
  }

  jumpTo(at, options) {
    return this._window.jumpTo(at, options);
  }

  loadOlder(limit) {
    return this._window.loadOlder(limit);
  }

  loadNewer(limit) {
    return this._window.loadNewer(limit);
  }

  async history({ beforeSeq, afterSeq, aroundSeq, anchor, limit = 20 } = {}) {
    const place = { before_seq: beforeSeq, after_seq: afterSeq, around_seq: aroundSeq, anchor };
    const page = await this._client._ask('history', { conversation_id: this.id, limit, ...place });
    this._takeMarks(page);
    const { messages, nextBeforeSeq, nextAfterSeq, firstUnreadSeq, head, deliveredAllSeq, readAllSeq } = page;
    return { messages, nextBeforeSeq, nextAfterSeq, firstUnreadSeq, head, deliveredAllSeq, readAllSeq };
  }

  _changed() {
    this._messages = null;
  }

  _windowChanged() {
    this._changed();
    this._client._emit('window', { conversation: this });
  }

  _updated(message, previous) {
    this._changed();
    this._client._emit('updated', { conversation: this, message, previous });
  }

  // --- entries ---

  /** Apply the next entry of the log. */
  _apply(entry) {
    this._touched = Date.now();
    const isMine = this._isMine(entry);
    if (isMine) this._unsent.settle(entry);
    const isInThreadOnly = Boolean(entry.threadSeq) && !entry.alsoHere;
    if (entry.kind === 'message' && !entry.silent && !isInThreadOnly) this._showInRow(entry);
    this._client._emit('entry', { conversation: this, entry });
    if (SHOWN.has(entry.kind)) this._append(entry, isMine);
    else {
      this._window.pass(entry.seq);
      if (AMENDS.has(entry.kind)) this._amend(entry);
    }
    if (entry.kind === 'member') this._askMarks(); // without a member who left, all others may have read it
    if (!isMine) this._client._acks.later(this);
  }

  _append(entry, isMine) {
    const message = this._messageOf(entry);
    const wasUnsent = isMine && this._unsent.delete(entry.messageId);
    this._window.append(message);
    this._changed();
    this._typing.take(entry.senderId, false);
    if (wasUnsent) this._client._emit('window', { conversation: this });
    else this._client._emit('message', { conversation: this, message });
  }

  /** Make the message of an entry that a page shows. An own one is not unsent any more. */
  _place(entry) {
    if (this._isMine(entry)) {
      this._unsent.settle(entry);
      this._unsent.delete(entry.messageId);
    }
    return this._messageOf(entry);
  }

  _amend(entry) {
    if (entry.kind === 'reaction' || entry.kind === 'pin') return this._window.amend(entry);
    const isDelete = entry.kind === 'delete';
    const { text } = entry;
    if (entry.targetSeq === this.lastSeq && !isDelete && text !== null) this.lastMessagePreview = previewOf(text);
    const isLast = entry.targetSeq === this.lastMessage?.seq;
    if (isLast && isDelete) this.lastMessage = { ...this.lastMessage, deleted: true, textPreview: undefined };
    else if (isLast && text !== null) this.lastMessage = { ...this.lastMessage, textPreview: previewOf(text) };
    const { lastMessagePreview, lastMessage } = this;
    if (isLast) this._client.inbox._keep(this, { lastMessagePreview, lastMessage });
    if (entry.targetSeq === this.lastSeq) this._client.inbox._changed(isDelete ? null : this);
    this._window.amend(entry);
  }

  _showInRow(entry) {
    if (entry.seq <= this.lastSeq) return;
    if (this.lastSeq === 0) this._client._presence.watchAgain(this); // from now on its people may be seen
    const { seq, senderId, kind, text, sentAt, deleted, files } = entry;
    Object.assign(this, { lastSeq: seq, lastMessageTs: sentAt, lastMessagePreview: previewOf(text) });
    const textPreview = previewOf(text) ?? undefined;
    this.lastMessage = { seq, senderId, kind, deleted, files: files?.length ?? 0, textPreview };
    this._score = Math.max(this._score, entry.sentAt);
    this._client.inbox._changed(this);
  }

  /** Stand among the latest conversations: an own message waits to be sent. */
  _raiseInInbox(ms) {
    this._score = Math.max(this._score, ms - Date.now() + this._client.now());
    if (this._hasRow) this._client.inbox._changed(this);
  }

  _isMine(entry) {
    return entry.kind === 'message' && entry.senderId !== null && entry.senderId === this._client.userId;
  }

  /** The message of an entry: all that the server told of it, and what it is for this user. */
  _messageOf(entry) {
    const { targetSeq, state: stream = null, ...told } = entry;
    const { seq, kind, messageId, senderId } = told;
    const mine = this._isMine(entry);
    const key = kind === 'message' ? `${senderId}/${messageId}` : `entry/${seq}`;
    const state = mine ? this._stateOf(seq) : null;
    const whole = { unavailable: false, expiresAt: null, files: [], ...NOTHING_BESIDE, ...told, ...shown(told) };
    return { ...whole, key, conversationId: this.id, mine, state, stream, error: null };
  }

  _stateOf(seq) {
    return seq <= this.readAllSeq ? 'read' : seq <= this.deliveredAllSeq ? 'delivered' : 'sent';
  }

  // --- its row, and how it stands after a reconnect ---

  /** Take an inbox row. It may be older than the latest pushed entries. */
  _takeRow(row) {
    const isOlder = row.lastSeq === undefined || row.lastSeq < this.lastSeq;
    const isNew = (name) => row[name] !== undefined && !(isOlder && name.startsWith('last'));
    for (const name of ROW.filter(isNew)) this[name] = row[name];
    if (row.lastSeq !== undefined) {
      Object.assign(this, { requested: !!row.requested, invited: !!row.invited });
      Object.assign(this, { mentionCount: row.mentionCount ?? 0, firstMentionSeq: row.firstMentionSeq ?? null });
      Object.assign(this, { mutedUntil: row.mutedUntil ?? null, notify: row.notify ?? 'all' });
      Object.assign(this, { role: row.role ?? null, rules: row.rules ?? null, data: row.data ?? null });
    }
    this._hasRow ||= row.lastSeq !== undefined; // only the inbox knows the name of a direct conversation
    this._score = Math.max(this._score, this.lastMessageTs);
    this.removed = false;
  }

  /** Take a row of an event or of an own change: it is newer than the pages under way. */
  _takeNewRow(row) {
    this._takeRow(row);
    if (row.lastSeq !== undefined) this._client.inbox._keep(this, this);
  }

  /** Bring the log up to the entry that the row names. */
  _follow() {
    if (this._log.last === null && this.lastMessageTs <= this._client._bornAt) {
      this._log.begin(this.lastSeq);
      if (this.unreadCount !== 0 && this.lastSeq > 0) this._client._acks.later(this); // nobody was here
    } else if (this._log.last === null || this.lastSeq > this._log.last) this._log.goOn(GAP_MS);
  }

  _resumed(frame) {
    if (frame.reset) this._forget(frame.toSeq);
    else this._log.jump(Math.max(frame.fromSeq - 1, this._log.last ?? 0));
    this._takeCounts(frame);
    this._raise(frame.deliveredAllSeq, frame.readAllSeq);
    if (!frame.complete) this._log.goOn();
  }

  /** Forget everything: it belongs to another store. */
  _forget(seq) {
    this._log.reset(seq);
    Object.assign(this, { deliveredAllSeq: 0, readAllSeq: 0, lastSeq: 0, lastMessageTs: 0, lastMessage: null });
    this._unsent.forgetStored();
    this._client._emit('skipped', { conversation: this, fromSeq: 1, toSeq: seq ?? 0 });
    this._window.showAnew();
  }

  _skipped(fromSeq, toSeq, page) {
    const newest = page.messages.find((entry) => entry.kind === 'message');
    if (newest) this._showInRow(newest);
    this._client._acks.later(this);
    this._client._emit('skipped', { conversation: this, fromSeq, toSeq });
    this._window.showAnew();
  }

  _leave() {
    this.removed = true;
    this._hasRow = false; // only the server knows whether it comes back
    this._log.forget();
    if (this.isOpen) this.close();
  }

  // --- receipts and counts ---

  markRead(mark) {
    return this._marks.read(mark);
  }

  markUnread(fromSeq) {
    return this._marks.unread(fromSeq);
  }

  _receipt(frame) {
    const { userId, deliveredSeq, readSeq } = frame;
    if (this.kind === 'direct') this._raise(deliveredSeq, readSeq);
    else this._askMarks();
    this._client._emit('receipt', { conversation: this, userId, deliveredSeq, readSeq });
  }

  /** Take the summary of a large conversation. Counts of one message never go back, though frames may cross. */
  _receipts({ seq, deliveredCount, readCount, deliveredAllSeq, readAllSeq }) {
    const before = this.receiptCounts?.seq === seq ? this.receiptCounts : { deliveredCount: 0, readCount: 0 };
    if ((this.receiptCounts?.seq ?? 0) > seq) return;
    const delivered = Math.max(deliveredCount, before.deliveredCount);
    this.receiptCounts = { seq, deliveredCount: delivered, readCount: Math.max(readCount, before.readCount) };
    this._raise(deliveredAllSeq, readAllSeq);
    this._client._emit('receipts', { conversation: this, ...this.receiptCounts });
  }

  /** Ask what all members have: in a group a receipt speaks for one member only. */
  _askMarks() {
    if (!this.isOpen || this._marksTimer !== null) return;
    this._marksTimer = setTimeout(async () => {
      this._marksTimer = null; // a receipt that comes from here on may be later than the answer: it asks again
      try {
        await this.history({ limit: 1 });
      } catch (error) {
        if (!error.temporary) this._client._report(error);
        else if (this._client._link) this._askMarks(); // else the resume tells
      }
    }, MARKS_MS);
  }

  _takeMarks(page) {
    this._raise(page.deliveredAllSeq, page.readAllSeq);
  }

  _raise(deliveredSeq, readSeq) {
    const before = Math.min(this.deliveredAllSeq, this.readAllSeq);
    this.readAllSeq = Math.max(this.readAllSeq, readSeq);
    this.deliveredAllSeq = Math.max(this.deliveredAllSeq, deliveredSeq, this.readAllSeq);
    this._window.restate(before);
  }

  /** Take the counts of a frame. A count that is null is unknown at the moment, so the known one stays. */
  _takeCounts({ readSeq, unreadCount, unreadCapped, firstUnreadSeq, totalUnread, ...mentions }) {
    const wasUnread = Boolean(this.unreadCount);
    if (typeof unreadCount === 'number') this._takeMentions(mentions);
    if (readSeq !== undefined) this.readSeq = readSeq;
    if (typeof unreadCount === 'number') this.unreadCount = unreadCount;
    if (unreadCapped !== undefined) this.unreadCapped = unreadCapped;
    if (firstUnreadSeq !== undefined) this.firstUnreadSeq = firstUnreadSeq;
    else if (!this.unreadCount) this.firstUnreadSeq = null;
    else if (readSeq !== undefined || this.firstUnreadSeq === null) this.firstUnreadSeq = this.readSeq + 1;
    if (typeof unreadCount === 'number') this._keepCounts(readSeq);
    this._client.inbox._count(this, Boolean(this.unreadCount) - wasUnread, totalUnread, mentions.totalMentions);
  }

  /** Keep what a frame told. Where a conversation without a row is read up to, a page knows better. */
  _keepCounts(readSeq) {
    const { unreadCount, unreadCapped, mentionCount, firstUnreadSeq, firstMentionSeq } = this;
    this._client.inbox._keep(this, { unreadCount, unreadCapped, mentionCount });
    if (this._hasRow || readSeq !== undefined) this._client.inbox._keep(this, { firstUnreadSeq, firstMentionSeq });
    if (readSeq !== undefined) this._client.inbox._keep(this, { readSeq });
  }

  /** A frame with counts leaves out mentions where there are none. */
  _takeMentions({ mentionCount = 0, firstMentionSeq }) {
    this.mentionCount = mentionCount;
    if (mentionCount === 0) this.firstMentionSeq = null;
    else this.firstMentionSeq = firstMentionSeq ?? this.firstMentionSeq;
  }

  // --- sending and typing ---

  stream(options = {}) {
    return Streaming.begin(this._client, this.id, options);
  }

  send(text, options = {}) {
    return this._unsent.send(text, options);
  }

  retry(messageId) {
    return this._unsent.retry(messageId);
  }

  discard(messageId) {
    return this._unsent.discard(messageId);
  }

  keystroke() {
    this._typing.keystroke();
  }

  stopTyping() {
    this._typing.stop();
  }
}
