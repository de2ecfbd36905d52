/**
 * Every entry of every conversation of the user, in order per conversation, from a cursor on: what a bot reads.
 *
 * The cursor says how far each conversation was read; the Python client reads the same cursors. An entry whose work was
 * not finished comes again after a restart, so an answer has the id `re-<seq>` and is stored once.
 */
import { ENTRIES_ALL_MS, PAGE } from './limits.js';

const START = 'start';

export class Entries {
  constructor(client, after = null) {
    this._client = client;
    this._after = after;
    this._read = after !== null && after !== START ? placesOf(after) : new Map();
    this._waiting = [];
    this._behind = new Set();
    this._isBegun = false;
    this._isOver = false;
    this._wake = () => {};
    this._off = client.on('entry', ({ conversation }) => {
      this._behind.add(conversation.id);
      this._wake();
    });
  }

  /** Everything up to the last entry that was handed out. */
  get cursor() {
    const bytes = new TextEncoder().encode(JSON.stringify(Object.fromEntries(this._read)));
    return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_');
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** Find out where the entries begin, before the first of them is asked for. */
  async begin() {
    if (!this._isBegun) await this._look();
    this._isBegun = true;
    return this;
  }

  async next() {
    await this.begin();
    while (!this._waiting.length && !this._isOver) {
      const [id] = this._behind;
      if (id !== undefined) await this._readOn(id);
      else if (!(await this._news())) await this._look();
    }
    if (this._isOver) return { done: true, value: undefined };
    const value = this._waiting.shift();
    this._read.set(value.conversationId, value.entry.seq);
    return { done: false, value };
  }

  async return() {
    this._isOver = true;
    this._off();
    this._wake();
    return { done: true, value: undefined };
  }

  /** Wait for an entry. False: none came for a long time. */
  _news() {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), ENTRIES_ALL_MS);
      this._wake = () => (clearTimeout(timer), resolve(true));
    });
  }

  /** Look at the inbox. Entries that move no row are found because all conversations are read on. */
  async _look() {
    for (const filter of [undefined, 'archived']) {
      for (let cursor = ''; cursor !== null; ) {
        const query = new URLSearchParams({ limit: PAGE, ...(cursor && { cursor }), ...(filter && { filter }) });
        const page = await this._client.rest('GET', `/v1/inbox?${query}`);
        for (const { conversationId, lastSeq } of page.conversations) await this._meet(conversationId, lastSeq);
        cursor = page.nextCursor;
      }
    }
  }

  /** A conversation that the cursor does not know begins at its end, or where the user joined it since. */
  async _meet(id, lastSeq) {
    if (!this._read.has(id)) {
      if (this._after === START) this._read.set(id, 0);
      else if (this._after === null && !this._isBegun) return this._read.set(id, lastSeq);
      else this._read.set(id, await this._joined(id));
    }
    this._behind.add(id);
  }

  async _joined(id) {
    const { members } = await this._client.rest('GET', `/v1/conversations/${encodeURIComponent(id)}`);
    return members.find(({ userId }) => userId === this._client.userId)?.joinedSeq ?? 0;
  }

  async _readOn(id) {
    try {
      if (!this._read.has(id)) await this._meet(id, 0);
      this._behind.delete(id);
      const query = new URLSearchParams({ after_seq: this._read.get(id), limit: PAGE });
      const page = await this._client.rest('GET', `/v1/conversations/${encodeURIComponent(id)}/messages?${query}`);
      for (const entry of page.messages.reverse()) this._waiting.push({ conversationId: id, entry });
      if (page.nextAfterSeq !== null && page.messages.length) this._behind.add(id);
    } catch (error) {
      this._behind.delete(id);
      if (error.code !== 'not_found') throw error;
      this._read.delete(id); // the user is no member any more
    }
  }
}

function placesOf(cursor) {
  try {
    const text = atob(cursor.replace(/-/g, '+').replace(/_/g, '/'));
    const places = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (char) => char.charCodeAt(0))));
    return new Map(Object.entries(places));
  } catch {
    throw new TypeError('`after` is no cursor of entries');
  }
}
