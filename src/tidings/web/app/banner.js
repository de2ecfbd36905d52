// The banner of a lost connection: the reason, the time of the next attempt, the unsent messages, and a button to hurry.

import { el, setText } from './dom.js';
import { plural } from './format.js';
import { icon } from './icons.js';

const GRACE_MS = 900; // the banner does not mention shorter breaks
const TICK_MS = 250;
const REPLACED = 4505;

export class Banner {
  constructor(client) {
    this.client = client;
    this._since = performance.now();
    this._timer = null;
    this._facts = el('span.banner-facts');
    this._button = el('button', { type: 'button', onclick: () => this._hurry() }, 'Try now');
    this._bar = el('div.banner', { hidden: true }, icon('cloud'), this._facts, this._button);
    this._status = el('p.quiet', { role: 'status' }); // a screen reader hears it once, without the countdown
    this.element = el('section', { 'aria-label': 'Connection' }, this._bar, this._status);
    client.on('state', ({ state }) => {
      if (state === 'connected') this._since = null;
      else this._since ??= performance.now();
      this._watch();
    });
    for (const event of ['online', 'offline']) addEventListener(event, () => this._watch());
    this._watch();
  }

  refresh() {
    const isAway = !navigator.onLine || (this._since !== null && performance.now() - this._since >= this._graceMs());
    this._bar.hidden = !isAway;
    setText(this._status, isAway ? 'No connection. Messages are kept and sent later.' : '');
    if (!isAway) return;
    setText(this._facts, this._sentence());
    setText(this._button, this.client.state === 'disconnected' ? 'Connect' : 'Try now');
    this._button.hidden = !navigator.onLine || (this.client.retryAt === null && this.client.state !== 'disconnected');
  }

  _graceMs() {
    return this.client.state === 'disconnected' ? 0 : GRACE_MS;
  }

  _watch() {
    clearInterval(this._timer);
    this.refresh();
    if (this._since !== null || !navigator.onLine) this._timer = setInterval(() => this.refresh(), TICK_MS);
  }

  _sentence() {
    const waits = this.client.unsentCount;
    const queue = waits ? ` ${plural(waits, 'message waits', 'messages wait')} and will be sent.` : '';
    return `${this._reason()}${queue}`;
  }

  _reason() {
    const { state, error, retryAt } = this.client;
    if (state === 'disconnected' && error?.closeCode === REPLACED) return 'In use in another window.';
    if (state === 'disconnected') return error ? `Disconnected: ${error.message}.` : 'Disconnected.';
    const rest_s = retryAt === null ? null : Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    const next = rest_s === null ? '' : ` Next try in ${rest_s} s.`;
    if (!navigator.onLine) return `You are offline.${next}`;
    return next ? `No connection to the server.${next}` : 'Connecting …';
  }

  _hurry() {
    if (this.client.state === 'disconnected') this.client.connect().catch(() => this.refresh());
    else this.client.reconnectNow();
  }
}
