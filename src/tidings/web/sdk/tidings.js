/**
 * Tidings, the JavaScript client: one ES module without dependencies, for browsers and Node. tidings.d.ts is its
 * reference.
 *
 * What it guards: every entry of a conversation is applied once and in the order of its seq, whatever the network does;
 * every message given to send() stays in the outbox, in its order and with its message_id, until the server has it or
 * refuses it for good.
 *
 *   TidingsClient   the connection's life, the frames' ways, REST
 *   Link            one WebSocket: requests and their answers, and whether the other side is alive
 *   Outbox          what waits to be sent, per conversation, shared by tabs
 *   Log             the gap rule: a conversation's entries in order
 *   Conversation    what a screen shows of it, and what a user does with it
 *   Inbox           the list of conversations
 *
 * A name that begins with an underscore is for this file alone.
 */

// --- limits, each with its reason --------------------------------------------------------------------

const WINDOW_MAX = 1000; // messages kept per open conversation: some dozen screens
const CATCH_UP_MAX = 2000; // entries replayed after an absence; nobody reads more of them one by one
const REQUEST_MS = 15000; // a request without an answer for this long has failed
const SEND_MS = 30000; // a send without an answer for this long: the connection is no good, another will resend it
const HELLO_MS = 10000; // from opening a socket to its hello
const PROBE_MS = 10000; // how long a ping may take once the line was quiet
const ASLEEP_MS = 15000; // our own timers fire more often: a clock that went this far on was asleep, or throttled
const TOKEN_MS = 20000; // getToken has this long to answer; then it is tried again like one that failed
const RETRY_MS = 500; // the first wait after a lost connection, doubled each time, and random below it
const RETRY_MS_MAX = 30000; // the longest of these waits
const STABLE_MS = 5000; // a connection that lasted this long starts the waits anew
const BUSY_MS = 2000; // at least this long after close 4013
const TOKEN_MARGIN_MS = 5000; // a token that ends this soon is not used for a new connection
const TOKEN_LEAD_MS = 60000; // a token is renewed this long before its end, or after three quarters of what is left
const TIMER_MS_MAX = 2 ** 31 - 1; // what setTimeout can wait for
const RESUME_MAX = 200; // the server's limit of conversations in a resume, and in message.delivered
const WATCH_MAX = 50; // the server's limit of watched conversations
const SINCE_MARGIN_MS = 30000; // how far behind an entry may come to us; what is told twice is noticed
const BIRTH_MARGIN_MS = 1000; // the same for the moment of the first hello
const GAP_MS = 150; // one's own ok may overtake an entry of others by a moment: a gap this young is not asked for
const GAP_TRIES_MAX = 30; // looks at a gap that nothing fills: the server decides an open number within 3 s
const HELD_MAX = 500; // entries beyond a gap that are kept; more are read from the history
const PAGE = 100; // entries per page when catching up: the server's limit
const FLYING_MAX = 16; // sends of one conversation under way at the same time
const OUTBOX_MAX = 1000; // messages waiting to be sent
const ADOPT_MS = 2000; // how often a tab looks whether another one died with messages unsent
const ACK_MS = 200; // deliveries of a burst are said together
const MARKS_MS = 250; // receipts of a group's members are looked up together
const AMENDS_MAX = 20; // edits and deletes remembered for a page that was read before them
const TYPING_AGAIN_MS = 3000; // a typist repeats it this often: the server forgets after 7 s
const TYPING_PAUSE_MS = 5000; // no keystroke for this long: stopped
const TYPING_MS = 8000; // a typist of whom nothing more is heard has stopped
const PRESENCES_MAX = 5000; // people whose presence is remembered
const PREVIEW_CHARS = 120; // as the server cuts it

// Close codes: 40xx is come back, 45xx is stop.
const CLOSE = { DRAINING: 4001, TOKEN_EXPIRED: 4005, TOO_MANY_REQUESTS: 4013, BAD_TOKEN: 4500 };
const isStop = (code) => code >= 4500 && code < 4600;

// --- errors ------------------------------------------------------------------------------------------

export class TidingsError extends Error {
  constructor(code, message, { temporary = false, retryAfterMs = null, status = null, closeCode = null } = {}) {
    super(message);
    this.name = 'TidingsError';
    this.code = code;
    this.temporary = temporary;
    this.retryAfterMs = retryAfterMs;
    this.status = status;
    this.closeCode = closeCode;
  }
}

const disconnected = (closeCode = null, reason = '') =>
  new TidingsError('disconnected', reason || 'the connection was lost', { temporary: true, closeCode });
const outboxFull = () =>
  new TidingsError('outbox_full', `${OUTBOX_MAX} messages wait to be sent already`, { temporary: true });
const closedByUser = () => new TidingsError('closed', 'the client was closed', { temporary: true });

// --- small things ------------------------------------------------------------------------------------

const camelKey = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

/** The same value with camelCase keys. */
function camel(value) {
  if (Array.isArray(value)) return value.map(camel);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [camelKey(key), camel(one)]));
}

function deferred() {
  const one = {};
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }));
  one.promise.catch(() => {}); // whoever waits is told; nobody has to
  return one;
}

function refused(error) {
  const one = deferred();
  one.reject(error);
  return one.promise;
}

/** What is asked for, or a timeout. */
async function within(ms, asked, message) {
  let timer = null;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TidingsError('timeout', message, { temporary: true })), ms);
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const jitter = (ms) => ms * (0.5 + Math.random() / 2);

/** Time first, so that ids of one device sort in the order they were made; 80 random bits. */
function newId() {
  const random = globalThis.crypto.getRandomValues(new Uint8Array(10));
  const tail = Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return Date.now().toString(16).padStart(12, '0') + tail;
}

/** What a token says of itself; nothing is verified, that is the server's part. */
function claimsOf(token) {
  try {
    const part = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    const bytes = Uint8Array.from(atob(part), (char) => char.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {};
  }
}

function previewOf(text) {
  return text === null ? null : Array.from(text).slice(0, PREVIEW_CHARS).join('').replace(/\r\n|\r|\n/g, ' ');
}

class Emitter {
  constructor() {
    this._listeners = new Map();
  }

  on(event, listener) {
    if (!this._listeners.has(event)) this._listeners.set(event, new Set());
    this._listeners.get(event).add(listener);
    return () => this.off(event, listener);
  }

  off(event, listener) {
    this._listeners.get(event)?.delete(listener);
  }

  once(event) {
    return new Promise((resolve) => {
      const off = this.on(event, (value) => (off(), resolve(value)));
    });
  }

  /** A listener that throws stops nobody else. */
  _emit(event, value) {
    for (const listener of [...(this._listeners.get(event) ?? [])]) {
      try {
        listener(value);
      } catch (error) {
        if (event === 'error') console.error(error);
        else this._report(error);
      }
    }
  }

  _report(error) {
    if (this._listeners.get('error')?.size) this._emit('error', { error });
    else console.error(error);
  }
}

// --- where the outbox is kept ------------------------------------------------------------------------

export function memoryStorage() {
  const records = new Map();
  return {
    put: (key, record) => void records.set(key, record),
    delete: (key) => void records.delete(key),
    all: () => [...records.values()],
  };
}

export function localStorageOutbox({ prefix = 'tidings:outbox:', storage = globalThis.localStorage } = {}) {
  const keys = () => Array.from({ length: storage.length }, (_, index) => storage.key(index));
  return {
    put: (key, record) => storage.setItem(prefix + key, JSON.stringify(record)),
    delete: (key) => storage.removeItem(prefix + key),
    all: () => keys().filter((key) => key?.startsWith(prefix)).flatMap((key) => {
      try {
        return [JSON.parse(storage.getItem(key))].filter(Boolean);
      } catch {
        return []; // not ours, or cut
      }
    }),
  };
}

export function indexedDbOutbox({ name = 'tidings' } = {}) {
  const asked = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  let opened = null;
  const open = () => {
    const request = globalThis.indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore('outbox');
    return asked(request);
  };
  const run = async (mode, work) => {
    opened ??= open();
    const transaction = (await opened).transaction('outbox', mode, { durability: 'strict' });
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    const [result] = await Promise.all([asked(work(transaction.objectStore('outbox'))), done]);
    return result;
  };
  return {
    put: async (key, record) => void (await run('readwrite', (store) => store.put(record, key))),
    delete: async (key) => void (await run('readwrite', (store) => store.delete(key))),
    all: () => run('readonly', (store) => store.getAll()),
  };
}

// --- Link: one WebSocket -----------------------------------------------------------------------------

class Link {
  constructor(socket) {
    this._socket = socket;
    this._onEvent = null;
    this._early = []; // events behind the hello, until start()
    this._answers = new Map(); // id -> {resolve, reject, timer}
    this._lastId = 0;
    this.heardAt = Date.now(); // the latest moment that what was heard may be of
    this._awakeAt = Date.now();
    this._isDoubted = false;
    this.welcomedAt = Infinity; // when the hello was taken
    this._liveness = null;
    this._ended = deferred();
    this.ended = this._ended.promise; // resolves with {code, reason}
    this.isOpen = true;
    socket.onmessage = (event) => this._take(event.data);
    socket.onclose = (event) => this._lost(event.code ?? 1006, event.reason ?? '');
    socket.onerror = () => {}; // a close follows
  }

  opened(withinMs) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.cut('no connection in time'), withinMs);
      this._socket.onopen = () => (clearTimeout(timer), resolve());
      this.ended.then(({ code, reason }) => (clearTimeout(timer), reject(disconnected(code, reason))));
    });
  }

  /** The hello was taken: events go here from now on, those that came with it first. */
  start(onEvent) {
    this._onEvent = onEvent;
    for (const frame of this._early.splice(0)) onEvent(frame);
  }

  say(type, fields = {}) {
    if (this.isOpen) this._write({ type, ...fields });
  }

  /** The answer, in the wire's own names. */
  request(type, fields = {}, timeoutMs = REQUEST_MS) {
    if (!this.isOpen) return Promise.reject(disconnected());
    const id = ++this._lastId;
    return new Promise((resolve, reject) => {
      const late = new TidingsError('timeout', `no answer to ${type}`, { temporary: true });
      const timer = setTimeout(() => this._give(id, null, late), timeoutMs);
      this._answers.set(id, { resolve, reject, timer });
      this._write({ id, type, ...fields });
    });
  }

  /** Whether anything is heard; if the line was quiet for `intervalMs`, a ping asks. */
  watchOver(intervalMs) {
    const look = () => {
      this._notice();
      if (this._isDoubted) return; // the ping under way decides
      const quietMs = Date.now() - this.heardAt;
      if (quietMs >= intervalMs + PROBE_MS) this.cut('nothing was heard');
      else if (quietMs >= intervalMs) this.say('ping', { id: ++this._lastId });
    };
    this._liveness = setInterval(look, Math.min(intervalMs, PROBE_MS) / 2);
  }

  /** The network may have changed, or we slept: what lies in the socket may be old, so only an answer to this ping counts
   *  as heard. It has to come soon. */
  async probe() {
    if (this._isDoubted || !this.isOpen) return;
    this._isDoubted = true;
    try {
      await this.request('ping', {}, PROBE_MS / 2);
      this.heardAt = Date.now();
    } catch (error) {
      if (error.code === 'timeout') this.cut('nothing was heard');
    } finally {
      this._isDoubted = false;
    }
  }

  /** Whether the clock went on without us. */
  _notice() {
    const before = this._awakeAt;
    this._awakeAt = Date.now();
    if (this._awakeAt - before > ASLEEP_MS) this.probe();
  }

  /** Over at once, whatever the socket does about it. */
  cut(reason, code = 1000) {
    try {
      this._socket.close(code, reason);
    } catch {
      // it was never open
    }
    this._lost(1006, reason);
  }

  _write(frame) {
    if (this._socket.readyState > 1) return; // closing: its close follows, and rejects whoever waits for an answer
    try {
      this._socket.send(JSON.stringify(frame));
    } catch (error) {
      this.cut(String(error));
    }
  }

  _take(data) {
    if (!this.isOpen) return;
    this._notice();
    if (!this._isDoubted) this.heardAt = this._awakeAt;
    const frame = JSON.parse(data);
    if (frame.type === 'error') {
      const { code, message, temporary, retry_after_ms: retryAfterMs } = frame;
      this._give(frame.id, null, new TidingsError(code, message, { temporary, retryAfterMs }));
    } else if (frame.id === undefined || frame.id === null) {
      if (this._onEvent) this._onEvent(frame);
      else this._early.push(frame);
    } else this._give(frame.id, frame, null);
  }

  _give(id, frame, error) {
    const waiting = this._answers.get(id);
    if (!waiting) return;
    this._answers.delete(id);
    clearTimeout(waiting.timer);
    if (error) waiting.reject(error);
    else waiting.resolve(frame);
  }

  _lost(code, reason) {
    if (!this.isOpen) return;
    this.isOpen = false;
    clearInterval(this._liveness);
    for (const id of [...this._answers.keys()]) this._give(id, null, disconnected(code, reason));
    this._ended.resolve({ code, reason });
  }
}

// --- Outbox ------------------------------------------------------------------------------------------

/** A message on its way. `isUnknown`: it was sent and the answer was lost, so it may be stored already. */
class Parcel {
  constructor(record, isUnknown) {
    this.record = record;
    this.isFlying = false;
    this.isUnknown = isUnknown;
    this.isKept = false; // in the storage: only then it is sent
    this.done = deferred();
  }
}

class Outbox {
  constructor(client, storage, locks) {
    this._client = client;
    this._storage = storage;
    this._locks = locks;
    this._lanes = new Map(); // conversation id -> {parcels, limit, tries, waitMs, timer}
    this._lastOrder = 0;
    this._owner = null; // this tab, while the outbox is open
    this._letGo = null;
    this._adopting = null;
    this.count = 0;
  }

  /** From here on unsent messages of the user are ours, but for those of tabs that live. */
  async open(userId) {
    if (this._owner !== null) return;
    this._owner = newId();
    this._userId = userId;
    if (this._locks) {
      const held = deferred();
      this._letGo = held.resolve;
      const owned = deferred();
      const own = () => (owned.resolve(), held.promise);
      this._locks.request(tabLock(this._owner), own).catch((error) => this._client._report(error));
      await owned.promise;
      this._adopting = setInterval(() => this.adopt(), ADOPT_MS);
    }
    for (const lane of this._lanes.values()) for (const parcel of lane.parcels) this._keep(parcel);
    await this.adopt();
  }

  /** Everything stays in the storage, for whoever opens it next. */
  close() {
    clearInterval(this._adopting);
    for (const lane of this._lanes.values()) {
      clearTimeout(lane.timer);
      for (const parcel of lane.parcels) parcel.done.reject(closedByUser());
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

  add(conversationId, text, { messageId = newId(), ts = Date.now() } = {}) {
    if (this.isFull) throw outboxFull();
    const order = (this._lastOrder = Math.max(Date.now(), this._lastOrder + 1));
    const whose = { userId: this._userId ?? null, owner: this._owner ?? '' };
    const record = { ...whose, conversationId, messageId, text, ts, order, failed: null };
    const parcel = new Parcel(record, false);
    this._put(parcel);
    this._keep(parcel);
    return parcel;
  }

  /** The server has it: said by its ok, or by its entry in the log. */
  settle(conversationId, messageId, stored) {
    const parcel = this._take(conversationId, messageId);
    if (!parcel) return false;
    this._forget(parcel.record);
    parcel.done.resolve(stored);
    return true;
  }

  /** false: it is on its way, or may have arrived. */
  discard(conversationId, messageId) {
    const parcel = this._find(conversationId, messageId);
    if (!parcel || parcel.isFlying || parcel.isUnknown) return false;
    this._take(conversationId, messageId);
    this._forget(parcel.record);
    this._client._link?.say('message.abandon', { conversation_id: conversationId, message_id: messageId });
    parcel.done.reject(new TidingsError('discarded', 'the message was taken back'));
    this._pump(this._lane(conversationId));
    return true;
  }

  /** A message that failed for good is kept until the user decides. */
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

  /** A new connection: everything is sent again, in order, at once. */
  pumpAll() {
    for (const lane of this._lanes.values()) {
      clearTimeout(lane.timer);
      Object.assign(lane, { timer: null, waitMs: 0, tries: 0, limit: FLYING_MAX });
      this._pump(lane);
    }
  }

  /** Takes over what tabs left that are no more. Without Web Locks: all there is, at the start. */
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
    for (const record of orphans) {
      if (this._owner === null || this._find(record.conversationId, record.messageId)) continue;
      const ours = { ...record, owner: this._owner };
      await this._storage.put(keyOf(ours), ours);
      this._lastOrder = Math.max(this._lastOrder, ours.order);
      const conversation = this._client.conversation(ours.conversationId);
      if (ours.failed) conversation._showFailed(ours);
      else this._adoptOne(conversation, ours);
    }
  }

  _adoptOne(conversation, record) {
    const parcel = new Parcel(record, true);
    parcel.isKept = true;
    this._put(parcel);
    const { parcels } = this._lane(record.conversationId);
    const waiting = parcels.filter((one) => !one.isFlying).sort((a, b) => a.record.order - b.record.order);
    parcels.splice(0, parcels.length, ...parcels.filter((one) => one.isFlying), ...waiting);
    conversation._showUnsent(parcel);
    this._pump(this._lane(record.conversationId));
  }

  _lane(conversationId) {
    let lane = this._lanes.get(conversationId);
    if (!lane) {
      lane = { parcels: [], limit: FLYING_MAX, tries: 0, waitMs: 0, timer: null };
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
    if (this._owner === null) return; // open() does it: whose it is, is not known yet
    parcel.record = { ...parcel.record, userId: this._userId, owner: this._owner };
    await this._write(() => this._storage.put(keyOf(parcel.record), parcel.record));
    parcel.isKept = true;
    const lane = this._lane(parcel.record.conversationId);
    if (lane.parcels.includes(parcel)) this._pump(lane);
    else this._forget(parcel.record); // settled or discarded while it was written
  }

  _forget(record) {
    this._write(() => this._storage.delete(keyOf(record)));
  }

  /** A storage that fails is told of, and does without: the message is in memory all the same. */
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
      if (parcel.isFlying) continue;
      if (!parcel.isKept || flying >= lane.limit) return;
      flying += 1;
      this._fly(lane, parcel, link);
    }
  }

  async _fly(lane, parcel, link) {
    const { conversationId, messageId, text, ts } = parcel.record;
    parcel.isFlying = true;
    try {
      const fields = { conversation_id: conversationId, message_id: messageId, text, ts };
      const ok = await link.request('message.send', fields, SEND_MS);
      Object.assign(lane, { limit: FLYING_MAX, tries: 0 });
      this._client.conversation(conversationId)._stored(parcel.record, camel(ok));
    } catch (error) {
      this._refused(lane, parcel, error, link);
    } finally {
      parcel.isFlying = false;
      this._settleDown(lane);
    }
  }

  _refused(lane, parcel, error, link) {
    if (error.code === 'timeout') link.cut('a send had no answer');
    if (error.code === 'timeout' || error.code === 'disconnected') {
      parcel.isUnknown = true;
    } else if (error.temporary) {
      parcel.isUnknown = false;
      lane.limit = 1; // the first one has to pass before any other
      const againMs = error.code === 'held' ? GAP_MS : jitter(Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** lane.tries));
      lane.waitMs = Math.max(lane.waitMs, error.retryAfterMs ?? againMs, 1);
    } else if (this._take(parcel.record.conversationId, parcel.record.messageId)) {
      this.fail(parcel.record, error);
      this._client.conversation(parcel.record.conversationId)._failed(parcel.record, error);
      parcel.done.reject(error);
    }
  }

  /** After a refusal nothing is sent until all answers are there: then again from the first one. */
  _settleDown(lane) {
    if (!lane.waitMs) this._pump(lane);
    else if (lane.timer === null && !lane.parcels.some((parcel) => parcel.isFlying)) {
      lane.tries += 1;
      lane.timer = setTimeout(() => {
        Object.assign(lane, { timer: null, waitMs: 0 });
        this._pump(lane);
      }, Math.min(lane.waitMs, TIMER_MS_MAX));
    }
  }
}

const keyOf = (record) => `${record.userId}/${record.conversationId}/${record.messageId}`;
const tabLock = (owner) => `tidings:tab:${owner}`;

// --- Log: a conversation's entries in order ----------------------------------------------------------

/**
 * `last` is the last contiguous seq; null until it is known where we begin: with what was sent after our first hello.
 * An entry that is not the next is held, and what lies between is read from the history.
 */
class Log {
  constructor(conversation, client) {
    this._conversation = conversation;
    this._client = client;
    this.last = null;
    this._held = new Map();
    this._hasMore = false; // the server has more than we do
    this._isFilling = false;
    this._timer = null;
  }

  accept(entry) {
    if (this.last === null && entry.seq === 1) this.last = 0;
    if (this.last !== null && entry.seq <= this.last) return;
    if (this._held.size < HELD_MAX) this._held.set(entry.seq, entry);
    else this._hasMore = true;
    this._drain();
    this._fillLater(this.last === null ? 0 : GAP_MS);
  }

  /** Where it begins, if that is not known: nothing up to here is news. */
  begin(seq) {
    if (this.last !== null) return;
    this.last = seq;
    this._drain();
  }

  /** The server says that its log goes further than ours. */
  goOn(waitMs = 0) {
    this._hasMore = true;
    this._fillLater(waitMs);
  }

  /** Entries up to here are not for us: we came later, or they are gone. */
  jump(seq) {
    if (this.last !== null && seq <= this.last) return;
    this.last = seq;
    this._drain();
  }

  /** Another store: what we had says nothing. */
  reset(seq) {
    this.forget();
    this.last = seq;
  }

  forget() {
    clearTimeout(this._timer);
    this._timer = null;
    this._held.clear();
    this._hasMore = false;
  }

  _drain() {
    if (this.last === null) return;
    for (let entry; (entry = this._held.get(this.last + 1)); ) {
      this._held.delete(entry.seq);
      this.last = entry.seq;
      this._conversation._apply(entry);
    }
    for (const seq of this._held.keys()) if (seq <= this.last) this._held.delete(seq);
  }

  get _isBehind() {
    return this._hasMore || this._held.size > 0;
  }

  _fillLater(waitMs) {
    if (!this._isBehind || this._isFilling || this._timer !== null) return;
    this._timer = setTimeout(() => {
      this._timer = null;
      this._fill();
    }, waitMs);
  }

  async _fill() {
    if (this._isFilling) return;
    this._isFilling = true;
    try {
      for (let tries = 0; this._isBehind && !this._conversation.removed; ) {
        const before = this.last;
        await (this.last === null ? this._findBeginning() : this._readOn());
        tries = this.last === before ? tries + 1 : 0;
        if (this._isBehind && tries > GAP_TRIES_MAX) this._giveUp();
        else if (this._isBehind && tries) await sleep(GAP_MS);
      }
    } catch (error) {
      // Whatever is missing is named in the next resume, or asked for with the next entry.
      if (!error.temporary && error.code !== 'not_found') this._client._report(error);
      if (error.temporary && error.code !== 'closed') this._retryLater();
    } finally {
      this._isFilling = false;
    }
  }

  _retryLater() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._timer = null;
      this._fill();
    }, jitter(BUSY_MS));
  }

  _history(place) {
    return this._client._ask('history', { conversation_id: this._conversation.id, ...place });
  }

  async _readOn() {
    const page = await this._history({ after_seq: this.last, limit: PAGE });
    this._conversation._takeMarks(page);
    if (page.head - this.last > this._client._catchUpMax) {
      await this._skip();
      return;
    }
    const entries = page.messages.reverse();
    if (entries.length && entries[0].seq > this.last + 1) this.last = entries[0].seq - 1; // older ones are not for us
    for (const entry of entries) if (entry.seq > this.last) this._held.set(entry.seq, entry);
    this._drain();
    if (page.nextAfterSeq === null) this._hasMore = false;
  }

  /** From the newest backwards, until an entry is older than our first hello. */
  async _findBeginning() {
    const news = [];
    for (let beforeSeq = null; news.length < this._client._catchUpMax; ) {
      const page = await this._history({ before_seq: beforeSeq ?? undefined, limit: PAGE });
      if (this.last !== null) return; // somebody else knew
      const lowestHeld = Math.min(...this._held.keys());
      const young = page.messages.filter((entry) => entry.sentAt > this._client._bornAt || entry.seq >= lowestHeld);
      news.push(...young);
      beforeSeq = page.nextBeforeSeq;
      if (young.length < page.messages.length || beforeSeq === null) {
        const older = page.messages[young.length]?.seq;
        this.last = older ?? (news.length ? news[news.length - 1].seq - 1 : page.head);
        break;
      }
    }
    this.last ??= news[news.length - 1].seq - 1;
    for (const entry of news) this._held.set(entry.seq, entry);
    this._hasMore = false;
    this._drain();
  }

  async _skip() {
    const page = await this._history({ limit: 20 });
    const toSeq = page.messages[0]?.seq ?? page.head;
    const fromSeq = this.last + 1;
    this._hasMore = false;
    this.jump(toSeq);
    this._conversation._skipped(fromSeq, toSeq, page);
  }

  _giveUp() {
    const next = Math.min(...this._held.keys());
    this._hasMore = false;
    if (next === Infinity) return;
    const fromSeq = this.last + 1;
    this._client._emit('skipped', { conversation: this._conversation, fromSeq, toSeq: next - 1 });
    this.jump(next - 1);
  }
}

// --- Conversation ------------------------------------------------------------------------------------

const ROW = ['kind', 'name', 'avatarUrl', 'lastMessagePreview', 'lastMessageTs', 'lastSeq', 'unreadCount',
  'unreadCapped', 'readSeq', 'firstUnreadSeq', 'muted', 'pinned', 'archived'];
const SHOWN = new Set(['message', 'member']);
const placeOf = (at) => (at === 'newest' ? {} : at === 'first_unread' ? { anchor: at } : { around_seq: at });

export class Conversation {
  constructor(client, id) {
    this.id = id;
    this._client = client;
    this._path = `/v1/conversations/${encodeURIComponent(id)}`;
    Object.assign(this, { kind: null, name: null, avatarUrl: null });
    Object.assign(this, { lastMessagePreview: null, lastMessageTs: 0, lastSeq: 0 });
    Object.assign(this, { unreadCount: 0, unreadCapped: false, readSeq: 0, firstUnreadSeq: null });
    Object.assign(this, { muted: false, pinned: false, archived: false, removed: false });
    Object.assign(this, { isOpen: false, follow: true, hasOlder: false, hasNewer: false });
    Object.assign(this, { deliveredAllSeq: 0, readAllSeq: 0 });
    this._log = new Log(this, client);
    this._shown = []; // messages with a seq, ascending: the log from some seq to `_to`
    this._from = 1;
    this._to = 0;
    this._unsent = new Map(); // message id -> message: sending, failed, or sent and waiting for its place
    this._messages = null;
    this._jumps = 0;
    this._paging = { older: null, newer: null };
    this._marks = []; // reads and unreads on their way, one after another
    this._isMarking = false;
    this._marksTimer = null;
    this._amends = []; // the last edits and deletes
    this._typists = new Map(); // user id -> timer
    this._typing = { saidAt: 0, timer: null };
    this._hasRow = false;
    this._score = 0; // its place in the inbox
    this._taken = 0; // and among equals
    this._touched = 0; // when it last had an entry, for the choice of what to resume
  }

  get messages() {
    this._messages ??= [...this._shown, ...this._unsent.values()];
    return this._messages;
  }

  get typing() {
    return [...this._typists.keys()];
  }

  get unsentCount() {
    return this._client._outbox.countOf(this.id);
  }

  on(event, listener) {
    return this._client.on(event, (value) => value.conversation === this && listener(value));
  }

  // --- the window ---

  async open({ at = 'newest', limit = 50 } = {}) {
    this._client._watchOpen(this, true);
    return this.jumpTo(at, { limit });
  }

  close() {
    this._jumps += 1;
    this._client._watchOpen(this, false);
    this.stopTyping();
    Object.assign(this, { isOpen: false, follow: true, hasOlder: false, hasNewer: false });
    Object.assign(this, { _shown: [], _from: 1, _to: 0 });
    this._changed();
  }

  async jumpTo(at, { limit = 50 } = {}) {
    const jump = ++this._jumps;
    const page = await this._page({ ...placeOf(at), limit });
    if (jump !== this._jumps) return this.messages; // a later jump, or close(), decides
    Object.assign(this, { isOpen: true, firstUnreadSeq: page.firstUnreadSeq, hasOlder: page.nextBeforeSeq !== null });
    this._shown = [];
    this._install(page, [], page.messages);
    this._from = page.messages[0]?.seq ?? page.head + 1;
    this._to = page.messages[page.messages.length - 1]?.seq ?? (at === 'newest' ? 0 : page.head);
    this._begin(page);
    await this._reachEnd(page);
    this._window();
    return this.messages;
  }

  loadOlder(limit = 50) {
    this._paging.older ??= this._loadOlder(limit).finally(() => (this._paging.older = null));
    return this._paging.older;
  }

  loadNewer(limit = 50) {
    this._paging.newer ??= this._loadNewer(limit).finally(() => (this._paging.newer = null));
    return this._paging.newer;
  }

  async history({ beforeSeq, afterSeq, aroundSeq, anchor, limit = 20 } = {}) {
    const place = { before_seq: beforeSeq, after_seq: afterSeq, around_seq: aroundSeq, anchor };
    const page = await this._client._ask('history', { conversation_id: this.id, limit, ...place });
    this._takeMarks(page);
    const { messages, nextBeforeSeq, nextAfterSeq, firstUnreadSeq, head, deliveredAllSeq, readAllSeq } = page;
    return { messages, nextBeforeSeq, nextAfterSeq, firstUnreadSeq, head, deliveredAllSeq, readAllSeq };
  }

  async _loadOlder(limit) {
    if (!this.isOpen) return (await this.open({ limit })).slice();
    if (!this.hasOlder) return [];
    const jump = this._jumps;
    const page = await this._page({ before_seq: this._from, limit });
    if (jump !== this._jumps) return [];
    const before = this._shown.length;
    this._install(page, page.messages, []);
    this._from = page.messages[0]?.seq ?? this._from;
    this.hasOlder = page.nextBeforeSeq !== null;
    const added = this._shown.slice(0, this._shown.length - before);
    this._dropNewest();
    this._window();
    return added;
  }

  async _loadNewer(limit) {
    if (!this.isOpen || !this.hasNewer) return [];
    const jump = this._jumps;
    const page = await this._page({ after_seq: this._to, limit });
    if (jump !== this._jumps) return [];
    const before = this._shown.length;
    const newer = page.messages.filter((entry) => entry.seq > this._to);
    this._install(page, [], newer);
    this._to = newer[newer.length - 1]?.seq ?? this._to;
    const added = this._shown.slice(before);
    this._dropOldest();
    await this._reachEnd(page);
    this._window();
    return added;
  }

  /** A page in the order of the log. */
  async _page(place) {
    const page = await this._client._ask('history', { conversation_id: this.id, ...place });
    page.messages.reverse();
    this._takeMarks(page);
    return page;
  }

  _install(page, before, after) {
    const shown = (entries) => entries.filter((entry) => SHOWN.has(entry.kind)).map((entry) => {
      if (this._isMine(entry)) this._settle(entry);
      this._unsent.delete(this._isMine(entry) ? entry.messageId : null);
      return this._messageOf(entry);
    });
    this._shown = [...shown(before), ...this._shown, ...shown(after)];
    for (const entry of this._amends) this._amendShown(entry); // the page may be older than these
  }

  /** A page may tell where the log begins for us; and it may be ahead of what was pushed. */
  _begin(page) {
    const { messages } = page;
    const old = messages.filter((entry) => entry.sentAt <= this._client._bornAt);
    if (page.nextAfterSeq === null && (old.length || page.nextBeforeSeq === null)) {
      this._log.begin(old[old.length - 1]?.seq ?? (messages.length ? messages[0].seq - 1 : page.head));
    }
    if (this._log.last === null) this._log.goOn();
    else if (page.nextAfterSeq === null) for (const entry of messages) this._log.accept(entry);
  }

  /** At the end of the log the window goes live; what was pushed while the page was read is fetched. */
  async _reachEnd(page) {
    this.hasNewer = page.nextAfterSeq !== null || this._to < (this._log.last ?? 0);
    if (page.nextAfterSeq !== null || !this.hasNewer) return;
    const jump = this._jumps;
    const rest = await this._page({ after_seq: this._to, limit: PAGE });
    if (jump !== this._jumps) return;
    const newer = rest.messages.filter((entry) => entry.seq > this._to);
    this._install(rest, [], newer);
    this._to = newer[newer.length - 1]?.seq ?? this._to;
    if (newer.length) await this._reachEnd(rest);
  }

  _dropOldest() {
    const excess = this._shown.length - this._client._windowMax;
    if (excess <= 0) return;
    this._shown = this._shown.slice(excess);
    this._from = this._shown[0].seq;
    this.hasOlder = true;
  }

  _dropNewest() {
    if (this._shown.length <= this._client._windowMax) return;
    this._shown = this._shown.slice(0, this._client._windowMax);
    this._to = this._shown[this._shown.length - 1].seq;
    this.hasNewer = true;
  }

  _changed() {
    this._messages = null;
  }

  _window() {
    this._changed();
    this._client._emit('window', { conversation: this });
  }

  // --- what comes ---

  /** The next entry of the log. */
  _apply(entry) {
    this._touched = Date.now();
    const isMine = this._isMine(entry);
    if (isMine) this._settle(entry);
    if (entry.kind === 'message') this._showInRow(entry);
    this._client._emit('entry', { conversation: this, entry });
    if (SHOWN.has(entry.kind)) this._append(entry, isMine);
    else {
      if (this.isOpen && !this.hasNewer) this._to = Math.max(this._to, entry.seq);
      if (entry.kind !== 'void') this._amend(entry);
    }
    if (entry.kind === 'member') this._membersChanged();
    if (!isMine) this._client._ackLater(this);
  }

  _append(entry, isMine) {
    const message = this._messageOf(entry);
    const unsent = isMine ? this._unsent.get(entry.messageId) : undefined;
    if (unsent) this._unsent.delete(entry.messageId);
    if (this.isOpen && !this.hasNewer && entry.seq > this._to) {
      if (!this.follow && this._shown.length >= this._client._windowMax) this.hasNewer = true;
      else {
        this._shown = [...this._shown, message];
        this._to = entry.seq;
        this._dropOldest();
      }
    }
    this._changed();
    if (this._typists.has(entry.senderId)) this._takeTyping(entry.senderId, false);
    if (unsent) this._client._emit('window', { conversation: this });
    else this._client._emit('message', { conversation: this, message });
  }

  /** An edit or a delete: its target gets the new text, or none. */
  _amend(entry) {
    const isDelete = entry.kind === 'delete';
    const text = isDelete ? null : entry.text;
    if (entry.targetSeq === this.lastSeq && !isDelete && text !== null) this.lastMessagePreview = previewOf(text);
    if (entry.targetSeq === this.lastSeq) this._client.inbox._changed(isDelete ? null : this);
    this._amends = [...this._amends.slice(1 - AMENDS_MAX), entry];
    this._amendShown(entry);
  }

  /** An edit without a text was followed by another one, or by a delete. */
  _amendShown({ kind, targetSeq, text, sentAt }) {
    const at = this._indexOf(targetSeq);
    if (at < 0 || this._shown[at].deleted) return;
    const isNews = text !== null && sentAt > (this._shown[at].editedAt ?? 0);
    if (kind === 'delete') this._replace(at, { text: null, deleted: true, unavailable: false });
    else if (isNews) this._replace(at, { text, editedAt: sentAt, unavailable: false });
  }

  _showInRow(entry) {
    if (entry.seq <= this.lastSeq) return;
    Object.assign(this, { lastSeq: entry.seq, lastMessageTs: entry.sentAt, lastMessagePreview: previewOf(entry.text) });
    this._score = Math.max(this._score, entry.sentAt);
    this._client.inbox._changed(this);
  }

  _isMine(entry) {
    return entry.kind === 'message' && entry.senderId !== null && entry.senderId === this._client.userId;
  }

  _indexOf(seq) {
    let low = 0;
    let high = this._shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._shown[middle].seq < seq) low = middle + 1;
      else high = middle;
    }
    return this._shown[low]?.seq === seq ? low : -1;
  }

  _replace(at, changes) {
    const previous = this._shown[at];
    const message = { ...previous, ...changes };
    this._shown = this._shown.slice();
    this._shown[at] = message;
    this._changed();
    this._client._emit('updated', { conversation: this, message, previous });
  }

  _messageOf(entry) {
    const { seq, kind, messageId, senderId, text, ts, sentAt, deleted, unavailable = false, editedAt, member } = entry;
    const mine = this._isMine(entry);
    const key = kind === 'message' ? `${senderId}/${messageId}` : `entry/${seq}`;
    const state = mine ? this._stateOf(seq) : null;
    return { key, conversationId: this.id, seq, kind, messageId, senderId, text, ts, sentAt,
      deleted, unavailable, editedAt, member, mine, state, error: null };
  }

  _stateOf(seq) {
    return seq <= this.readAllSeq ? 'read' : seq <= this.deliveredAllSeq ? 'delivered' : 'sent';
  }

  /** A row may have been read before the latest entries were pushed. */
  _takeRow(row) {
    const isOlder = row.lastSeq === undefined || row.lastSeq < this.lastSeq;
    const isNews = (name) => row[name] !== undefined && !(isOlder && name.startsWith('last'));
    for (const name of ROW.filter(isNews)) this[name] = row[name];
    this._hasRow ||= row.lastSeq !== undefined; // a direct one's name is known from the inbox alone
    this._score = Math.max(this._score, this.lastMessageTs);
    this.removed = false;
  }

  /** The log is brought up to what the row says. */
  _follow() {
    if (this._log.last === null && this.lastMessageTs <= this._client._bornAt) {
      this._log.begin(this.lastSeq);
      if (this.unreadCount !== 0 && this.lastSeq > 0) this._client._ackLater(this); // it came while nobody was here
    } else if (this._log.last === null || this.lastSeq > this._log.last) this._log.goOn(GAP_MS);
  }

  _resumed(frame) {
    if (frame.reset) this._forget(frame.toSeq);
    else this._log.jump(Math.max(frame.fromSeq - 1, this._log.last ?? 0));
    this._takeCounts(frame);
    this._raise(frame.deliveredAllSeq, frame.readAllSeq);
    if (!frame.complete) this._log.goOn();
  }

  /** What we have is of another store. */
  _forget(seq) {
    this._log.reset(seq);
    Object.assign(this, { deliveredAllSeq: 0, readAllSeq: 0, lastSeq: 0, lastMessageTs: 0 });
    for (const [id, message] of this._unsent) if (message.seq !== null) this._unsent.delete(id);
    this._client._emit('skipped', { conversation: this, fromSeq: 1, toSeq: seq ?? 0 });
    this._showAnew();
  }

  _skipped(fromSeq, toSeq, page) {
    const newest = page.messages.find((entry) => entry.kind === 'message');
    if (newest) this._showInRow(newest);
    this._client._ackLater(this);
    this._client._emit('skipped', { conversation: this, fromSeq, toSeq });
    this._showAnew();
  }

  _showAnew() {
    if (this.isOpen) this.jumpTo('newest').catch((error) => this._client._report(error));
  }

  _leave() {
    this.removed = true;
    this._log.forget();
    if (this.isOpen) this.close();
  }

  // --- ticks and counts ---

  _receipt(frame) {
    const { userId, deliveredSeq, readSeq } = frame;
    if (this.kind === 'direct') this._raise(deliveredSeq, readSeq);
    else this._askMarks();
    this._client._emit('receipt', { conversation: this, userId, deliveredSeq, readSeq });
  }

  /** In a group a receipt is one member's: what all have is the server's to say. */
  _askMarks() {
    if (!this.isOpen || this._marksTimer !== null) return;
    this._marksTimer = setTimeout(async () => {
      try {
        await this.history({ limit: 1 });
      } catch (error) {
        if (!error.temporary) this._client._report(error);
      } finally {
        this._marksTimer = null;
      }
    }, MARKS_MS);
  }

  _membersChanged() {
    this._askMarks(); // without somebody who left, all others may have read it
  }

  _takeMarks(page) {
    this._raise(page.deliveredAllSeq, page.readAllSeq);
  }

  _raise(deliveredSeq, readSeq) {
    const before = Math.min(this.deliveredAllSeq, this.readAllSeq);
    this.readAllSeq = Math.max(this.readAllSeq, readSeq);
    this.deliveredAllSeq = Math.max(this.deliveredAllSeq, deliveredSeq, this.readAllSeq);
    for (let at = this._shown.length - 1; at >= 0 && this._shown[at].seq > before; at -= 1) {
      const { seq, mine, state } = this._shown[at];
      if (mine && state !== this._stateOf(seq)) this._replace(at, { state: this._stateOf(seq) });
    }
  }

  /** Of a frame that tells how the member stands. null: not known at the moment, so what was known stays. */
  _takeCounts({ readSeq, unreadCount, unreadCapped, firstUnreadSeq, totalUnread }) {
    const wasUnread = Boolean(this.unreadCount);
    if (readSeq !== undefined) this.readSeq = readSeq;
    if (typeof unreadCount === 'number') this.unreadCount = unreadCount;
    if (unreadCapped !== undefined) this.unreadCapped = unreadCapped;
    if (firstUnreadSeq !== undefined) this.firstUnreadSeq = firstUnreadSeq;
    else if (!this.unreadCount) this.firstUnreadSeq = null;
    else if (readSeq !== undefined || this.firstUnreadSeq === null) this.firstUnreadSeq = this.readSeq + 1;
    this._client.inbox._count(this, Boolean(this.unreadCount) - wasUnread, totalUnread);
  }

  markRead(mark) {
    if (mark !== undefined && typeof mark !== 'number') {
      return this._mark('message.read', mark.seqs ? { seqs: [...mark.seqs] } : { up_to_ts: mark.upToTs });
    }
    const seq = mark ?? Math.max(this._log.last ?? 0, this.lastSeq);
    if (seq <= this.readSeq && !this._marks.length) return Promise.resolve(this._readState());
    const last = this._marks[this._marks.length - 1];
    if (last?.body.up_to_seq !== undefined && !last.isFlying) {
      last.body.up_to_seq = Math.max(last.body.up_to_seq, seq);
      return last.done.promise;
    }
    if (seq >= this.lastSeq && this.unreadCount) this._takeCounts({ unreadCount: 0, unreadCapped: false });
    return this._mark('message.read', { up_to_seq: seq });
  }

  markUnread(fromSeq) {
    return this._mark('message.unread', { from_seq: fromSeq });
  }

  _readState() {
    const { id, readSeq, unreadCount, unreadCapped, firstUnreadSeq } = this;
    const { totalUnread } = this._client.inbox;
    return { conversationId: id, readSeq, unreadCount, unreadCapped, firstUnreadSeq, totalUnread };
  }

  _mark(type, body) {
    const mark = { type, body, isFlying: false, done: deferred() };
    this._marks.push(mark);
    this._runMarks();
    return mark.done.promise;
  }

  /** One after another, in the order they were asked for; each until it is answered. */
  async _runMarks() {
    if (this._isMarking) return;
    this._isMarking = true;
    for (let mark; (mark = this._marks[0]); this._marks.shift()) {
      mark.isFlying = true;
      try {
        const answer = await this._client._ask(mark.type, { conversation_id: this.id, ...mark.body }, true);
        this._takeCounts(answer);
        mark.done.resolve(this._readState());
      } catch (error) {
        mark.done.reject(error);
      }
    }
    this._isMarking = false;
  }

  // --- sending ---

  send(text, options = {}) {
    try {
      this.stopTyping();
      const parcel = this._client._outbox.add(this.id, text, options);
      this._showUnsent(parcel);
      return parcel.done.promise;
    } catch (error) {
      return refused(error);
    }
  }

  retry(messageId) {
    const failed = this._unsent.get(messageId);
    if (failed?.state !== 'failed') return refused(new TidingsError('not_found', 'no failed message of this id'));
    if (this._client._outbox.isFull) return refused(outboxFull());
    this._dropFailed(messageId);
    const isSpent = failed.error.code === 'conflict'; // the id stands for another text
    return this.send(failed.text, { messageId: isSpent ? undefined : messageId, ts: failed.ts });
  }

  discard(messageId) {
    const isFailed = this._unsent.get(messageId)?.state === 'failed';
    if (isFailed) this._dropFailed(messageId);
    else if (this._client._outbox.discard(this.id, messageId)) this._unsent.delete(messageId);
    else return false;
    this._window();
    return true;
  }

  _dropFailed(messageId) {
    this._unsent.delete(messageId);
    this._client._outbox.forgetFailed({ userId: this._client.userId, conversationId: this.id, messageId });
  }

  _showUnsent(parcel) {
    const message = this._unsentOf(parcel.record, 'sending', null);
    const isNew = !this._unsent.has(message.messageId);
    this._unsent.set(message.messageId, message);
    this._changed();
    if (isNew) this._client._emit('message', { conversation: this, message });
  }

  _showFailed(record) {
    const error = new TidingsError(record.failed.code, record.failed.message);
    this._unsent.set(record.messageId, this._unsentOf(record, 'failed', error));
    this._window();
  }

  _unsentOf({ messageId, text, ts, userId }, state, error) {
    const senderId = this._client.userId ?? userId;
    const key = `${senderId}/${messageId}`;
    return { key, conversationId: this.id, seq: null, kind: 'message', messageId, senderId, text, ts, sentAt: null,
      deleted: false, unavailable: false, editedAt: null, member: null, mine: true, state, error };
  }

  /** Its ok came: it takes its place in the log as an entry does. */
  _stored({ messageId, text, ts }, { seq, sentAt }) {
    const entry = { seq, kind: 'message', messageId, senderId: this._client.userId, text, ts, sentAt,
      deleted: false, editedAt: null, targetSeq: null, member: null };
    this._settle(entry);
    this._log.accept(entry);
    if (this._log.last >= seq && this._unsent.has(messageId)) this._append(entry, true); // its entry came before
  }

  /** The server has it, so it is sent; its place comes when all before it are there. */
  _settle(entry) {
    const message = this._messageOf(entry);
    if (!this._client._outbox.settle(this.id, entry.messageId, message)) return;
    const previous = this._unsent.get(entry.messageId);
    if (!previous) return;
    this._unsent.set(entry.messageId, message);
    this._changed();
    this._client._emit('updated', { conversation: this, message, previous });
  }

  _failed(record, error) {
    const previous = this._unsent.get(record.messageId);
    const message = this._unsentOf(record, 'failed', error);
    this._unsent.set(record.messageId, message);
    this._changed();
    if (previous) this._client._emit('updated', { conversation: this, message, previous });
  }

  async edit(seq, text) {
    await this._client._rest('PATCH', `${this._path}/messages/${seq}`, { text, message_id: newId() }, true);
  }

  async delete(seq) {
    await this._client._rest('DELETE', `${this._path}/messages/${seq}`, { message_id: newId() }, true);
  }

  receipts(seq) {
    return this._client._rest('GET', `${this._path}/messages/${seq}/receipts`, undefined, true);
  }

  // --- typing ---

  keystroke() {
    const now = Date.now();
    clearTimeout(this._typing.timer);
    this._typing.timer = setTimeout(() => this.stopTyping(), TYPING_PAUSE_MS);
    if (now - this._typing.saidAt < TYPING_AGAIN_MS) return;
    this._typing.saidAt = now;
    this._client._link?.say('typing', { conversation_id: this.id, typing: true });
  }

  stopTyping() {
    clearTimeout(this._typing.timer);
    if (!this._typing.saidAt) return;
    this._typing.saidAt = 0;
    this._client._link?.say('typing', { conversation_id: this.id, typing: false });
  }

  _takeTyping(userId, isTyping) {
    clearTimeout(this._typists.get(userId));
    if (isTyping) this._typists.set(userId, setTimeout(() => this._takeTyping(userId, false), TYPING_MS));
    else if (!this._typists.delete(userId)) return;
    this._client._emit('typing', { conversation: this, userIds: this.typing });
  }

  _forgetTypists() {
    if (!this._typists.size) return;
    for (const timer of this._typists.values()) clearTimeout(timer);
    this._typists.clear();
    this._client._emit('typing', { conversation: this, userIds: [] });
  }

  // --- REST ---

  details() {
    return this._detailed('GET', this._path, undefined, true);
  }

  async profiles(userIds) {
    const query = userIds ? `?${new URLSearchParams({ user_ids: userIds.join(',') })}` : '';
    return (await this._client._rest('GET', `${this._path}/profiles${query}`, undefined, true)).profiles;
  }

  update({ name, avatarUrl }) {
    return this._detailed('PATCH', this._path, { name, avatar_url: avatarUrl }, true);
  }

  addMembers(userIds) {
    return this._detailed('POST', `${this._path}/members`, { user_ids: userIds });
  }

  setRole(userId, role) {
    return this._detailed('PATCH', `${this._path}/members/${encodeURIComponent(userId)}`, { role }, true);
  }

  async removeMember(userId) {
    await this._client._rest('DELETE', `${this._path}/members/${encodeURIComponent(userId)}`);
  }

  leave() {
    return this.removeMember(this._client.userId);
  }

  async destroy() {
    await this._client._rest('DELETE', this._path);
  }

  mute(muted = true) {
    return this._flag({ muted });
  }

  pin(pinned = true) {
    return this._flag({ pinned });
  }

  archive(archived = true) {
    return this._flag({ archived });
  }

  async _detailed(method, path, body, isIdempotent) {
    const details = await this._client._rest(method, path, body, isIdempotent);
    const { kind, name, avatarUrl } = details;
    Object.assign(this, kind === 'direct' ? { kind } : { kind, name, avatarUrl }); // of a direct one the inbox tells
    if (details.head === 0) this._log.begin(0);
    return details;
  }

  async _flag(flags) {
    this._takeRow(await this._client._rest('PATCH', `/v1/inbox/${encodeURIComponent(this.id)}`, flags, true));
    this._client.inbox._changed(this);
  }
}

// --- Inbox -------------------------------------------------------------------------------------------

export class Inbox {
  constructor(client) {
    this._client = client;
    Object.assign(this, { totalUnread: 0, unreadConversations: 0, loaded: false, hasMore: false, stale: false });
    this._listed = new Set();
    this._takenCount = 0;
    this._lowest = 0; // the score of the last row of the last page
    this._sorted = null;
    this._cursor = null;
    this._loading = null;
    this._refreshing = null;
  }

  get conversations() {
    const inOrder = (a, b) => b._score - a._score || a._taken - b._taken || (a.id < b.id ? 1 : -1);
    this._sorted ??= [...this._listed].sort(inOrder);
    return this._sorted;
  }

  async load(limit = 20) {
    const page = await this._client._ask('inbox', { limit });
    this._listed.clear();
    this._take(page);
    Object.assign(this, { loaded: true, hasMore: page.nextCursor !== null, _cursor: page.nextCursor });
    this._changed(null, false);
    return this.conversations;
  }

  loadMore(limit = 20) {
    this._loading ??= this._loadMore(limit).finally(() => (this._loading = null));
    return this._loading;
  }

  async _loadMore(limit) {
    if (!this.loaded) return this.load(limit);
    if (!this.hasMore) return [];
    const page = await this._client._ask('inbox', { limit, cursor: this._cursor });
    const added = this._take(page, this._lowest);
    Object.assign(this, { hasMore: page.nextCursor !== null, _cursor: page.nextCursor });
    this._changed(null, false);
    return added;
  }

  /** The server's order is kept: a row without a message stands where its joining put it. */
  _take(page, above = this._client.now()) {
    const rows = page.conversations.map((row) => [this._client.conversation(row.conversationId), row]);
    let score = 0;
    for (const [conversation, row] of [...rows].reverse()) {
      conversation._takeRow(row);
      conversation._score = score = Math.max(conversation.lastMessageTs, score);
      this._listed.add(conversation);
      conversation._follow();
    }
    for (const [conversation] of rows) {
      conversation._score ||= above; // it has no message, nor has any below it
      conversation._taken = this._takenCount += 1;
      above = conversation._score;
    }
    this._lowest = above;
    const { stale, totalUnread, unreadConversations } = page;
    Object.assign(this, { stale, totalUnread, unreadConversations });
    this._client._emit('unread', { conversation: null, totalUnread, unreadConversations });
    return rows.map(([conversation]) => conversation);
  }

  /** `conversation` null: several rows, or one that only the server can tell of. */
  _changed(conversation, mayRefresh = true) {
    this._sorted = null;
    if (this.loaded && conversation !== null && !this._listed.has(conversation) && !conversation.removed) {
      if (conversation._hasRow) this._listed.add(conversation);
      else return this._refreshSoon();
    }
    if (this.loaded && conversation === null && mayRefresh) return this._refreshSoon();
    this._client._emit('inbox', { conversation });
  }

  /** The top of the list again: what changed last is there. */
  _refreshSoon() {
    this._refreshing ??= setTimeout(async () => {
      try {
        const lowest = this._lowest;
        this._take(await this._client._ask('inbox', { limit: 20 }));
        this._lowest = lowest;
        this._changed(null, false);
      } catch (error) {
        if (!error.temporary) this._client._report(error);
      } finally {
        this._refreshing = null;
      }
    }, GAP_MS);
  }

  _remove(conversation) {
    this._sorted = null;
    this._listed.delete(conversation);
    this._client._emit('inbox', { conversation: null });
  }

  _count(conversation, step, totalUnread) {
    this.unreadConversations = Math.max(0, this.unreadConversations + step);
    if (typeof totalUnread === 'number') this.totalUnread = totalUnread;
    const { unreadConversations } = this;
    this._client._emit('unread', { conversation, totalUnread: this.totalUnread, unreadConversations });
    this._client._emit('inbox', { conversation });
  }
}

// --- TidingsClient -----------------------------------------------------------------------------------

export class TidingsClient extends Emitter {
  constructor(options = {}) {
    super();
    const { url = globalThis.location?.origin, token, getToken, device, storage = memoryStorage() } = options;
    if (!url) throw new TypeError('url says where the server is');
    if (!token && !getToken) throw new TypeError('token or getToken says who is here');
    this._url = String(url).replace(/\/+$/, '');
    this._getToken = getToken ?? null;
    this._token = token ? { value: token, isFresh: false, ...this._readClaims(token) } : null;
    this._fetching = null; // the answer of getToken, while it is waited for
    this._device = device;
    this._WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this._fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    if (!this._WebSocket) throw new TypeError('this runtime has no WebSocket: give one as an option');
    this._windowMax = options.windowMax ?? WINDOW_MAX;
    this._catchUpMax = options.catchUpMax ?? CATCH_UP_MAX;
    this._requestMs = options.requestTimeoutMs ?? REQUEST_MS;
    Object.assign(this, { state: 'disconnected', error: null, retryAt: null, hello: null });
    this._userId = null;
    this._life = null; // from connect() to close(), or to a stop
    this._link = null; // while connected
    this._online = deferred(); // resolves when connected
    this._offset = 0; // the server's clock minus ours
    this._bornAt = Infinity; // the server's time at our first hello: what was sent later is news
    this._since = null; // until when everything is known
    this._conversations = new Map();
    this._open = new Set();
    this._watched = [];
    this._watchTimer = null;
    this._acks = new Map(); // conversation -> highest seq that the server knows to be delivered
    this._ackTimer = null;
    this._presences = new Map();
    this._refreshTimer = null;
    this._onChange = () => this._networkChanged();
    const { locks = globalThis.navigator?.locks ?? null } = options;
    this._outbox = new Outbox(this, storage, locks);
    this.inbox = new Inbox(this);
  }

  get userId() {
    return this._userId;
  }

  get unsentCount() {
    return this._outbox.count;
  }

  now() {
    return Date.now() + this._offset;
  }

  conversation(conversationId) {
    let conversation = this._conversations.get(conversationId);
    if (!conversation) this._conversations.set(conversationId, (conversation = new Conversation(this, conversationId)));
    return conversation;
  }

  // --- the connection's life ---

  connect() {
    if (!this._life) {
      this._life = { isOn: true, first: deferred(), wake: () => {}, link: null };
      this._listenToRuntime(true);
      this._live(this._life);
    }
    return this._life.first.promise;
  }

  async close() {
    if (this._life) this._end(closedByUser());
    this._outbox.close();
    clearTimeout(this._ackTimer);
    clearTimeout(this._watchTimer);
    this._ackTimer = this._watchTimer = null;
    for (const conversation of this._conversations.values()) conversation._log.forget();
  }

  reconnectNow() {
    this._life?.wake();
  }

  async _live(life) {
    for (let tries = 0; life.isOn; tries += 1) {
      const startedAt = Date.now();
      const error = await this._once(life);
      if (!life.isOn) return;
      if (Date.now() - startedAt > STABLE_MS) tries = 0;
      const waitMs = this._waitAfter(error, tries, life);
      if (waitMs === null) return this._stop(error);
      this._become('connecting', error, Date.now() + waitMs);
      await this._pause(life, waitMs);
    }
  }

  /** One connection, from the token to its end; the error says why it ended. */
  async _once(life) {
    this._become('connecting', this.error, null);
    try {
      const token = await this._freshToken();
      if (token.userId) await this._knowUser(token.userId);
      if (!life.isOn) return closedByUser();
      const link = (life.link = new Link(new this._WebSocket(this._url.replace(/^http/, 'ws') + '/v1/ws')));
      await link.opened(HELLO_MS);
      const hello = await this._greet(link, token);
      await this._welcome(life, link, hello);
      return await this._ended(link);
    } catch (error) {
      if (life.link?.isOpen) life.link.cut('no hello');
      return error;
    } finally {
      life.link = null;
    }
  }

  async _greet(link, token) {
    const { _device: device, _since: since } = this;
    const fields = { token: token.value, device, resume: this._resume(), since: since ?? undefined };
    try {
      return camel(await link.request('connect', fields, HELLO_MS));
    } catch (error) {
      const end = await Promise.race([link.ended, sleep(1000)]); // the close that follows says what to do
      throw end ? disconnected(end.code, error.message) : error;
    }
  }

  async _ended(link) {
    const { code, reason } = await link.ended;
    if (this._link === link) {
      const knownAt = link.heardAt - SINCE_MARGIN_MS; // a short one may not have heard yet what it had missed
      if (knownAt > link.welcomedAt) this._since = Math.floor(knownAt + this._offset);
      this._link = null;
      this._online = deferred();
    }
    clearTimeout(this._refreshTimer);
    for (const conversation of this._conversations.values()) conversation._forgetTypists();
    return disconnected(code, reason);
  }

  /** null: not again. */
  _waitAfter(error, tries, life) {
    const code = error.closeCode;
    const backoffMs = Math.random() * Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** Math.min(tries, 10));
    const isRefused = code === CLOSE.BAD_TOKEN || code === CLOSE.TOKEN_EXPIRED;
    const wasFresh = this._token?.isFresh;
    if (isRefused && this._getToken) this._token = null;
    if (error.permanent) return null;
    if (isRefused && this._getToken && !wasFresh) return 0;
    if (isStop(code)) return null;
    if (code === CLOSE.DRAINING) return life.drainMs ?? backoffMs;
    if (code === CLOSE.TOO_MANY_REQUESTS) return Math.max(backoffMs, jitter(BUSY_MS * 2));
    return backoffMs;
  }

  _pause(life, waitMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      life.wake = () => (clearTimeout(timer), resolve());
    }).finally(() => (life.wake = () => {}));
  }

  _stop(error) {
    const { closeCode } = error;
    const cause = error instanceof TidingsError ? error : null;
    const message = error.message || `closed with ${closeCode}`;
    const stopped = new TidingsError('stopped', message, { closeCode: closeCode ?? null });
    this._end(cause?.code === 'disconnected' || !cause ? stopped : cause);
  }

  _end(error) {
    const life = this._life;
    life.isOn = false;
    this._life = null;
    this._listenToRuntime(false);
    clearTimeout(this._refreshTimer);
    life.wake();
    life.link?.cut('bye');
    this._link = null;
    this._online.reject(error);
    this._online = deferred();
    life.first.reject(error);
    this._become('disconnected', error, null);
  }

  _become(state, error, retryAt) {
    const previous = this.state;
    if (previous === state && this.error === error && this.retryAt === retryAt) return;
    Object.assign(this, { state, error, retryAt });
    this._emit('state', { state, previous, retryAt, error });
  }

  _listenToRuntime(isOn) {
    const act = isOn ? 'addEventListener' : 'removeEventListener';
    globalThis[act]?.('online', this._onChange);
    globalThis[act]?.('offline', this._onChange);
    globalThis.document?.[act]('visibilitychange', this._onChange);
  }

  _networkChanged() {
    if (globalThis.document?.visibilityState === 'hidden') return;
    if (this._link) this._link.probe();
    else if (globalThis.navigator?.onLine !== false) this.reconnectNow();
  }

  // --- who is here ---

  _readClaims(token) {
    const { sub, exp } = claimsOf(token);
    return { userId: typeof sub === 'string' ? sub : null, expiresAt: typeof exp === 'number' ? exp * 1000 : Infinity };
  }

  async _freshToken() {
    const token = this._token;
    if (token) token.isFresh = false;
    const isGood = token && token.expiresAt - this.now() > TOKEN_MARGIN_MS;
    if (isGood || !this._getToken) return token;
    return this._fetchToken(token ? 'expiring' : this.hello ? 'refused' : 'start');
  }

  /** Whoever needs one at the same time gets the same one. */
  _fetchToken(reason) {
    this._fetching ??= this._askToken(reason).finally(() => (this._fetching = null));
    return this._fetching;
  }

  async _askToken(reason) {
    const value = await within(TOKEN_MS, this._getToken({ reason }), 'getToken gave no answer in time');
    if (typeof value !== 'string') throw Object.assign(new TypeError('getToken gave no token'), { permanent: true });
    this._token = { value, isFresh: true, ...this._readClaims(value) };
    return this._token;
  }

  async _knowUser(userId) {
    if (this._userId !== null && this._userId !== userId) {
      throw Object.assign(new TidingsError('unauthorized', 'the token is of another user'), { permanent: true });
    }
    this._userId = userId;
    await this._outbox.open(userId);
  }

  _refreshLater(link) {
    clearTimeout(this._refreshTimer);
    if (!this._getToken || !this._token || this._token.expiresAt === Infinity) return;
    const leftMs = this._token.expiresAt - this.now();
    const waitMs = Math.max(0, leftMs - Math.min(TOKEN_LEAD_MS, leftMs / 4));
    const next = waitMs > TIMER_MS_MAX ? () => this._refreshLater(link) : () => this._refresh(link);
    this._refreshTimer = setTimeout(next, Math.min(waitMs, TIMER_MS_MAX));
  }

  async _refresh(link) {
    try {
      const { value } = await this._fetchToken('expiring');
      await link.request('auth.refresh', { token: value });
      if (this._link === link) this._refreshLater(link);
    } catch (error) {
      this._report(error); // until the old token ends there is time to try again
      if (this._link === link) this._refreshTimer = setTimeout(() => this._refresh(link), jitter(RETRY_MS * 4));
    }
  }

  // --- hello, and what follows it ---

  _resume() {
    const known = [...this._conversations.values()].filter((one) => one._log.last !== null && !one.removed);
    if (known.length > RESUME_MAX) known.sort((a, b) => b.isOpen - a.isOpen || b._touched - a._touched);
    return Object.fromEntries(known.slice(0, RESUME_MAX).map((one) => [one.id, one._log.last]));
  }

  async _welcome(life, link, hello) {
    await this._knowUser(hello.userId);
    const isOtherStore = this.hello !== null && this.hello.storeEpoch !== hello.storeEpoch;
    this._offset = hello.serverTime - Date.now();
    const { serverTime, pingIntervalMs, totalUnread, unreadConversations } = hello;
    const { type, id, protocol, ...facts } = hello;
    this.hello = facts;
    if (this._bornAt === Infinity || isOtherStore) this._bornAt = serverTime - BIRTH_MARGIN_MS;
    if (isOtherStore) return this._beginAnew(link);
    if (!link.isOpen || !life.isOn) return;
    this._link = link;
    this._since ??= serverTime - SINCE_MARGIN_MS;
    link.welcomedAt = Date.now();
    life.drainMs = null;
    link.watchOver(pingIntervalMs);
    Object.assign(this.inbox, { totalUnread, unreadConversations });
    this._become('connected', null, null);
    link.start((frame) => this._event(frame));
    this._outbox.pumpAll();
    this._sayWatch();
    this._ackAgain();
    this._refreshLater(link);
    this._online.resolve();
    life.first.resolve(this.hello);
    this._emit('unread', { conversation: null, totalUnread, unreadConversations });
  }

  /** An older copy of the store was restored: what we know may never have happened. */
  _beginAnew(link) {
    link.cut('another store');
    this._since = null;
    const inboxWasLoaded = this.inbox.loaded;
    for (const conversation of this._conversations.values()) conversation._forget(null);
    if (inboxWasLoaded) this._online.promise.then(() => this.inbox.load()).catch((error) => this._report(error));
  }

  /** The server tells of 200 changed conversations at most: after that many the list is read again. */
  _countUpdate() {
    this._link.updates = (this._link.updates ?? 0) + 1;
    if (this._link.updates === RESUME_MAX && this.inbox.loaded) this.inbox.load().catch((error) => this._report(error));
  }

  _event(frame) {
    try {
      const take = EVENTS[frame.type];
      if (take) take(this, camel(frame));
    } catch (error) {
      this._report(error);
    }
  }

  // --- requests ---

  /** Of requests that may be repeated. Patient ones wait for as long as the client lives. */
  async _ask(type, fields, isPatient = false) {
    const deadline = isPatient ? Infinity : Date.now() + this._requestMs;
    for (let tries = 0; ; tries += 1) {
      const link = await this._linked(deadline);
      try {
        return camel(await link.request(type, fields, Math.min(this._requestMs, REQUEST_MS)));
      } catch (error) {
        if (!error.temporary || Date.now() >= deadline) throw error;
        const againMs = jitter(RETRY_MS * 2 ** Math.min(tries, 5));
        if (error.code !== 'disconnected') await sleep(error.retryAfterMs ?? againMs);
      }
    }
  }

  async _linked(deadline) {
    if (this._link) return this._link;
    if (!this._life) throw this.error ?? disconnected(null, 'connect() was not called');
    if (deadline === Infinity) await this._online.promise;
    else await within(Math.max(0, deadline - Date.now()), this._online.promise, 'no connection in time');
    return this._link ?? this._linked(deadline);
  }

  rest(method, path, body) {
    return this._rest(method, path, body, method === 'GET');
  }

  /** Repeated only where a repetition changes nothing. */
  async _rest(method, path, body, isIdempotent = false) {
    const deadline = Date.now() + this._requestMs;
    for (let tries = 0, isRefused = false; ; tries += 1) {
      try {
        return await this._restOnce(method, path, body, deadline);
      } catch (error) {
        if (error.status === 401 && this._getToken && !isRefused) {
          isRefused = true;
          await this._fetchToken('refused');
          continue;
        }
        const waitMs = error.retryAfterMs ?? jitter(RETRY_MS * 2 ** tries);
        if (!isIdempotent || !error.temporary || Date.now() + waitMs > deadline) throw error;
        await sleep(waitMs);
      }
    }
  }

  async _restOnce(method, path, body, deadline) {
    const token = await this._freshToken();
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const headers = { authorization: `Bearer ${token.value}`, ...(sent && { 'content-type': 'application/json' }) };
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), Math.max(1, deadline - Date.now()));
    try {
      const answer = await this._fetch(this._url + path, { method, headers, body: sent, signal: abort.signal });
      const text = await answer.text();
      if (answer.ok) return text ? camel(JSON.parse(text)) : undefined;
      throw restError(answer.status, text);
    } catch (error) {
      if (error instanceof TidingsError) throw error;
      const code = abort.signal.aborted ? 'timeout' : 'disconnected';
      throw new TidingsError(code, `${method} ${path}: ${error.message}`, { temporary: true });
    } finally {
      clearTimeout(timer);
    }
  }

  async createConversation({ kind, members = [], name, avatarUrl, history }) {
    const body = { kind, members, name, avatar_url: avatarUrl, history };
    const details = await this._rest('POST', '/v1/conversations', body, kind === 'direct');
    const conversation = this.conversation(details.conversationId);
    const { name: title, avatarUrl: picture } = details;
    const shown = kind === 'direct' ? { name: conversation.name ?? members[0] } : { name: title, avatarUrl: picture };
    conversation._takeRow({ kind: details.kind, ...shown });
    if (details.head === 0) conversation._log.begin(0);
    this.inbox._changed(null);
    return conversation;
  }

  direct(userId) {
    return this.createConversation({ kind: 'direct', members: [userId] });
  }

  getProfile(userId) {
    return this._rest('GET', `/v1/users/${encodeURIComponent(userId)}`, undefined, true);
  }

  putProfile({ name = null, avatarUrl = null }) {
    return this._rest('PUT', `/v1/users/${encodeURIComponent(this.userId)}`, { name, avatar_url: avatarUrl }, true);
  }

  async rateLimits() {
    return (await this._rest('GET', '/v1/rate_limits', undefined, true)).rateLimits;
  }

  async fetchPresence(conversationId, userIds) {
    const named = userIds ? { user_ids: userIds.join(',') } : {};
    const query = new URLSearchParams({ conversation_id: conversationId, ...named });
    const { presence } = await this._rest('GET', `/v1/presence?${query}`, undefined, true);
    for (const one of presence) this._takePresence(one, false);
    return presence;
  }

  // --- presence and typing ---

  presence(userId) {
    return this._presences.get(userId);
  }

  watch(conversationIds) {
    this._watched = [...conversationIds];
    this._watchLater();
  }

  _watchOpen(conversation, isOpen) {
    if (isOpen) this._open.add(conversation);
    else this._open.delete(conversation);
    this._watchLater();
  }

  _watchLater() {
    this._watchTimer ??= setTimeout(() => this._sayWatch(), 0);
  }

  async _sayWatch(extra = this._watched) {
    clearTimeout(this._watchTimer);
    this._watchTimer = null;
    const link = this._link;
    const open = [...this._open].filter((one) => !one.removed).map((one) => one.id);
    const ids = [...new Set([...open, ...extra])].slice(0, WATCH_MAX);
    const key = ids.join(' ');
    if (!link || key === (link.watching ?? '')) return;
    link.watching = key;
    try {
      await link.request('watch', { conversation_ids: ids });
    } catch (error) {
      link.watching = null;
      if (error.code === 'not_found' && extra.length) this._sayWatch([]); // one of them is not ours any more
      else if (!error.temporary && error.code !== 'not_found') this._report(error);
    }
  }

  _takePresence({ userId, online, lastSeen }, isNews = true) {
    this._presences.delete(userId); // the latest last: the first one makes room
    this._presences.set(userId, { userId, online, lastSeen });
    if (this._presences.size > PRESENCES_MAX) this._presences.delete(this._presences.keys().next().value);
    if (isNews) this._emit('presence', { userId, online, lastSeen });
  }

  // --- what was delivered ---

  _ackLater(conversation) {
    if (!this._acks.has(conversation)) this._acks.set(conversation, 0);
    this._ackTimer ??= setTimeout(() => this._sayAcks(), ACK_MS);
  }

  /** A receipt may be lost with a node: what was said on another connection is said once more. */
  _ackAgain() {
    for (const conversation of this._acks.keys()) this._acks.set(conversation, 0);
    if (this._acks.size) this._ackTimer ??= setTimeout(() => this._sayAcks(), ACK_MS);
  }

  async _sayAcks() {
    const link = this._link;
    const owed = [...this._acks].filter(([one, said]) => !one.removed && one._log.last > said).slice(0, RESUME_MAX);
    if (!link || !owed.length) {
      this._ackTimer = null;
      return;
    }
    const acks = owed.map(([conversation]) => [conversation, conversation._log.last]);
    let waitMs = ACK_MS;
    try {
      await link.request('message.delivered', { acks: Object.fromEntries(acks.map(([one, seq]) => [one.id, seq])) });
      for (const [conversation, seq] of acks) this._acks.set(conversation, seq);
      while (this._acks.size > RESUME_MAX * 5) this._acks.delete(this._acks.keys().next().value);
    } catch (error) {
      if (!error.temporary) this._report(error);
      waitMs = error.retryAfterMs ?? jitter(BUSY_MS);
    }
    this._ackTimer = setTimeout(() => this._sayAcks(), waitMs);
  }
}

function restError(status, text) {
  try {
    const { code, message, temporary, retry_after_ms: retryAfterMs } = JSON.parse(text).error;
    return new TidingsError(code, message, { temporary, retryAfterMs, status });
  } catch {
    const temporary = status >= 500 || status === 429; // somebody between us and the server
    return new TidingsError(temporary ? 'unavailable' : 'bad_request', `status ${status}`, { temporary, status });
  }
}

/** What the server says without being asked. */
const EVENTS = {
  'message.new'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    const { message: entry, unreadCount, unreadCapped, totalUnread } = frame;
    conversation.removed = false;
    conversation._log.accept(entry);
    if (unreadCount === null) return;
    const isFirst = unreadCount > 0 && conversation.firstUnreadSeq === null;
    const firstUnreadSeq = unreadCount === 0 ? null : isFirst ? entry.seq : conversation.firstUnreadSeq;
    conversation._takeCounts({ unreadCount, unreadCapped, totalUnread, firstUnreadSeq });
  },
  resumed: (client, frame) => client.conversation(frame.conversationId)._resumed(frame),
  receipt: (client, frame) => client.conversation(frame.conversationId)._receipt(frame),
  'read.synced': (client, frame) => client.conversation(frame.conversationId)._takeCounts(frame),
  typing: (client, frame) => client.conversation(frame.conversationId)._takeTyping(frame.userId, frame.typing),
  presence: (client, frame) => client._takePresence(frame),
  'conversation.added'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._takeRow(frame);
    conversation._score = Math.max(conversation._score, client.now());
    conversation._follow();
    client.inbox._changed(conversation);
    client._emit('conversation', { change: 'added', conversation });
  },
  'conversation.updated'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._takeRow(frame);
    conversation._follow();
    client.inbox._changed(conversation);
    client._emit('conversation', { change: 'updated', conversation });
    client._countUpdate();
  },
  'conversation.removed'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._leave();
    client.inbox._remove(conversation);
    client._emit('conversation', { change: 'removed', conversation });
  },
  draining(client, frame) {
    if (client._life) client._life.drainMs = frame.reconnectInMs;
  },
};
