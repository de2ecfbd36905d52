// Texts that were begun and not sent, by conversation. They are kept in this browser, also over a reload.

const KEPT_MAX = 200;

export class Drafts {
  constructor(client) {
    this.client = client;
    this._unkept = new Map(); // drafts that storage refuses; they last as long as the page
    this._read = new Map(); // what storage said: a row of the inbox asks often
  }

  _key(conversation) {
    return `tidings.draft.${this.client.userId ?? ''}.${conversation.id}`;
  }

  of(conversation) {
    const key = this._key(conversation);
    if (this._unkept.has(key)) return this._unkept.get(key);
    if (!this._read.has(key)) {
      if (this._read.size > KEPT_MAX) this._read.clear();
      this._read.set(key, stored(key));
    }
    return this._read.get(key);
  }

  put(conversation, text) {
    const key = this._key(conversation);
    this._unkept.delete(key);
    this._read.set(key, text);
    try {
      if (text) localStorage.setItem(key, text);
      else localStorage.removeItem(key);
    } catch {
      if (text) this._unkept.set(key, text);
    }
  }

  /** The draft of one conversation, for its composer. */
  for(conversation) {
    return { read: () => this.of(conversation), write: (text) => this.put(conversation, text) };
  }
}

function stored(key) {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
}
