// The banner of a lost connection: the reason, the time of the next attempt, the unsent messages, and a button to hurry.

import { el, setText } from './parts/dom.js';
import { countOf } from './parts/format.js';
import { icon } from './parts/icons.js';
import { t } from './parts/words.js';

const GRACE_MS = 900; // the banner does not mention shorter breaks
const TICK_MS = 250;
const REPLACED = 4505;

export class Banner {
  constructor(client) {
    this.client = client;
    this._since = performance.now();
    this._timer = null;
    this._facts = el('span.banner-facts');
    this._button = el('button', { type: 'button', onclick: () => this._hurry() }, t('tryNow'));
    this._bar = el('div.banner', { hidden: true }, icon('cloud'), this._facts, this._button);
    this._status = el('p.quiet', { role: 'status' }); // a screen reader hears it once, without the countdown
    this.element = el('section', { 'aria-label': t('connection') }, this._bar, this._status);
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
    setText(this._status, isAway ? t('noConnectionKept') : '');
    if (!isAway) return;
    setText(this._facts, this._sentence());
    setText(this._button, this.client.state === 'disconnected' ? t('connect') : t('tryNow'));
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
    const queue = waits ? ` ${countOf(waits, 'messagesWait')}` : '';
    return `${this._reason()}${queue}`;
  }

  _reason() {
    const { state, error, retryAt } = this.client;
    if (state === 'disconnected' && error?.closeCode === REPLACED) return t('otherWindow');
    if (state === 'disconnected') return error ? t('disconnectedBecause', { why: error.message }) : t('disconnected');
    const rest_s = retryAt === null ? null : Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    const next = rest_s === null ? '' : ` ${t('nextTry', { n: rest_s })}`;
    if (!navigator.onLine) return `${t('youAreOffline')}${next}`;
    return next ? `${t('noConnection')}${next}` : t('connecting');
  }

  _hurry() {
    if (this.client.state === 'disconnected') this.client.connect().catch(() => this.refresh());
    else this.client.reconnectNow();
  }
}
