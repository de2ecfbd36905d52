// Search in a conversation: matches are marked, and arrows go from one match to the next, wherever it is. The server
// finds words in all messages; the loaded ones are searched for any part of a word. Where the server has no search,
// older messages are loaded until one matches.

import { round } from '../parts/controls.js';
import { el, setText } from '../parts/dom.js';
import { t } from '../parts/words.js';

const WAIT_MS = 200; // after the last key, before the server is asked
const AGAIN_MS = 1500; // before it is asked again, where it had not looked at everything
const TRIES_MAX = 8;
const PAGE = 100;

export class FindBar {
  /** @param on { changed(query), show(seq), older(), closed(), search(query, cursor) } */
  constructor(on) {
    this.on = on;
    this._forget();
    this._count = el('output', { 'aria-live': 'polite' });
    this.field = el('input', {
      type: 'search', placeholder: t('searchMessages'), 'aria-label': t('searchHere'),
      autocomplete: 'off', dir: 'auto',
      oninput: () => this._typed(), onkeydown: (event) => this._key(event),
    });
    this.element = el('div.find', { hidden: true, role: 'search' }, this.field, this._count,
      round(t('previousMatch'), 'up', () => this._step(-1)),
      round(t('nextMatch'), 'down', () => this._step(1)),
      round(t('closeSearch'), 'close', () => this.close()));
  }

  _forget() {
    clearTimeout(this._timer);
    this.query = '';
    this._found = []; // seqs of matches, ascending
    this._hits = new Set(); // seqs that the server found
    this._chosen = null; // the seq that is shown
    this._cursor = null;
    this._isAsking = false;
    this._isServed = false; // the server has answered
    this._turn = (this._turn ?? 0) + 1;
  }

  get isOpen() {
    return !this.element.hidden;
  }

  open() {
    this.element.hidden = false;
    this.field.focus();
    this.field.select();
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    this.field.value = '';
    this._typed();
    this.on.closed();
  }

  _typed() {
    this._forget();
    this.query = this.field.value.trim().toLocaleLowerCase();
    this._isAsking = this.query !== '';
    if (this.query) this._timer = setTimeout(() => this._ask(), WAIT_MS);
    this.on.changed(this.query);
  }

  /** Ask the server for matches, and again while it has not looked at everything. */
  async _ask(tries = 0) {
    const turn = this._turn;
    const page = await this.on.search(this.query, this._cursor, PAGE).catch(() => null);
    if (turn !== this._turn) return;
    for (const { message } of page?.hits ?? []) this._hits.add(message.seq);
    this._isServed = page !== null;
    this._cursor = page?.nextCursor ?? null;
    const isPartial = page !== null && !page.complete && this._cursor === null && tries < TRIES_MAX;
    this._isAsking = isPartial;
    if (isPartial) this._timer = setTimeout(() => this._ask(tries + 1), AGAIN_MS);
    this.on.changed(this.query);
  }

  /** Search again after the messages changed. The chosen match stays chosen. */
  refresh(messages, hasOlder) {
    const isMatch = (one) => one.seq !== null && one.text?.toLocaleLowerCase().includes(this.query);
    const local = this.query ? messages.filter(isMatch).map((one) => one.seq) : [];
    this._found = [...new Set([...this._hits, ...local])].sort((a, b) => a - b);
    this._isOpenEnded = this._cursor !== null || (!this._isServed && hasOlder);
    this._say();
    if (!this.query || this._isAsking) return;
    if (!this._found.length && !this._isServed && hasOlder) this.on.older(); // nothing was found so far: look further back
    else if (this._chosen === null) this._step(-1);
  }

  /** The newest match comes first; up is older. */
  _step(direction) {
    const { length } = this._found;
    if (!length) return;
    const at = this._found.indexOf(this._chosen);
    if (direction < 0 && at === 0 && this._isOpenEnded) return this._further(); // the next press goes on from there
    this._chosen = this._found[at < 0 ? length - 1 : (at + direction + length) % length];
    this._say();
    this.on.show(this._chosen);
  }

  _further() {
    if (this._cursor === null) return this.on.older();
    if (!this._isAsking) this._ask();
  }

  /** Never "no match" while a part was not looked at. */
  _say() {
    const { length } = this._found;
    const at = this._found.indexOf(this._chosen);
    const nothing = this._isAsking || this._isOpenEnded ? t('searchingOlder') : t('noMatch');
    const n = this._isOpenEnded ? `${length}+` : String(length);
    const found = !length ? nothing : at < 0 ? n : t('matchOf', { at: length - at, n });
    setText(this._count, this.query ? found : '');
  }

  _key(event) {
    if (event.key === 'Enter') this._step(event.shiftKey ? 1 : -1);
    else if (event.key === 'Escape') this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
