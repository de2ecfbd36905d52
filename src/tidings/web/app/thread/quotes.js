// The messages that other messages quote. A quoted message may be far away, so it is read once and remembered.

import { plainOf } from '../parts/text.js';
import { t } from '../parts/words.js';

const KEPT_MAX = 500;

export class Quotes {
  constructor(changed) {
    this._changed = changed;
    this._conversation = null;
    this._known = new Map(); // seq -> message, or null while it is read and where there is none
  }

  use(conversation) {
    this._conversation = conversation;
    this._known.clear();
  }

  /** The quoted message: of the loaded ones, or of the server a moment later. */
  of(seq) {
    const loaded = this._conversation.messages.find((one) => one.seq === seq);
    if (loaded) return loaded;
    if (!this._known.has(seq)) this._read(seq);
    return this._known.get(seq) ?? null;
  }

  async _read(seq) {
    const conversation = this._conversation;
    if (this._known.size >= KEPT_MAX) this._known.clear();
    this._known.set(seq, null);
    try {
      const { messages } = await conversation.history({ aroundSeq: seq, limit: 2 });
      const found = messages.find((one) => one.seq === seq);
      if (conversation !== this._conversation || !found) return;
      this._known.set(seq, found);
      this._changed();
    } catch {
      this._known.delete(seq); // the next drawing tries again
    }
  }
}

/** One line of a message, for a quote or a list. */
export function lineOf(message) {
  if (!message) return t('quoteLoading');
  if (message.deleted) return t('deletedMessage');
  return plainOf(message.text ?? '') || (message.files?.length ? message.files[0].name : t('noText'));
}
