// Search in a conversation: matches are marked, and arrows go from one match to the next. Where the loaded messages have
// none, older ones are loaded until there is one.

import { round } from '../parts/controls.js';
import { el, setText } from '../parts/dom.js';
import { t } from '../parts/words.js';

export class FindBar {
  /** @param on { changed(query), show(message), older(), closed() } */
  constructor(on) {
    this.on = on;
    this.query = '';
    this._found = [];
    this._at = -1;
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

  /** Search again after the messages changed. The chosen match stays chosen. */
  refresh(messages, hasOlder) {
    const chosen = this._found[this._at]?.key;
    this._found = this.query ? messages.filter((one) => one.text?.toLocaleLowerCase().includes(this.query)) : [];
    this._at = this._found.findIndex((one) => one.key === chosen);
    this._hasOlder = hasOlder;
    this._say();
    if (this.query && hasOlder && !this._found.length) this.on.older(); // nothing was found so far: look further back
    else if (this.query && this._at < 0) this._step(-1);
  }

  /** Never "no match" while a part was not looked at. */
  _nothing() {
    return this._hasOlder ? t('searchingOlder') : t('noMatch');
  }

  _typed() {
    this.query = this.field.value.trim().toLocaleLowerCase();
    this._found = [];
    this._at = -1;
    this.on.changed(this.query);
  }

  /** The newest match comes first; up is older. */
  _step(direction) {
    const { length } = this._found;
    if (!length) return;
    if (direction < 0 && this._at === 0 && this._hasOlder) return this.on.older(); // the next press goes on from there
    this._at = this._at < 0 ? length - 1 : (this._at + direction + length) % length;
    this._say();
    this.on.show(this._found[this._at]);
  }

  _say() {
    const { length } = this._found;
    const found = !length ? this._nothing() : this._at < 0 ? String(length) : t('matchOf', { at: this._at + 1, n: length });
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
