/** Read marks of the user, and delivery receipts of this device. Both are watermarks: the highest says all of them. */
import { ACK_MS, BUSY_MS, RESUME_MAX } from './limits.js';
import { deferred, jitter } from './runtime.js';

/** Reads and unreads of one conversation: one after another, in the order of the calls, each until it is answered. */
export class ReadMarks {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this._queue = [];
    this._isRunning = false;
  }

  read(mark) {
    if (mark !== undefined && typeof mark !== 'number') {
      return this._add('message.read', mark.seqs ? { seqs: [...mark.seqs] } : { up_to_ts: mark.upToTs });
    }
    const conversation = this._conversation;
    const seq = mark ?? Math.max(conversation._log.last ?? 0, conversation.lastSeq);
    if (seq <= conversation.readSeq && !this._queue.length) return Promise.resolve(this._state());
    const last = this._queue[this._queue.length - 1];
    if (last?.body.up_to_seq !== undefined && !last.isFlying) {
      last.body.up_to_seq = Math.max(last.body.up_to_seq, seq);
      return last.done.promise;
    }
    if (seq >= conversation.lastSeq && conversation.unreadCount) {
      conversation._takeCounts({ unreadCount: 0, unreadCapped: false });
    }
    return this._add('message.read', { up_to_seq: seq });
  }

  unread(fromSeq) {
    return this._add('message.unread', { from_seq: fromSeq });
  }

  _state() {
    const { id, readSeq, unreadCount, unreadCapped, firstUnreadSeq } = this._conversation;
    const { mentionCount, firstMentionSeq } = this._conversation;
    const { totalUnread, totalMentions } = this._client.inbox;
    const mentions = { mentionCount, firstMentionSeq, totalMentions };
    return { conversationId: id, readSeq, unreadCount, unreadCapped, firstUnreadSeq, totalUnread, ...mentions };
  }

  _add(type, body) {
    const mark = { type, body, isFlying: false, done: deferred() };
    this._queue.push(mark);
    this._run();
    return mark.done.promise;
  }

  async _run() {
    if (this._isRunning) return;
    this._isRunning = true;
    for (let mark; (mark = this._queue[0]); this._queue.shift()) {
      mark.isFlying = true;
      try {
        const fields = { conversation_id: this._conversation.id, ...mark.body };
        this._conversation._takeCounts(await this._client._ask(mark.type, fields, true));
        mark.done.resolve(this._state());
      } catch (error) {
        mark.done.reject(error);
      }
    }
    this._isRunning = false;
  }
}

/**
 * Delivery receipts of all conversations: a burst of entries is acknowledged in one frame. The answer says that it is
 * written, and comes a moment later. Newer receipts do not wait for it. A receipt without an answer goes again.
 */
export class Acks {
  constructor(client) {
    this._client = client;
    this._said = new Map(); // conversation -> highest seq that the server has written, or is about to answer
    this._timer = null;
  }

  later(conversation) {
    if (!this._said.has(conversation)) this._said.set(conversation, 0);
    this.again();
  }

  /** Send what is owed, a moment later: also what an earlier connection left without an answer. */
  again() {
    if (this._said.size) this._timer ??= setTimeout(() => this._send(), ACK_MS);
  }

  stop() {
    clearTimeout(this._timer);
    this._timer = null;
  }

  _send() {
    this._timer = null;
    const link = this._client._link;
    const owed = [...this._said].filter(([one, said]) => !one.removed && one._log.last > said).slice(0, RESUME_MAX);
    if (!link || !owed.length) return;
    const acks = new Map(owed.map(([conversation]) => [conversation, conversation._log.last]));
    for (const [conversation, seq] of acks) this._said.set(conversation, seq);
    while (this._said.size > RESUME_MAX * 5) this._said.delete(this._said.keys().next().value);
    this.again();
    this._request(link, acks);
  }

  async _request(link, acks) {
    const seqs = Object.fromEntries([...acks].map(([conversation, seq]) => [conversation.id, seq]));
    try {
      await link.request('message.delivered', { acks: seqs });
    } catch (error) {
      for (const conversation of acks.keys()) this._said.set(conversation, 0);
      if (!error.temporary) this._client._report(error);
      this.stop();
      if (this._client._link) this._timer = setTimeout(() => this._send(), error.retryAfterMs ?? jitter(BUSY_MS));
    }
  }
}
