/** One WebSocket: requests and their answers, and whether the server is still alive. */
import { TidingsError, disconnected, timedOut } from './errors.js';
import { ASLEEP_MS, PROBE_MS, REQUEST_MS } from './limits.js';
import { deferred, steadyMs } from './runtime.js';

export class Link {
  constructor(socket) {
    this._socket = socket;
    this._onEvent = null;
    this._early = []; // events that arrived with the hello, until start()
    this._answers = new Map(); // id -> {resolve, reject, timer}
    this._lastId = 0;
    this.aliveAt = this._awakeAt = steadyMs(); // the last moment at which the server was certainly alive
    this._wakeTime = Date.now(); // it goes on while a machine sleeps; the steady clock may stand still
    this._isDoubted = false;
    this.welcomedAt = Infinity; // the moment of the hello
    this.watching = ''; // the conversations that the server watches for this connection
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

  /** Hand events to `onEvent` from now on, those that arrived with the hello first. */
  start(onEvent) {
    this._onEvent = onEvent;
    for (const frame of this._early.splice(0)) onEvent(frame);
  }

  /** Send a frame that needs no answer. */
  send(type, fields = {}) {
    if (this.isOpen) this._write({ type, ...fields });
  }

  /** Send a request. Resolves with the answer, in the names of the wire. */
  request(type, fields = {}, timeoutMs = REQUEST_MS) {
    if (!this.isOpen) return Promise.reject(disconnected());
    const id = ++this._lastId;
    return new Promise((resolve, reject) => {
      const late = timedOut(`no answer to ${type}`);
      const timer = setTimeout(() => this._settle(id, null, late), timeoutMs);
      this._answers.set(id, { resolve, reject, timer });
      this._write({ id, type, ...fields });
    });
  }

  /** Check the server. After `intervalMs` without a frame, a ping asks for a sign of life. */
  watchOver(intervalMs) {
    const check = () => {
      this._checkClock();
      if (this._isDoubted) return; // the ping on its way decides
      const quietMs = steadyMs() - this.aliveAt;
      if (quietMs >= intervalMs + PROBE_MS) this.cut('the server is silent');
      else if (quietMs >= intervalMs) this.send('ping', { id: ++this._lastId });
    };
    this._liveness = setInterval(check, Math.min(intervalMs, PROBE_MS) / 2);
  }

  /** Ask for a proof of life: the network may have changed, or the machine slept. Frames in the socket may be old, so
   *  only the answer to this ping counts, and it must arrive soon. */
  async probe() {
    if (this._isDoubted || !this.isOpen) return;
    this._isDoubted = true;
    try {
      await this.request('ping', {}, PROBE_MS / 2);
      this.aliveAt = steadyMs();
    } catch (error) {
      if (error.code === 'timeout') this.cut('the server is silent');
    } finally {
      this._isDoubted = false;
    }
  }

  /** Notice a jump of the clock: the program was asleep. */
  _checkClock() {
    const [awakeAt, wakeTime] = [steadyMs(), Date.now()];
    const awayMs = Math.max(awakeAt - this._awakeAt, wakeTime - this._wakeTime);
    Object.assign(this, { _awakeAt: awakeAt, _wakeTime: wakeTime });
    if (awayMs > ASLEEP_MS) this.probe();
  }

  /** End the link at once, whatever the socket does. */
  cut(reason, code = 1000) {
    try {
      this._socket.close(code, reason);
    } catch {
      // the socket was never open
    }
    this._lost(1006, reason);
  }

  _write(frame) {
    if (this._socket.readyState > 1) return; // it is closing: the close follows, and rejects every waiting request
    try {
      this._socket.send(JSON.stringify(frame));
    } catch (error) {
      this.cut(String(error));
    }
  }

  _take(data) {
    if (!this.isOpen) return;
    this._checkClock();
    if (!this._isDoubted) this.aliveAt = this._awakeAt;
    const frame = frameOf(data);
    if (!frame) return;
    if (frame.type === 'error') {
      const { code, message, temporary, retry_after_ms: retryAfterMs, reason } = frame;
      this._settle(frame.id, null, new TidingsError(code, message, { temporary, retryAfterMs, reason }));
    } else if (frame.id === undefined || frame.id === null) {
      if (this._onEvent) this._onEvent(frame);
      else this._early.push(frame);
    } else this._settle(frame.id, frame, null);
  }

  _settle(id, frame, error) {
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
    for (const id of [...this._answers.keys()]) this._settle(id, null, disconnected(code, reason));
    this._ended.resolve({ code, reason });
  }
}

/** Read a frame. Null: it is no JSON object, as a server of the future or a proxy may send. */
function frameOf(data) {
  try {
    const frame = JSON.parse(data);
    return typeof frame === 'object' ? frame : null;
  } catch {
    return null;
  }
}
