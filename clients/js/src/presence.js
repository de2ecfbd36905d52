/** Signs of other people that hold for a moment: presence, typing, and the conversations whose signs are watched. */
import { BUSY_MS, PRESENCES_MAX, TYPING_AGAIN_MS, TYPING_MS, TYPING_PAUSE_MS, WATCH_MAX } from './limits.js';
import { jitter } from './runtime.js';

export class Presence {
  constructor(client) {
    this._client = client;
    this._people = new Map();
    this._open = new Set(); // open conversations
    this._wanted = []; // conversations that the program named
    this._timer = null;
  }

  get(userId) {
    return this._people.get(userId);
  }

  async fetch(conversationId, userIds) {
    const named = userIds ? { user_ids: userIds.join(',') } : {};
    const query = new URLSearchParams({ conversation_id: conversationId, ...named });
    const { presence } = await this._client._rest.send('GET', `/v1/presence?${query}`, undefined, true);
    for (const one of presence) this.take(one, false);
    return presence;
  }

  take({ userId, online, lastSeen }, isNew = true) {
    this._people.delete(userId); // the latest stands last, and the first one makes room
    this._people.set(userId, { userId, online, lastSeen });
    if (this._people.size > PRESENCES_MAX) this._people.delete(this._people.keys().next().value);
    if (isNew) this._client._emit('presence', { userId, online, lastSeen });
  }

  watch(conversationIds) {
    this._wanted = [...conversationIds];
    this._sendLater();
  }

  watchOpen(conversation, isOpen) {
    if (isOpen) this._open.add(conversation);
    else this._open.delete(conversation);
    this._sendLater();
  }

  /** Ask for the signs of an open conversation once more: before its first message a direct one shows none. */
  watchAgain(conversation) {
    if (!this._open.has(conversation)) return;
    if (this._client._link) this._client._link.watching = '';
    this._sendLater();
  }

  stop() {
    clearTimeout(this._timer);
    this._timer = null;
  }

  _sendLater(waitMs = 0) {
    this._timer ??= setTimeout(() => this.sendWatch(), waitMs);
  }

  async sendWatch(wanted = this._wanted) {
    this.stop();
    const link = this._client._link;
    const open = [...this._open].filter((one) => !one.removed).map((one) => one.id);
    const ids = [...new Set([...open, ...wanted])].slice(0, WATCH_MAX);
    const key = ids.join(' ');
    if (!link || key === link.watching) return;
    link.watching = key;
    try {
      await link.request('watch', { conversation_ids: ids });
    } catch (error) {
      link.watching = '';
      if (error.code === 'not_found' && wanted.length) this.sendWatch([]); // the user has left one of them
      else if (error.temporary && link === this._client._link) this._sendLater(error.retryAfterMs ?? jitter(BUSY_MS));
      else if (!error.temporary && error.code !== 'not_found') this._client._report(error);
    }
  }
}

/** Typing in one conversation: of this user, and of others. */
export class Typing {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this._others = new Map(); // user id -> timer
    this._sentAt = 0;
    this._timer = null;
  }

  get userIds() {
    return [...this._others.keys()];
  }

  keystroke() {
    const now = Date.now();
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.stop(), TYPING_PAUSE_MS);
    if (Math.abs(now - this._sentAt) < TYPING_AGAIN_MS) return; // a clock may be set back
    this._sentAt = now;
    this._client._link?.send('typing', { conversation_id: this._conversation.id, typing: true });
  }

  stop() {
    clearTimeout(this._timer);
    if (!this._sentAt) return;
    this._sentAt = 0;
    this._client._link?.send('typing', { conversation_id: this._conversation.id, typing: false });
  }

  take(userId, isTyping) {
    clearTimeout(this._others.get(userId));
    if (isTyping) this._others.set(userId, setTimeout(() => this.take(userId, false), TYPING_MS));
    else if (!this._others.delete(userId)) return;
    this._emit();
  }

  forgetOthers() {
    if (!this._others.size) return;
    for (const timer of this._others.values()) clearTimeout(timer);
    this._others.clear();
    this._emit();
  }

  _emit() {
    this._client._emit('typing', { conversation: this._conversation, userIds: this.userIds });
  }
}
