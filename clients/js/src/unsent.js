/** Own messages that have no place in the log yet: sending, failed, or stored and not yet the next entry. */
import { said, shown } from './content.js';
import { TidingsError, outboxFull } from './errors.js';
import { rejected } from './runtime.js';

export class Unsent {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this._byId = new Map(); // message id -> message
    this._kept = new Map(); // message id -> what a failed message had and its row does not show, for another try
  }

  get messages() {
    return [...this._byId.values()];
  }

  delete(messageId) {
    return this._byId.delete(messageId);
  }

  /** Forget the messages that were stored: the server has another store. */
  forgetStored() {
    for (const [id, message] of this._byId) if (message.seq !== null) this._byId.delete(id);
  }

  // --- actions of the user ---

  send(text, options) {
    if (text !== null && typeof text === 'object') return this.send(text.text ?? '', text);
    try {
      this._conversation.stopTyping();
      const parcel = this._client._outbox.add(this._conversation.id, text, options);
      options?.signal?.addEventListener('abort', () => this.discard(parcel.record.messageId), { once: true });
      this.show(parcel);
      return parcel.done.promise;
    } catch (error) {
      return rejected(error);
    }
  }

  retry(messageId) {
    const failed = this._byId.get(messageId);
    if (failed?.state !== 'failed') return rejected(new TidingsError('not_found', 'no failed message of this id'));
    if (this._client._outbox.isFull) return rejected(outboxFull());
    const kept = this._kept.get(messageId);
    this._dropFailed(messageId);
    const isSpent = failed.error.code === 'conflict'; // the id stands for another text
    const { text, ts } = failed;
    return this.send(text, { messageId: isSpent ? undefined : messageId, ts, ...said(failed), ...kept });
  }

  discard(messageId) {
    const isFailed = this._byId.get(messageId)?.state === 'failed';
    if (isFailed) this._dropFailed(messageId);
    else if (this._client._outbox.discard(this._conversation.id, messageId)) this._byId.delete(messageId);
    else return false;
    this._conversation._windowChanged();
    return true;
  }

  _dropFailed(messageId) {
    this._byId.delete(messageId);
    this._kept.delete(messageId);
    const { id: conversationId } = this._conversation;
    this._client._outbox.forgetFailed({ userId: this._client.userId, conversationId, messageId });
  }

  // --- news from the outbox ---

  show(parcel) {
    const message = this._messageOf(parcel.record, 'sending', null);
    const isNew = !this._byId.has(message.messageId);
    this._byId.set(message.messageId, message);
    this._conversation._changed();
    if (!isNew) return;
    this._conversation._raiseInInbox(parcel.record.order);
    this._client._emit('message', { conversation: this._conversation, message });
  }

  showFailed(record) {
    const error = new TidingsError(record.failed.code, record.failed.message);
    this._keepRest(record);
    this._byId.set(record.messageId, this._messageOf(record, 'failed', error));
    this._conversation._windowChanged();
  }

  /** Take the ok of a send: the message takes its place in the log as any entry does. */
  stored({ messageId, text: asSent, ts, ...more }, { seq, sentAt, text = asSent, data = more.data }) {
    more.data = data; // the server may have stored another text or data than was sent
    const { ttlS, ...facts } = said(more);
    const entry = { seq, kind: 'message', messageId, senderId: this._client.userId, text, ...facts, ts, sentAt,
      files: more.files ?? [], expiresAt: ttlS ? sentAt + ttlS * 1000 : null, deleted: false,
      editedAt: null, targetSeq: null, member: null };
    this.settle(entry);
    const log = this._conversation._log;
    log.accept(entry);
    if (log.last >= seq && this._byId.has(messageId)) this._conversation._append(entry, true); // its entry was first
  }

  /** Show a message as sent: the server has it. It gets its place when all entries before it have arrived. */
  settle(entry) {
    const message = this._conversation._messageOf(entry);
    if (!this._client._outbox.settle(this._conversation.id, entry.messageId, message)) return;
    const previous = this._byId.get(entry.messageId);
    if (!previous) return;
    this._byId.set(entry.messageId, message);
    this._conversation._updated(message, previous);
  }

  failed(record, error) {
    const previous = this._byId.get(record.messageId);
    this._keepRest(record);
    const message = this._messageOf(record, 'failed', error);
    this._byId.set(record.messageId, message);
    if (previous) this._conversation._updated(message, previous);
    else this._conversation._changed();
  }

  _keepRest({ messageId, uploads, files, ttlS }) {
    this._kept.set(messageId, { ttlS, ...(uploads ? { files: uploads } : { uploaded: files }) });
  }

  _messageOf({ messageId, text, ts, userId, ...more }, state, error) {
    const senderId = this._client.userId ?? userId;
    const key = `${senderId}/${messageId}`;
    return { key, conversationId: this._conversation.id, seq: null, kind: 'message', messageId, senderId, text,
      ...shown(more), files: more.files ?? [], ts, sentAt: null, expiresAt: null, deleted: false, unavailable: false,
      editedAt: null, member: null, reactions: {}, reactionsSeq: 0, pinned: false, mine: true, state, error };
  }
}
