/** A message that is written piece by piece. After a reconnect it goes on from what the server has. */
import { RETRY_MS } from './limits.js';
import { camel, jitter, newId, sleep } from './runtime.js';

const PIECE = 8192; // characters in one frame: it fits, whatever they are

export class Streaming {
  constructor(client, fields) {
    this._client = client;
    this._fields = fields;
    this._id = { conversation_id: fields.conversation_id, message_id: fields.message_id };
    this._characters = [...(fields.text ?? '')]; // code points, as the protocol counts
    this._sent = 0;
    this._link = null; // the connection on which it was begun
    Object.assign(this, { seq: 0, isDuplicate: false });
  }

  static async begin(client, conversationId, { text = '', messageId = newId(), data, replyTo, silent } = {}) {
    const fields = { conversation_id: conversationId, message_id: messageId, text, data, reply_to: replyTo, silent };
    const stream = new Streaming(client, fields);
    const isOwn = await stream._first();
    const { seq, duplicate } = stream._begun;
    return Object.assign(stream, { seq, isDuplicate: duplicate && !isOwn });
  }

  /** Begin. True: the answer to an earlier try was lost, so a message that is there is our own. */
  async _first() {
    try {
      const link = await this._client._linked(Infinity);
      this._took(link, camel(await link.request('message.begin', this._fields)));
      return false;
    } catch (error) {
      if (!error.temporary) throw error;
      await this._begin();
      return !['rate_limited', 'held'].includes(error.code); // these have stored nothing
    }
  }

  /** Add a piece. It leaves at once where there is a connection, else after the next one. */
  write(text) {
    if (this.isDuplicate) return;
    this._characters.push(...text);
    if (this._link !== null && this._link === this._client._link) this._push();
  }

  /** Resolves when the whole text is stored. */
  async end() {
    if (this.isDuplicate) return;
    let isBegunAgain = false;
    for (let tries = 0; ; tries += 1) {
      try {
        const link = await this._client._linked(Infinity);
        if (link !== this._link) await this._begin();
        this._push();
        await this._link.request('message.end', this._id);
        return;
      } catch (error) {
        if (error.code === 'not_found' && !isBegunAgain) {
          isBegunAgain = true; // the node dropped it: it may have been taken up elsewhere
          this._link = null;
        } else if (!error.temporary) throw error; // an end that was stored is answered as stored once more
        else if (error.code !== 'disconnected') {
          await sleep(error.retryAfterMs ?? jitter(RETRY_MS * 2 ** Math.min(tries, 5)));
        }
      }
    }
  }

  async _begin() {
    const begun = await this._client._ask('message.begin', this._fields, true);
    this._took(this._client._link, begun);
  }

  _took(link, begun) {
    this._begun = begun;
    this._link = link;
    this._sent = Math.min(begun.offset, this._characters.length);
  }

  _push() {
    while (this._sent < this._characters.length) {
      const piece = this._characters.slice(this._sent, this._sent + PIECE);
      this._link.send('message.append', { ...this._id, offset: this._sent, text: piece.join('') });
      this._sent += piece.length;
    }
  }
}
