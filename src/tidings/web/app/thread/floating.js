// The day of the messages on the screen, over them while the reader scrolls through older ones.

import { el, setText } from '../parts/dom.js';

const SHOWN_MS = 1200; // after the last scroll

export class FloatingDay {
  constructor(view, list) {
    this._list = list;
    this._timer = 0;
    this.element = el('div.floating-day', { 'aria-hidden': 'true' }, el('span')); // the days are rows, too
    view.addEventListener('scroll', () => this._scrolled(), { passive: true });
  }

  hide() {
    clearTimeout(this._timer);
    this.element.classList.remove('is-shown');
  }

  _scrolled() {
    const day = this._list.isAtEnd ? null : this._list.lastAbove((row) => row.kind === 'day');
    if (!day) return this.hide();
    setText(this.element.firstChild, day.value);
    this.element.classList.add('is-shown');
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.hide(), SHOWN_MS);
  }
}
