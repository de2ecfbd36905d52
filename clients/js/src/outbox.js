/**
 * The outbox: messages that wait to be sent, per conversation and in order, shared by the tabs of a browser.
 *
 * A message stays here with its message_id until the server has stored it or refuses it for good. Web Locks say which
 * tabs are alive; the others adopt the messages of a tab that has ended.
 */
import { said } from './content.js';
import { TidingsError, closedByUser, outboxFull } from './errors.js';
import { ADOPT_MS, FLYING_MAX, GAP_MS, OUTBOX_MAX, RETRY_MS, RETRY_MS_MAX, SEND_MS, TIMER_MS_MAX } from './limits.js';
import { camel, deferred, jitter, newId } from './runtime.js';
import { blobsOf, factsOf, upload } from './uploads.js';

const keyOf = (record) => `${record.userId}/${record.conversationId}/${record.messageId}`;
const tabLock = (owner) => `tidings:tab:${owner}`;

/** A message to send. `isUnknown`: its answer was lost, so the server may have stored it already. */
class Parcel {
  constructor(record, isUnknown) {
    this.record = record;
    this.isFlying = false;
    this.isUnknown = isUnknown;
    this.isKept = false; // a message is sent only when the storage has it
    this.uploading = null; // ends the upload of its files
    this.onProgress = null;
    this.done = deferred();
  }
}

export class Outbox {
  constructor(client, storage, locks) {
    this._client = client;
    this._storage = storage;
    this._locks = locks;
    this._lanes = new Map(); // conversation id -> {conversationId, parcels, limit, tries, waitMs, timer, reason}
    this._lastOrder = 0;
    this._owner = null; // this tab, while the outbox is open
    this._letGo = null;
    this._adopting = null;
    this.count = 0;
  }

  /** Own the unsent messages of the user from now on, except those of other tabs that are alive. */
  async open(userId) {
    if (this._owner !== null) return;
    const owner = (this._owner = newId());
    this._userId = userId;
    if (this._locks) {
      const held = deferred();
      this._letGo = held.resolve;
      const owned = deferred();
      const own = () => (owned.resolve(), held.promise);
      this._locks.request(tabLock(this._owner), own).catch((error) => this._client._report(error));
      await owned.promise;
      if (this._owner !== owner) return; // closed meanwhile
      this._adopting = setInterval(() => this.adopt(), ADOPT_MS);
    }
    for (const lane of this._lanes.values()) for (const parcel of lane.parcels) this._keep(parcel);
    await this.adopt();
  }

  /** Close. Everything stays in the storage, for the next client that opens it. */
  close() {
    clearInterval(this._adopting);
    for (const lane of this._lanes.values()) {
      clearTimeout(lane.timer);
      for (const parcel of lane.parcels.splice(0)) {
        parcel.uploading?.abort(); // the next client of this storage uploads it
        parcel.done.reject(closedByUser());
      }
    }
    this._lanes.clear();
    this.count = 0;
    this._owner = null;
    this._letGo?.();
    this._letGo = null;
  }

  get isFull() {
    return this.count >= OUTBOX_MAX;
  }

  /** `files` are Blobs. `uploaded` are files that the server has already. */
  add(conversationId, text, options = {}) {
    const { messageId = newId(), ts = Date.now(), files, uploaded, onProgress, ...more } = options;
    if (this.isFull) throw outboxFull();
    const order = (this._lastOrder = Math.max(Date.now(), this._lastOrder + 1));
    const owner = { userId: this._userId ?? null, owner: this._owner ?? '' };
    const record = { ...owner, conversationId, messageId, text, ts, ...said(more), order, failed: null };
    const uploads = blobsOf(files);
    if (uploads.length) Object.assign(record, { uploads, files: uploads.map(factsOf) });
    else if (uploaded?.length) record.files = uploaded;
    const parcel = new Parcel(record, false);
    parcel.onProgress = onProgress;
    this._put(parcel);
    this._keep(parcel);
    return parcel;
  }

  /** Finish a message that the server has stored, as its ok or its entry in the log says. */
  settle(conversationId, messageId, stored) {
    const parcel = this._take(conversationId, messageId);
    if (!parcel) return false;
    this._forget(parcel.record);
    parcel.done.resolve(stored);
    return true;
  }

  /** Take a message back. False when it is on its way, or may be stored already. */
  discard(conversationId, messageId) {
    const parcel = this._find(conversationId, messageId);
    if (!parcel || (parcel.isFlying && !parcel.uploading) || parcel.isUnknown) return false;
    parcel.uploading?.abort();
    this._take(conversationId, messageId);
    this._forget(parcel.record);
    this._client._link?.send('message.abandon', { conversation_id: conversationId, message_id: messageId });
    parcel.done.reject(new TidingsError('discarded', 'the message was taken back'));
    this._pump(this._lane(conversationId));
    return true;
  }

  /** Keep a message that was refused for good, until the user decides. */
  fail(record, error) {
    const failed = { code: error.code, message: error.message };
    this._write(() => this._storage.put(keyOf(record), { ...record, failed }));
  }

  forgetFailed(record) {
    this._forget(record);
  }

  countOf(conversationId) {
    return this._lanes.get(conversationId)?.parcels.length ?? 0;
  }

  /** Send everything again on a new connection, in order, at once. */
  pumpAll() {
    for (const lane of this._lanes.values()) {
      clearTimeout(lane.timer);
      Object.assign(lane, { timer: null, waitMs: 0, tries: 0, limit: FLYING_MAX });
      this._waits(lane, null);
      this._pump(lane);
    }
  }

  /** Adopt the messages of tabs that have ended. Without Web Locks: all messages, at the start. */
  async adopt() {
    if (this._owner === null) return;
    try {
      if (this._locks) await this._locks.request(`tidings:adopt:${this._userId}`, () => this._adoptOrphans());
      else await this._adoptOrphans();
    } catch (error) {
      this._client._report(error);
    }
  }

  async _adoptOrphans() {
    const living = new Set(this._locks ? (await this._locks.query()).held?.map((lock) => lock.name) : []);
    living.add(tabLock(this._owner));
    const isOrphan = ({ userId, owner }) => userId === this._userId && !living.has(tabLock(owner));
    const orphans = (await this._storage.all()).filter(isOrphan).sort((a, b) => a.order - b.order);
    const unknown = orphans.filter((one) => !this._find(one.conversationId, one.messageId));
    const ours = unknown.map((one) => ({ ...one, owner: this._owner }));
    if (!ours.length) return;
    await this._putAll(ours);
    if (this._owner !== null) this._adoptAll(ours);
  }

  /** Write many records at once where the storage can: a thousand writes one after another take most of a minute. */
  async _putAll(records) {
    const pairs = records.map((record) => [keyOf(record), record]);
    if (this._storage.putAll) await this._storage.putAll(pairs);
    else for (const [key, record] of pairs) await this._storage.put(key, record);
  }

  /** Show what another tab left and send it, in the order in which it was written. */
  _adoptAll(records) {
    const lanes = new Set();
    for (const record of records) {
      this._lastOrder = Math.max(this._lastOrder, record.order);
      const { _unsent: unsent } = this._client.conversation(record.conversationId);
      if (record.failed) {
        unsent.showFailed(record);
        continue;
      }
      const parcel = new Parcel(record, true);
      parcel.isKept = true;
      this._put(parcel);
      lanes.add(this._lane(record.conversationId));
      unsent.show(parcel);
    }
    for (const lane of lanes) {
      const waiting = lane.parcels.filter((one) => !one.isFlying).sort((a, b) => a.record.order - b.record.order);
      lane.parcels = [...lane.parcels.filter((one) => one.isFlying), ...waiting];
      this._pump(lane);
    }
  }

  _lane(conversationId) {
    let lane = this._lanes.get(conversationId);
    if (!lane) {
      lane = { conversationId, parcels: [], limit: FLYING_MAX, tries: 0, waitMs: 0, timer: null, reason: null };
      this._lanes.set(conversationId, lane);
    }
    return lane;
  }

  _find(conversationId, messageId) {
    return this._lanes.get(conversationId)?.parcels.find((parcel) => parcel.record.messageId === messageId);
  }

  _put(parcel) {
    this._lane(parcel.record.conversationId).parcels.push(parcel);
    this.count += 1;
  }

  _take(conversationId, messageId) {
    const parcel = this._find(conversationId, messageId);
    if (!parcel) return null;
    const lane = this._lane(conversationId);
    lane.parcels.splice(lane.parcels.indexOf(parcel), 1);
    this.count -= 1;
    return parcel;
  }

  async _keep(parcel) {
    if (this._owner === null) return; // the user is not known yet; open() does it
    parcel.record = { ...parcel.record, userId: this._userId, owner: this._owner };
    await this._write(() => this._storage.put(keyOf(parcel.record), parcel.record));
    parcel.isKept = true;
    const lane = this._lane(parcel.record.conversationId);
    if (lane.parcels.includes(parcel)) this._pump(lane);
    else this._forget(parcel.record); // it was settled or discarded during the write
  }

  _forget(record) {
    this._write(() => this._storage.delete(keyOf(record)));
  }

  /** Report a storage that fails, and go on: the message is in memory too. */
  async _write(work) {
    try {
      await work();
    } catch (error) {
      this._client._report(error);
    }
  }

  _pump(lane) {
    const link = this._client._link;
    if (!link || lane.timer !== null || lane.waitMs) return;
    let flying = lane.parcels.filter((parcel) => parcel.isFlying).length;
    for (const parcel of lane.parcels) {
      const isUpload = Boolean(parcel.record.uploads); // the messages behind it wait for its files
      if (parcel.isFlying && isUpload) return;
      if (parcel.isFlying) continue;
      if (!parcel.isKept || flying >= lane.limit) return;
      flying += 1;
      this._fly(lane, parcel, link);
      if (isUpload) return;
    }
  }

  async _fly(lane, parcel, link) {
    const { conversationId, messageId, text, ts } = parcel.record;
    const { replyTo, ttlS, threadSeq, alsoHere, ...rest } = said(parcel.record); // JSON leaves out what is undefined
    parcel.isFlying = true;
    try {
      if (parcel.record.uploads) {
        await this._upload(parcel);
        link = this._client._link ?? link;
        queueMicrotask(() => this._pump(lane));
      }
      const files = parcel.record.files?.map((file) => file.fileId);
      const reply = { reply_to: replyTo, thread_seq: threadSeq, also_here: alsoHere };
      const whole = { text, ts, ttl_s: ttlS, files, ...reply, ...rest };
      const fields = { conversation_id: conversationId, message_id: messageId, ...whole };
      const ok = await link.request('message.send', fields, SEND_MS);
      Object.assign(lane, { limit: FLYING_MAX, tries: 0 });
      this._client.conversation(conversationId)._unsent.stored(parcel.record, camel(ok));
    } catch (error) {
      this._refused(lane, parcel, error, link);
    } finally {
      parcel.isFlying = false;
      this._settleDown(lane);
    }
  }

  /** Upload the files of a message, and keep their ids before it is sent: after a reload it is the same message. */
  async _upload(parcel) {
    const { record, onProgress } = parcel;
    const path = `/v1/conversations/${encodeURIComponent(record.conversationId)}`;
    const { signal } = (parcel.uploading = new AbortController());
    const files = [];
    try {
      for (const file of record.uploads) {
        const isKept = typeof file?.slice === 'function';
        if (!isKept) throw new TidingsError('bad_request', 'the storage did not keep the file');
        files.push(await upload(this._client._rest, path, file, { onProgress, signal }));
      }
    } catch (error) {
      if (!error.temporary) throw error;
      const { message, retryAfterMs } = error;
      throw new TidingsError('unavailable', message, { temporary: true, retryAfterMs });
    } finally {
      parcel.uploading = null;
    }
    const { uploads, ...rest } = record;
    parcel.record = { ...rest, files };
    await this._write(() => this._storage.put(keyOf(parcel.record), parcel.record));
  }

  _refused(lane, parcel, error, link) {
    if (error.code === 'timeout') link.cut('a send had no answer');
    if (error.code === 'timeout' || error.code === 'disconnected') {
      parcel.isUnknown = true;
    } else if (error.temporary) {
      parcel.isUnknown = false;
      lane.limit = 1; // the first one must be stored before any other is sent
      const againMs = error.code === 'held' ? GAP_MS : jitter(Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** lane.tries));
      lane.waitMs = Math.max(lane.waitMs, error.retryAfterMs ?? againMs, 1);
      if (error.code !== 'held') lane.reason = error.code; // the first refusal says why
    } else if (this._take(parcel.record.conversationId, parcel.record.messageId)) {
      this.fail(parcel.record, error);
      this._client.conversation(parcel.record.conversationId)._unsent.failed(parcel.record, error);
      parcel.done.reject(error);
    }
  }

  /** Send on. After a refusal wait for all answers first, then begin again with the first message. */
  _settleDown(lane) {
    if (!lane.waitMs) this._pump(lane);
    else if (lane.timer === null && !lane.parcels.some((parcel) => parcel.isFlying)) {
      lane.tries += 1;
      this._waits(lane, Date.now() + lane.waitMs);
      lane.timer = setTimeout(() => {
        Object.assign(lane, { timer: null, waitMs: 0 });
        this._waits(lane, null);
        this._pump(lane);
      }, Math.min(lane.waitMs, TIMER_MS_MAX));
    }
  }

  /** Tell when a conversation sends again; null: now. A person who waits is told why nothing happens. */
  _waits(lane, retryAt) {
    const conversation = this._client.conversation(lane.conversationId);
    if (conversation.retryAt === retryAt) return;
    conversation.retryAt = retryAt;
    this._client._emit('waiting', { conversation, retryAt, code: retryAt === null ? null : lane.reason });
  }
}
