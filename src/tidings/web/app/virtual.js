// A list of any length with a few dozen rows in the DOM.
//
// Rows have keys and heights of their own. A row's height is an estimate until it was on screen once; offsets are sums
// of those heights. What the reader looks at stays where it is, whatever is put in or taken out above it: the list
// remembers the rows on screen with their distance from the top and restores it after every change (`holds: 'row'`),
// or keeps the scroll offset (`holds: 'offset'`, the inbox, whose order changes all the time). At the end it stays
// at the end.

import { setAttribute } from './dom.js';

const OVERSCAN_PX = 600; // rows drawn beyond the edges, so that a flick of the wheel meets rows and not a blank
const END_PX = 24; // this close to the end counts as being there
const PASSES_MAX = 4; // measuring moves rows, which may call for more rows; in practice two passes settle it

export class VirtualList {
  /**
   * @param viewport the element that scrolls
   * @param list the element inside of it that holds the rows
   * @param options estimate(row) in px; draw(element, row) fills an element; markOf(row) tells
   *   whether it must be filled again; tag of a row; holds; sticksToEnd;
   *   isCounted: rows say "3 of 5,000" to a screen reader; onScroll() after each scroll was drawn
   */
  constructor(viewport, list, options) {
    this.viewport = viewport;
    this.list = list;
    const usual = { tag: 'li', holds: 'row', sticksToEnd: false, markOf: (row) => row.mark, onScroll: () => {} };
    this.options = { ...usual, ...options };
    this.rows = [];
    this.isAtEnd = this.options.sticksToEnd;
    this._places = new Map(); // key -> index
    this._heights = new Map(); // key -> measured px
    this._offsets = new Float64Array(1);
    this._drawn = new Map(); // key -> { element, row }
    this._held = []; // rows on screen: { key, gap } with gap = px from the viewport's top
    this._frame = 0;
    this._width = 0;
    viewport.addEventListener('scroll', () => this._schedule(), { passive: true });
    this._observer = new ResizeObserver(() => this._resized());
    this._observer.observe(viewport);
  }

  /** New content. Rows are values: one with the same key, `value` and `markOf` looks the same. `isLoose`: it moves
   *  about among the others, as the day above the oldest message does, so no place is remembered by it. */
  setRows(rows) {
    this._note();
    this.rows = rows;
    this._places = new Map(rows.map((row, place) => [row.key, place]));
    this._measureAll();
    this._forgetHeights();
    this._paint();
  }

  /** Forgets scroll position and heights: another conversation. */
  reset() {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    this._heights.clear();
    this._held = [];
    this.isAtEnd = this.options.sticksToEnd;
    this.rows = [];
    this._places.clear();
    this._measureAll();
    this._paint();
  }

  has(key) {
    return this._places.has(key);
  }

  elementOf(key) {
    return this._drawn.get(key)?.element ?? null;
  }

  /** Whether the whole row, or the end of one that is taller than the screen, is in view. */
  isInView(key) {
    const place = this._places.get(key);
    if (place === undefined) return false;
    const top = this.viewport.scrollTop - this._inset();
    const bottom = this._offsets[place + 1];
    return bottom > top && bottom <= top + this.viewport.clientHeight + END_PX;
  }

  /** -1 above the view, 0 in it, 1 below; null when there is no such row. */
  sideOf(key) {
    const place = this._places.get(key);
    if (place === undefined) return null;
    const top = this.viewport.scrollTop - this._inset();
    if (this._offsets[place + 1] <= top) return -1;
    return this._offsets[place] >= top + this.viewport.clientHeight ? 1 : 0;
  }

  /** Shows a row at `share` of the height of the view: 0 its top, 0.5 the middle. */
  scrollToRow(key, share = 0.3) {
    if (!this._places.has(key)) return;
    this.isAtEnd = false;
    this._held = [{ key, gap: Math.round(this.viewport.clientHeight * share) }];
    this._paint();
  }

  /** Moves no further than needed for the row to be in view: what arrow keys do. */
  reveal(key) {
    const place = this._places.get(key);
    if (place === undefined) return;
    const top = this.viewport.scrollTop - this._inset();
    const [start, end] = [this._offsets[place], this._offsets[place + 1]];
    if (start < top) this.viewport.scrollTop = start + this._inset();
    else if (end > top + this.viewport.clientHeight) {
      this.viewport.scrollTop = end - this.viewport.clientHeight + this._inset();
    }
    this._scrolled();
  }

  scrollToEnd() {
    this.isAtEnd = true;
    this._held = [];
    this._paint();
  }

  redraw() {
    for (const drawn of this._drawn.values()) drawn.row = null;
    this._paint();
  }

  // --- what is where ---

  _measureAll() {
    const offsets = new Float64Array(this.rows.length + 1);
    for (let place = 0; place < this.rows.length; place += 1) {
      const row = this.rows[place];
      offsets[place + 1] = offsets[place] + (this._heights.get(row.key) ?? this.options.estimate(row));
    }
    this._offsets = offsets;
  }

  /** Heights of rows that are gone: kept while they are few. */
  _forgetHeights() {
    if (this._heights.size <= this.rows.length * 2 + 1000) return;
    for (const key of this._heights.keys()) if (!this._places.has(key)) this._heights.delete(key);
  }

  /** The index of the row at a distance from the start of the list. */
  _rowAt(px) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this._offsets[middle] <= px) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** What stands above the list inside of the viewport. */
  _inset() {
    return this.list.offsetTop;
  }

  // --- holding the position ---

  _note() {
    if (!this.rows.length || this.viewport.clientHeight === 0) return;
    const inset = this._inset();
    const top = this.viewport.scrollTop - inset;
    const first = this._rowAt(Math.max(0, top));
    const last = this._rowAt(Math.max(0, top + this.viewport.clientHeight));
    this._held = [];
    for (let place = first; place <= last; place += 1) {
      const row = this.rows[place];
      if (!row.isLoose) this._held.push({ key: row.key, gap: this._offsets[place] - top });
    }
  }

  _restore() {
    const limit = this.viewport.scrollHeight - this.viewport.clientHeight;
    let wanted = this.viewport.scrollTop;
    if (this.isAtEnd && this.options.sticksToEnd) wanted = limit;
    else if (this.options.holds === 'row') {
      const held = this._held.find((one) => this._places.has(one.key));
      if (held) wanted = this._offsets[this._places.get(held.key)] - held.gap + this._inset();
    }
    const clean = Math.max(0, Math.min(limit, wanted));
    if (Math.abs(clean - this.viewport.scrollTop) > 0.5) this.viewport.scrollTop = clean;
  }

  _schedule() {
    if (this._frame) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._scrolled();
    });
  }

  _scrolled() {
    if (this.viewport.clientHeight === 0) return;
    const rest = this.viewport.scrollHeight - this.viewport.clientHeight - this.viewport.scrollTop;
    this.isAtEnd = rest <= END_PX;
    this._note();
    this._paint();
    this.options.onScroll();
  }

  _resized() {
    if (this.viewport.clientHeight === 0) return;
    if (this.viewport.clientWidth !== this._width) {
      this._width = this.viewport.clientWidth;
      this._heights.clear();
      this._measureAll();
    }
    this._paint();
    this.options.onScroll();
  }

  // --- drawing ---

  _paint() {
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      const [first, last] = this._range();
      this._place(first, last);
      const isSettled = !this._measureDrawn();
      if (!isSettled) this._pad(first, last);
      this._restore();
      const [nextFirst, nextLast] = this._range();
      if (isSettled && nextFirst >= first && nextLast <= last) return;
    }
  }

  _range() {
    if (!this.rows.length) return [0, -1];
    const height = this.viewport.clientHeight || 800;
    const top = this._wantedTop(height);
    return [this._rowAt(Math.max(0, top - OVERSCAN_PX)), this._rowAt(top + height + OVERSCAN_PX)];
  }

  /** Where the view will be once the position is restored. */
  _wantedTop(height) {
    const total = this._offsets[this.rows.length];
    if (this.isAtEnd && this.options.sticksToEnd) return Math.max(0, total - height);
    const held = this.options.holds === 'row' && this._held.find((one) => this._places.has(one.key));
    if (held) return this._offsets[this._places.get(held.key)] - held.gap;
    return Math.max(0, Math.min(this.viewport.scrollTop - this._inset(), total - height));
  }

  _place(first, last) {
    const wanted = new Set();
    for (let place = first; place <= last; place += 1) wanted.add(this.rows[place].key);
    for (const [key, drawn] of this._drawn) {
      if (wanted.has(key)) continue;
      if (drawn.element.contains(document.activeElement)) this.viewport.focus({ preventScroll: true });
      drawn.element.remove();
      this._drawn.delete(key);
    }
    this._pad(first, last);
    let before = this.list.firstElementChild;
    for (let place = first; place <= last; place += 1) {
      const element = this._draw(this.rows[place], place);
      if (element === before) before = before.nextElementSibling;
      else this._insert(element, before);
    }
  }

  /** Moving an element drops its focus; it is given back. */
  _insert(element, before) {
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    this.list.insertBefore(element, before);
    focused?.focus({ preventScroll: true });
  }

  _pad(first, last) {
    this.list.style.paddingBlockStart = `${this._offsets[first]}px`;
    this.list.style.paddingBlockEnd = `${this._offsets[this.rows.length] - this._offsets[last + 1]}px`;
  }

  _draw(row, place) {
    let drawn = this._drawn.get(row.key);
    if (!drawn) {
      drawn = { element: document.createElement(this.options.tag), row: null };
      this._drawn.set(row.key, drawn);
    }
    const mark = this.options.markOf(row);
    if (drawn.row === null || drawn.mark !== mark || drawn.row.value !== row.value) {
      this.options.draw(drawn.element, row);
      drawn.mark = mark;
      drawn.isNew = true;
    }
    drawn.row = row;
    if (this.options.isCounted) {
      setAttribute(drawn.element, 'aria-posinset', String(place + 1));
      setAttribute(drawn.element, 'aria-setsize', String(this.rows.length));
    }
    return drawn.element;
  }

  /** Whether a height was another one than thought. */
  _measureDrawn() {
    if (this.viewport.clientHeight === 0) return false;
    let isChanged = false;
    for (const [key, drawn] of this._drawn) {
      if (!drawn.isNew && this._heights.has(key)) continue;
      const height = drawn.element.getBoundingClientRect().height;
      drawn.isNew = false;
      const place = this._places.get(key);
      const known = this._offsets[place + 1] - this._offsets[place];
      if (this._heights.get(key) !== height) this._heights.set(key, height);
      if (Math.abs(known - height) > 0.01) isChanged = true;
    }
    if (isChanged) this._measureAll();
    return isChanged;
  }
}
