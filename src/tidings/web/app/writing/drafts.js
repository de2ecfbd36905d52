// Texts that were begun and not sent, by conversation. They are kept in this browser, also over a reload, and on the
// server, so that the user's other devices have them. What is typed here wins over what another device wrote; a text that
// was not changed here follows the other devices.

const KEPT_MAX = 200;
const SEND_MS = 800; // after the last key, before the server gets it
const NOTHING = { text: '', version: 0, isDirty: false };

export class Drafts {
  constructor(client) {
    this.client = client;
    this._unkept = new Map(); // drafts that storage refuses; they last as long as the page
    this._read = new Map(); // what storage said: a row of the inbox asks often
    this._timers = new Map(); // conversation -> timer
    this._sending = new Map(); // conversation -> promise of the request that is under way
    this._onChange = () => {};
    client.on('draft', ({ conversation }) => this._adopt(conversation));
    client.on('inbox', ({ conversation }) => conversation === null && this._adoptAll());
    client.on('state', ({ state }) => state === 'connected' && this._sendAll());
  }

  /** `run(conversation)` is called when another device has changed a draft. */
  onChange(run) {
    this._onChange = run;
  }

  _key(conversation) {
    return `tidings.drafts.${this.client.userId ?? ''}.${conversation.id}`;
  }

  _known(conversation) {
    const key = this._key(conversation);
    if (this._unkept.has(key)) return this._unkept.get(key);
    if (!this._read.has(key)) {
      if (this._read.size > KEPT_MAX) this._read.clear();
      this._read.set(key, stored(key));
    }
    return this._read.get(key);
  }

  of(conversation) {
    const { text, isDirty } = this._known(conversation);
    return isDirty || text ? text : conversation.draft?.text ?? '';
  }

  put(conversation, text) {
    const { version, isDirty } = this._known(conversation);
    if (!isDirty && this.of(conversation) === text) return; // a message that was sent at once leaves nothing to clear
    this._keep(conversation, { text, version, isDirty: true });
    clearTimeout(this._timers.get(conversation));
    this._timers.set(conversation, setTimeout(() => this._send(conversation), text ? SEND_MS : 0));
  }

  _keep(conversation, draft) {
    const key = this._key(conversation);
    this._unkept.delete(key);
    this._read.set(key, draft);
    try {
      if (draft.text || draft.isDirty) localStorage.setItem(key, JSON.stringify(draft));
      else localStorage.removeItem(key);
    } catch {
      this._unkept.set(key, draft);
    }
  }

  // --- the other devices ---

  _sendAll() {
    const { userId, inbox } = this.client;
    for (const conversation of userId ? inbox.conversations : []) if (this._known(conversation).isDirty) this._send(conversation);
  }

  /** Send the text as it is now, after an earlier request is over. */
  async _send(conversation) {
    clearTimeout(this._timers.get(conversation));
    this._timers.delete(conversation);
    await this._sending.get(conversation);
    const { text, isDirty } = this._known(conversation);
    if (!isDirty) return;
    const sending = this._request(conversation, text);
    this._sending.set(conversation, sending);
    await sending;
    if (this._sending.get(conversation) === sending) this._sending.delete(conversation);
  }

  async _request(conversation, text) {
    try {
      await conversation.putDraft(text).catch((error) => {
        if (!error.draft) throw error;
        return conversation.putDraft(text); // another device was first; the newer version is known now
      });
    } catch {
      return; // the next key, or the next connection, tries again
    }
    const now = this._known(conversation);
    if (now.text === text) this._keep(conversation, { text, version: conversation.draft?.version ?? 0, isDirty: false });
  }

  _adoptAll() {
    for (const conversation of this.client.inbox.conversations) {
      const isKept = !conversation.isOpen && this._read.get(this._key(conversation))?.text;
      if (conversation.draft || isKept) this._adopt(conversation); // an open one is cleared by the event alone
    }
  }

  /** Take the draft of another device, unless the text was changed here. */
  _adopt(conversation) {
    const { text, isDirty } = this._known(conversation);
    const given = conversation.draft ?? NOTHING;
    if (isDirty || given.text === text) return;
    this._keep(conversation, { text: given.text, version: given.version, isDirty: false });
    this._onChange(conversation);
  }

  /** The draft of one conversation, for its composer. */
  for(conversation) {
    return { read: () => this.of(conversation), write: (text) => this.put(conversation, text) };
  }
}

function stored(key) {
  try {
    return { ...NOTHING, ...JSON.parse(localStorage.getItem(key) ?? '{}') };
  } catch {
    return NOTHING;
  }
}
