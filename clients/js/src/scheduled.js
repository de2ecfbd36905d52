/** Scheduled messages of the user: the server sends them at their time. */
import { said } from './content.js';
import { newId } from './runtime.js';
import { blobsOf, upload } from './uploads.js';

export class Scheduled {
  constructor(rest) {
    this._rest = rest;
  }

  /** Let the server send a message at `sendAt`, in milliseconds. The same messageId again replaces it. `files` are
   *  Blobs that are uploaded now, `uploaded` are files that the server has already. */
  async put(conversationId, text, options) {
    const { sendAt, messageId = newId(), files, uploaded = [], onProgress, signal } = options;
    const { replyTo, ttlS, threadSeq, alsoHere, ...rest } = said(options); // JSON leaves out what is undefined
    const path = `/v1/conversations/${encodeURIComponent(conversationId)}`;
    const ready = [...uploaded];
    for (const file of blobsOf(files)) ready.push(await upload(this._rest, path, file, { onProgress, signal }));
    const reply = { reply_to: replyTo, thread_seq: threadSeq, also_here: alsoHere };
    const whole = { text, ttl_s: ttlS, files: ready.map((file) => file.fileId), ...reply, ...rest };
    const body = { conversation_id: conversationId, send_at: sendAt, ...whole };
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
