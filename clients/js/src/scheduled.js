/** Scheduled messages of the user: the server sends them at their time. */
import { newId } from './runtime.js';

export class Scheduled {
  constructor(rest) {
    this._rest = rest;
  }

  /** Let the server send a message at `sendAt`, in milliseconds. The same messageId again replaces it. */
  put(conversationId, text, { sendAt, messageId = newId(), data, silent, replyTo, ttlS }) {
    const said = { text, data, silent, reply_to: replyTo, ttl_s: ttlS };
    const body = { conversation_id: conversationId, send_at: sendAt, ...said };
    return this._rest.send('PUT', `/v1/scheduled/${encodeURIComponent(messageId)}`, body, true);
  }

  /** The messages that wait, the soonest first. One with `failed` was refused and is not tried again. */
  async all() {
    return (await this._rest.send('GET', '/v1/scheduled', undefined, true)).scheduled;
  }

  async remove(messageId) {
    await this._rest.send('DELETE', `/v1/scheduled/${encodeURIComponent(messageId)}`);
  }
}
