// Messages that the user saved: nobody else learns of them.

const KNOWN_PAGES_MAX = 5; // pages read at the start, so that a message knows whether it is saved

const keyOf = (conversationId, seq) => `${conversationId} ${seq}`;

export class SavedMessages {
  /** @param on { open(conversation, seq), changed() } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this._known = null;
    client.on('state', ({ state }) => state === 'connected' && this._known === null && this._load());
  }

  has(conversationId, seq) {
    return this._known?.has(keyOf(conversationId, seq)) ?? false;
  }

  async _load() {
    const known = new Set();
    this._isChanged = false;
    try {
      for (let cursor = null, pages = 0; pages < KNOWN_PAGES_MAX; pages += 1) {
        const page = await this.client.saved.page(cursor);
        for (const { conversationId, message } of page.saved) known.add(keyOf(conversationId, message.seq));
        cursor = page.nextCursor;
        if (cursor === null) break;
      }
    } catch {
      return; // the next connection tries again
    }
    if (this._isChanged) return this._load(); // the answers may not know of it
    this._known = known;
    if (known.size) this.on.changed();
  }

  async put(conversationId, seq, isOn) {
    const { saved } = this.client;
    await (isOn ? saved.put(conversationId, seq) : saved.remove(conversationId, seq));
    this._isChanged = true;
    this._known ??= new Set();
    this._known[isOn ? 'add' : 'delete'](keyOf(conversationId, seq));
    this.on.changed();
  }
}
