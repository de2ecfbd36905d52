/** The client of one user: the life of its connection, and requests over it. */
import { Conversation } from './conversation.js';
import { CLOSE, TidingsError, closedByUser, disconnected, isStop } from './errors.js';
import { Entries } from './entries.js';
import { takeEvent } from './events.js';
import { Inbox } from './inbox.js';
import {
  BUSY_MS, CATCH_UP_MAX, HELLO_MS, REQUEST_MS, RESUME_MAX, RETRY_MS, RETRY_MS_MAX, SINCE_MARGIN_MS, STABLE_MS,
  TIMER_MS_MAX, WINDOW_MAX,
} from './limits.js';
import { Link } from './link.js';
import { Acks } from './marks.js';
import { checked } from './options.js';
import { Outbox } from './outbox.js';
import { Presence } from './presence.js';
import { Rest } from './rest.js';
import { Rules } from './rules.js';
import { Saved } from './saved.js';
import { Scheduled } from './scheduled.js';
import { Emitter, camel, deferred, jitter, sleep, steadyMs, within } from './runtime.js';
import { Threads } from './threads.js';
import { Tokens } from './tokens.js';

export class TidingsClient extends Emitter {
  constructor(options = {}) {
    super();
    const { url, token, getToken, device, storage, WebSocket } = checked(options);
    Object.assign(this, { _url: url, _device: device, _WebSocket: WebSocket });
    this._windowMax = options.windowMax ?? WINDOW_MAX;
    this._catchUpMax = options.catchUpMax ?? CATCH_UP_MAX;
    this._requestMs = options.requestTimeoutMs ?? REQUEST_MS;
    Object.assign(this, { state: 'disconnected', error: null, retryAt: null, hello: null });
    this._userId = null;
    this._life = null; // from connect() to close(), or to a stop
    this._link = null; // while connected
    this._online = deferred(); // resolves when connected
    this._offset = Date.now() - steadyMs(); // the clock of the server minus the steady clock of this machine
    this._bornAt = Infinity; // the server's time at the first hello: entries sent later are new
    this._since = null; // everything up to this time is known
    this._updatesCount = 0; // changed conversations that this connection was told of
    this._conversations = new Map();
    this._onChange = () => this._networkChanged();
    this._tokens = new Tokens(this, token, getToken);
    const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this._rest = new Rest(this._url, this._tokens, fetch, this._requestMs);
    this.saved = new Saved(this._rest);
    this.threads = new Threads(this, this._rest);
    this.scheduled = new Scheduled(this._rest);
    this.rules = new Rules(this._rest);
    this._acks = new Acks(this);
    this._presence = new Presence(this);
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
    return steadyMs() + this._offset;
  }

  conversation(conversationId) {
    let conversation = this._conversations.get(conversationId);
    if (!conversation) this._conversations.set(conversationId, (conversation = new Conversation(this, conversationId)));
    return conversation;
  }

  // --- the life of the connection ---

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
    this._acks.stop();
    this._presence.stop();
    for (const conversation of this._conversations.values()) conversation._log.forget();
  }

  reconnectNow() {
    this._life?.wake();
  }

  async _live(life) {
    for (let tries = 0; life.isOn; tries += 1) {
      const error = await this._once(life);
      if (!life.isOn) return;
      if (life.wasStable) tries = 0;
      const waitMs = this._waitAfter(error, tries, life);
      if (waitMs === null) return this._stop(error);
      this._become('connecting', error, Date.now() + waitMs);
      await this._pause(life, waitMs);
    }
  }

  /** Serve one connection, from the token to its end. Returns the error that ended it. */
  async _once(life) {
    this._become('connecting', this.error, null);
    try {
      const token = await this._tokens.fresh();
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
      life.wasStable = steadyMs() - (life.link?.welcomedAt ?? Infinity) > STABLE_MS;
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
      throw end ? disconnected(end.code, error.message, error.reason, error.retryAfterMs) : error;
    }
  }

  async _ended(link) {
    const { code, reason } = await link.ended;
    if (this._link === link) {
      const knownAt = link.aliveAt - SINCE_MARGIN_MS; // a short connection may not have received everything it missed
      if (knownAt > link.welcomedAt) this._since = Math.floor(knownAt + this._offset);
      this._link = null;
      this._online = deferred();
    }
    this._tokens.stop();
    for (const conversation of this._conversations.values()) conversation._typing.forgetOthers();
    return disconnected(code, reason);
  }

  /** Return the wait before the next attempt; null when there must be none. */
  _waitAfter(error, tries, life) {
    const code = error.closeCode;
    const randomMs = Math.random() * Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** Math.min(tries, 10));
    const backoffMs = Math.min(TIMER_MS_MAX, randomMs + (error.retryAfterMs ?? 0)); // no sooner than the server asks
    const isRefused = code === CLOSE.BAD_TOKEN || code === CLOSE.TOKEN_EXPIRED;
    const isWorthAnother = isRefused && this._tokens.refuse();
    if (error.permanent) return null;
    if (isWorthAnother) return 0;
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
    const facts = { closeCode: closeCode ?? null, reason: error.reason ?? null };
    const stopped = new TidingsError('stopped', message, facts);
    this._end(cause?.code === 'disconnected' || !cause ? stopped : cause);
  }

  _end(error) {
    const life = this._life;
    life.isOn = false;
    this._life = null;
    this._listenToRuntime(false);
    this._tokens.stop();
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

  async _knowUser(userId) {
    if (this._userId !== null && this._userId !== userId) {
      throw Object.assign(new TidingsError('unauthorized', 'the token is of another user'), { permanent: true });
    }
    this._userId = userId;
    await this._outbox.open(userId);
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
    this._offset = hello.serverTime - steadyMs();
    const { serverTime, pingIntervalMs } = hello;
    const { type, id, protocol, ...facts } = hello;
    this.hello = facts;
    if (this._bornAt === Infinity || isOtherStore) this._bornAt = serverTime;
    if (isOtherStore) return this._beginAnew(link);
    if (!link.isOpen || !life.isOn) return;
    this._link = link;
    this._since ??= serverTime - SINCE_MARGIN_MS;
    this._updatesCount = 0;
    link.welcomedAt = steadyMs();
    life.drainMs = null;
    link.watchOver(pingIntervalMs);
    this._become('connected', null, null);
    link.start((frame) => takeEvent(this, frame));
    this._outbox.pumpAll();
    this._presence.sendWatch();
    this._acks.again();
    this._tokens.refreshLater(link);
    this._online.resolve();
    life.first.resolve(this.hello);
    this.inbox._total(hello);
  }

  /** Begin again: an older copy of the store was restored, and known entries may never have happened. */
  _beginAnew(link) {
    link.cut('another store');
    this._since = null;
    const inboxWasLoaded = this.inbox.loaded;
    for (const conversation of this._conversations.values()) conversation._forget(null);
    if (inboxWasLoaded) this._online.promise.then(() => this.inbox.load()).catch((error) => this._report(error));
  }

  /** Count announced conversations. The server announces RESUME_MAX at most, so the list is read again after them. */
  _countUpdate() {
    this._updatesCount += 1;
    if (this._updatesCount === RESUME_MAX && this.inbox.loaded) this.inbox.load().catch((error) => this._report(error));
  }

  // --- requests ---

  /** Make a request that may be repeated. A patient one waits for as long as the client lives. */
  async _ask(type, fields, isPatient = false) {
    const deadline = isPatient ? Infinity : steadyMs() + this._requestMs;
    for (let tries = 0; ; tries += 1) {
      const link = await this._linked(deadline);
      try {
        return camel(await link.request(type, fields, Math.min(this._requestMs, REQUEST_MS)));
      } catch (error) {
        if (!error.temporary || steadyMs() >= deadline) throw error;
        if (error.code === 'disconnected') continue;
        const waitMs = error.retryAfterMs ?? jitter(RETRY_MS * 2 ** Math.min(tries, 5));
        if (steadyMs() + waitMs > deadline) throw error;
        await sleep(waitMs);
      }
    }
  }

  async _linked(deadline) {
    if (this._link) return this._link;
    if (!this._life) throw this.error ?? disconnected(null, 'connect() was not called');
    if (deadline === Infinity) await this._online.promise;
    else await within(Math.max(0, deadline - steadyMs()), this._online.promise, 'no connection in time');
    return this._link ?? this._linked(deadline);
  }

  /** Iterate over every entry of every conversation, for ever: from now, from a cursor, or from the 'start'. */
  entries({ after = null } = {}) {
    return new Entries(this, after);
  }

  rest(method, path, body) {
    return this._rest.send(method, path, body, method === 'GET');
  }

  async createConversation({ kind, members = [], name, avatarUrl, history, clientId }) {
    const body = { kind, members, name, avatar_url: avatarUrl, history, client_id: clientId };
    const isRepeatable = kind === 'direct' || clientId !== undefined;
    const details = await this._rest.send('POST', '/v1/conversations', body, isRepeatable);
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
    return this._rest.send('GET', `/v1/users/${encodeURIComponent(userId)}`, undefined, true);
  }

  putProfile({ name = null, avatarUrl = null }) {
    const body = { name, avatar_url: avatarUrl };
    return this._rest.send('PUT', `/v1/users/${encodeURIComponent(this.userId)}`, body, true);
  }

  putPicture(image) {
    return this._rest.send('PUT', `/v1/users/${encodeURIComponent(this.userId)}/picture`, image, true);
  }

  async findPeople(query = '', { limit = 20 } = {}) {
    return (await this._rest.send('GET', `/v1/users?${new URLSearchParams({ query, limit })}`, undefined, true)).users;
  }

  /** Find messages of the user's own conversations by words, the newest first. */
  search(q, { conversationId, senderId, after, before, has, limit, cursor } = {}) {
    const asked = { q, conversation_id: conversationId, sender_id: senderId, after, before, has, limit, cursor };
    const given = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null);
    return this._rest.send('GET', `/v1/search?${new URLSearchParams(given)}`, undefined, true);
  }

  /** Block a person: no direct messages, and nothing of theirs is counted or notified. */
  async block(userId) {
    await this._rest.send('PUT', `/v1/blocks/${encodeURIComponent(userId)}`, undefined, true);
  }

  async unblock(userId) {
    await this._rest.send('DELETE', `/v1/blocks/${encodeURIComponent(userId)}`, undefined, true);
  }

  async blocks() {
    return (await this._rest.send('GET', '/v1/blocks', undefined, true)).blocks;
  }

  /** Who may write to the user and who may add them: 'anybody', 'shared' or 'nobody'. */
  preferences() {
    return this._rest.send('GET', '/v1/preferences', undefined, true);
  }

  putPreferences({ whoMayWrite, whoMayAdd, badge, timeZone, quiet, quietLets }) {
    const own = { badge, quiet, time_zone: timeZone, quiet_lets: quietLets };
    const body = { who_may_write: whoMayWrite, who_may_add: whoMayAdd, ...own };
    return this._rest.send('PUT', '/v1/preferences', body, true);
  }

  async rateLimits() {
    return (await this._rest.send('GET', '/v1/rate_limits', undefined, true)).rateLimits;
  }

  fetchPresence(conversationId, userIds) {
    return this._presence.fetch(conversationId, userIds);
  }

  presence(userId) {
    return this._presence.get(userId);
  }

  watch(conversationIds) {
    this._presence.watch(conversationIds);
  }
}
