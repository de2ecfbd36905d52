// Reading: what was in view is read, and nothing else. A conversation opens at its first unread message, under a line
// that keeps its place until the user sends or leaves. Pills lead to the oldest unread message and to the newest one.

import { Pills } from './pills.js';
import { UNREAD_KEY } from './rows.js';

const PAGE = 50;
const SHOWN_MS = 2500; // how long a message that was jumped to stays marked
const MARK_MS = 250; // messages that come into view together are marked together

export class Reading {
  /** @param thread the pane: { conversation, isLoaded, render(), tell(error), wait(isOn) } */
  constructor(thread, list, view) {
    this.thread = thread;
    this._list = list;
    this._view = view;
    this.pills = new Pills({ unread: () => this.jumpToUnread(), now: () => this.jumpToNow() });
    this.reset();
  }

  reset() {
    this.divider = null;
    this.shownKey = null;
    this._isDividerSeen = false;
    this._markedSeq = 0;
    clearTimeout(this._timer);
    this._timer = null;
    clearTimeout(this._shownTimer);
    this.pills.hide();
  }

  /** Remember where the unread messages begin. */
  freeze() {
    const { firstUnreadSeq: seq, unreadCount: count, unreadCapped: isCapped } = this.thread.conversation;
    this.divider = seq && count !== 0 ? { seq, count, isCapped } : null;
    this._isDividerSeen = false;
  }

  /** Where the conversation opens: at the line of the unread messages, else at the end. */
  begin() {
    this.freeze();
    this._list.scrollToEnd();
    this.thread.render();
    if (!this.divider || !this._list.has(UNREAD_KEY)) return;
    this._list.scrollToRow(UNREAD_KEY, 0.12);
    this._isDividerSeen = true;
  }

  /** Update pills and read mark after each scroll and each change. Returns whether the newest message is in view. */
  look() {
    const { conversation } = this.thread;
    const isNow = this._list.isAtEnd && !conversation.hasNewer;
    const side = this._list.sideOf(UNREAD_KEY);
    if (side === 0) this._isDividerSeen = true;
    const isAbove = side === -1 || side === null;
    this.pills.show(isAbove && !this._isDividerSeen ? this.divider : null, isNow, conversation);
    this._mark(isNow);
    return isNow;
  }

  /** Mark what is in view as read, soon. At the end everything is. */
  _mark(isNow) {
    if (document.visibilityState !== 'visible') return;
    const seq = isNow ? this.thread.lastSeq() : this._lastInView();
    if (seq <= this._markedSeq) return;
    const { conversation } = this.thread;
    if (conversation.readSeq >= seq && (!isNow || conversation.unreadCount === 0)) return;
    if (isNow) this._send(seq, undefined);
    else this._timer ??= setTimeout(() => this._markInView(), MARK_MS);
  }

  _markInView() {
    this._timer = null;
    if (!this.thread.conversation || document.visibilityState !== 'visible') return;
    const seq = this._lastInView();
    if (seq > this._markedSeq && seq > this.thread.conversation.readSeq) this._send(seq, seq);
  }

  _send(seq, mark) {
    const earlier = this._markedSeq;
    this._markedSeq = seq;
    this.thread.conversation.markRead(mark).catch(() => {
      this._markedSeq = Math.min(this._markedSeq, earlier); // a later look tries again
    });
  }

  /** The seq of the last message whose end is in view. */
  _lastInView() {
    const row = this._list.lastInView((one) => one.kind === 'message' && one.value.seq !== null);
    return row?.value.seq ?? 0;
  }

  // --- jumping ---

  async jumpToUnread() {
    const { conversation } = this.thread;
    if (!this._list.has(UNREAD_KEY)) await this._jump(this.divider.seq);
    if (conversation === this.thread.conversation) this._list.scrollToRow(UNREAD_KEY, 0.12);
    this._isDividerSeen = true;
    this.thread.scrolled();
    this._view.focus({ preventScroll: true });
  }

  async jumpToNow() {
    const { conversation } = this.thread;
    if (conversation.hasNewer) await this._jump('newest');
    if (conversation !== this.thread.conversation) return;
    this._list.scrollToEnd();
    this.thread.scrolled();
  }

  /** Show a message, wherever it is, and mark it for a moment. */
  async jumpToSeq(seq) {
    const { conversation } = this.thread;
    if (!conversation.messages.some((one) => one.seq === seq)) await this._jump(seq);
    const found = conversation.messages.find((one) => one.seq === seq);
    if (conversation === this.thread.conversation && found) this.show(found.key);
  }

  async _jump(at) {
    const { conversation } = this.thread;
    conversation.follow = at === 'newest';
    this.thread.wait(true);
    await conversation.jumpTo(at, { limit: PAGE }).catch((error) => this.thread.tell(error));
    this.thread.wait(false);
    if (conversation === this.thread.conversation) this.thread.render();
  }

  show(key) {
    this.shownKey = key;
    this.thread.render();
    this._list.scrollToRow(key, 0.4);
    this.thread.scrolled();
    clearTimeout(this._shownTimer);
    this._shownTimer = setTimeout(() => {
      this.shownKey = null;
      this.thread.render();
    }, SHOWN_MS);
  }
}
