/**
 * The log of a conversation: every entry once and in order.
 *
 * `last` is the last contiguous seq. It is null until the beginning is known: the first entry after the first hello of
 * this client. An entry that is not the next is held, and the entries between are read from the history.
 */
import { BUSY_MS, GAP_MS, GAP_TRIES_MAX, HELD_MAX, PAGE } from './limits.js';
import { jitter, sleep } from './runtime.js';

export class Log {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this.last = null;
    this._held = new Map();
    this._hasMore = false; // the server has more entries
    this._isFilling = false;
    this._timer = null;
  }

  /** Take an entry, live or read from the history. */
  accept(entry) {
    if (this.last === null && entry.seq === 1) this.last = 0;
    if (this.last !== null && entry.seq <= this.last) return;
    if (this._held.size < HELD_MAX) this._held.set(entry.seq, entry);
    else this._hasMore = true;
    this._drain();
    this._fillLater(this.last === null ? 0 : GAP_MS);
  }

  /** Set an unknown beginning: no entry up to `seq` is new, unless it was pushed. */
  begin(seq) {
    if (this.last !== null) return;
    this.last = Math.min(seq + 1, ...this._held.keys()) - 1;
    this._drain();
  }

  /** Read on: the server has more entries. */
  goOn(waitMs = 0) {
    this._hasMore = true;
    this._fillLater(waitMs);
  }

  /** Skip the entries up to `seq`: the user may not see them, or they are gone. */
  jump(seq) {
    if (this.last !== null && seq <= this.last) return;
    this.last = seq;
    this._drain();
  }

  /** Begin again after `seq`: the server has another store. */
  reset(seq) {
    this.forget();
    this.last = seq;
  }

  forget() {
    clearTimeout(this._timer);
    this._timer = null;
    this._held.clear();
    this._hasMore = false;
  }

  _drain() {
    if (this.last === null) return;
    for (let entry; (entry = this._held.get(this.last + 1)); ) {
      this._held.delete(entry.seq);
      this.last = entry.seq;
      this._conversation._apply(entry);
    }
    for (const seq of this._held.keys()) if (seq <= this.last) this._held.delete(seq);
  }

  get _isBehind() {
    return this._hasMore || this._held.size > 0;
  }

  _fillLater(waitMs) {
    if (!this._isBehind || this._isFilling || this._timer !== null) return;
    this._timer = setTimeout(() => {
      this._timer = null;
      this._fill();
    }, waitMs);
  }

  async _fill() {
    if (this._isFilling) return;
    this._isFilling = true;
    try {
      for (let tries = 0; this._isBehind && !this._conversation.removed; ) {
        const before = this.last;
        await (this.last === null ? this._findBeginning() : this._readOn());
        tries = this.last === before ? tries + 1 : 0;
        if (this._isBehind && tries > GAP_TRIES_MAX) this._giveUp();
        else if (this._isBehind && tries) await sleep(GAP_MS);
      }
    } catch (error) {
      // The next resume names the missing entries, or the next entry makes the client read them.
      if (!error.temporary && error.code !== 'not_found') this._client._report(error);
      if (error.temporary && error.code !== 'closed') this._retryLater();
    } finally {
      this._isFilling = false;
    }
  }

  _retryLater() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._timer = null;
      this._fill();
    }, jitter(BUSY_MS));
  }

  _history(place) {
    return this._client._ask('history', { conversation_id: this._conversation.id, ...place });
  }

  async _readOn() {
    const page = await this._history({ after_seq: this.last, limit: PAGE });
    this._conversation._takeMarks(page);
    if (page.head - this.last > this._client._catchUpMax) {
      await this._skip();
      return;
    }
    const entries = page.messages.reverse();
    if (entries.length && entries[0].seq > this.last + 1) this.last = entries[0].seq - 1; // older ones are hidden
    for (const entry of entries) if (entry.seq > this.last) this._held.set(entry.seq, entry);
    this._drain();
    if (page.nextAfterSeq === null) this._hasMore = false;
  }

  /** Read backwards from the newest entry, until an entry is older than the first hello. */
  async _findBeginning() {
    const fresh = [];
    for (let beforeSeq = null; fresh.length < this._client._catchUpMax; ) {
      const page = await this._history({ before_seq: beforeSeq ?? undefined, limit: PAGE });
      if (this.last !== null) return; // begin() or jump() set it meanwhile
      const lowestHeld = Math.min(...this._held.keys());
      const young = page.messages.filter((entry) => entry.sentAt > this._client._bornAt || entry.seq >= lowestHeld);
      fresh.push(...young);
      beforeSeq = page.nextBeforeSeq;
      if (young.length < page.messages.length || beforeSeq === null) {
        const older = page.messages[young.length]?.seq;
        this.last = older ?? (fresh.length ? fresh[fresh.length - 1].seq - 1 : page.head);
        break;
      }
    }
    this.last ??= fresh[fresh.length - 1].seq - 1;
    for (const entry of fresh) this._held.set(entry.seq, entry);
    this._hasMore = false;
    this._drain();
  }

  async _skip() {
    const page = await this._history({ limit: 20 });
    const toSeq = page.messages[0]?.seq ?? page.head;
    const fromSeq = this.last + 1;
    this._hasMore = false;
    this.jump(toSeq);
    this._conversation._skipped(fromSeq, toSeq, page);
  }

  _giveUp() {
    const next = Math.min(...this._held.keys());
    this._hasMore = false;
    if (next === Infinity) return;
    const fromSeq = this.last + 1;
    this._client._emit('skipped', { conversation: this._conversation, fromSeq, toSeq: next - 1 });
    this.jump(next - 1);
  }
}
