// Search in the loaded messages: matches are marked, arrows go from one match to the next, and a button goes on into
// older messages.

import { round } from './controls.js';
import { el, setText } from './dom.js';

export class FindBar {
  /** @param on { changed(query), show(message), older(), closed() } */
  constructor(on) {
    this.on = on;
    this.query = '';
    this._found = [];
    this._at = -1;
    this._count = el('output', { 'aria-live': 'polite' });
    this.field = el('input', {
      type: 'search', placeholder: 'Search loaded messages', 'aria-label': 'Search in loaded messages',
      autocomplete: 'off', dir: 'auto',
      oninput: () => this._typed(), onkeydown: (event) => this._key(event),
    });
    this._older = round('Search older messages', 'plus', () => this.on.older());
    this.element = el('div.find', { hidden: true, role: 'search' }, this.field, this._count, this._older,
      round('Previous match', 'up', () => this._step(-1)),
      round('Next match', 'down', () => this._step(1)),
      round('Close search', 'close', () => this.close()));
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
    this._older.hidden = !hasOlder || !this.query;
    this._say();
  }

  _typed() {
    this.query = this.field.value.trim().toLocaleLowerCase();
    this._found = [];
    this._at = -1;
    this.on.changed(this.query);
    if (this._found.length) this._step(-1);
  }

  /** The newest match comes first; up is older. */
  _step(direction) {
    const { length } = this._found;
    if (!length) return;
    this._at = this._at < 0 ? length - 1 : (this._at + direction + length) % length;
    this._say();
    this.on.show(this._found[this._at]);
  }

  _say() {
    const { length } = this._found;
    const place = this._at < 0 ? '' : `${this._at + 1} of `;
    const found = length ? `${place}${length}` : 'No match';
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
