// A list of any length with a few dozen rows in the DOM.
//
// Rows have keys and heights. The height of a row is an estimate until the row was on screen; offsets are sums of those
// heights. The rows on screen stay in place, whatever changes above them: the list remembers their distance from the top
// and restores it after every change (`holds: 'row'`). The inbox changes its order all the time, so it keeps the scroll
// offset instead (`holds: 'offset'`). A list at its end stays at its end.
//
// The list never undoes the scrolling of the reader. A browser reports a scroll one frame late. So the list reads the
// position of the view before each change, and compares it with the position of its last drawing.

import { setAttribute } from './dom.js';

const OVERSCAN_PX = 600; // rows drawn beyond the edges, so that a quick scroll shows rows and no blank
const END_PX = 24; // this close to the end counts as being there
const STILL_PX = 0.5; // less is rounding, more is scrolling
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
    this._rest = this.options.sticksToEnd ? 0 : null; // px left to the end; null when the reader is not at it
    this._hasMore = false;
    this._top = null; // position of the view after the last drawing; null when it was hidden
    this._places = new Map(); // key -> index
    this._heights = new Map(); // key -> measured px
    this._offsets = new Float64Array(1);
    this._drawn = new Map(); // key -> { element, row }
    this._held = []; // rows on screen: { key, gap, value, mark } with gap = px from the viewport's top
    this._frame = 0;
    this._width = 0;
    viewport.addEventListener('scroll', () => this._schedule(), { passive: true });
    this._observer = new ResizeObserver(() => this._resized());
    this._observer.observe(viewport);
  }

  get isAtEnd() {
    return this._rest !== null;
  }

  /** Set the rows. Rows are values: a row with the same key, `value` and `markOf` looks the same. `isLoose`: the row
   *  moves among the others, as the day above the oldest message does, so it holds no place. `hasMore`: more rows
   *  belong below these, so the list does not stay at their end. */
  setRows(rows, hasMore = false) {
    this._look();
    if (this.isAtEnd && rows.at(-1)?.key !== this.rows.at(-1)?.key) this._rest = 0; // show a new last row in full
    this.rows = rows;
    this._hasMore = hasMore;
    this._places = new Map(rows.map((row, place) => [row.key, place]));
    this._measureAll();
    this._forgetHeights();
    this._paint();
  }

  /** Forget scroll position and heights: another conversation follows. */
  reset() {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    this._heights.clear();
    this._held = [];
    this._rest = this.options.sticksToEnd ? 0 : null;
    this._hasMore = false;
    this._top = null;
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

  /** The last row that `isWanted` and whose end is in view, or null. */
  lastInView(isWanted) {
    if (!this.rows.length || this.viewport.clientHeight === 0) return null;
    const end = this.viewport.scrollTop - this._inset() + this.viewport.clientHeight + END_PX;
    for (let place = this._rowAt(Math.max(0, end)); place >= 0; place -= 1) {
      if (this._offsets[place + 1] <= end && isWanted(this.rows[place])) return this.rows[place];
    }
    return null;
  }

  /** The last row that `isWanted` and that begins above the view, or null. */
  lastAbove(isWanted) {
    const top = this.viewport.scrollTop - this._inset();
    for (let place = this.rows.length ? this._rowAt(Math.max(0, top)) : -1; place >= 0; place -= 1) {
      if (this._offsets[place] < top && isWanted(this.rows[place])) return this.rows[place];
    }
    return null;
  }

  /** -1 above the view, 0 in it, 1 below; null when there is no such row. */
  sideOf(key) {
    const place = this._places.get(key);
    if (place === undefined) return null;
    const top = this.viewport.scrollTop - this._inset();
    if (this._offsets[place + 1] <= top) return -1;
    return this._offsets[place] >= top + this.viewport.clientHeight ? 1 : 0;
  }

  /** Show a row at `share` of the height of the view: 0 is the top, 0.5 the middle. */
  scrollToRow(key, share = 0.3) {
    if (!this._places.has(key)) return;
    this._rest = null;
    this._held = [{ key, gap: Math.round(this.viewport.clientHeight * share) }];
    this._paint();
  }

  /** Scroll no further than needed to show the row, as arrow keys do. */
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
    this._rest = 0;
    this._held = [];
    this._paint();
  }

  redraw() {
    this._look();
    for (const drawn of this._drawn.values()) drawn.row = null;
    this._paint();
  }

  // --- offsets ---

  _measureAll() {
    const offsets = new Float64Array(this.rows.length + 1);
    for (let place = 0; place < this.rows.length; place += 1) {
      const row = this.rows[place];
      offsets[place + 1] = offsets[place] + (this._heights.get(row.key) ?? this.options.estimate(row));
    }
    this._offsets = offsets;
  }

  /** Drop the heights of removed rows when there are many. */
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

  /** The height of everything above the list inside the viewport. */
  _inset() {
    return this.list.offsetTop;
  }

  // --- holding the position ---

  /** The largest scroll offset. */
  _limit() {
    return this.viewport.scrollHeight - this.viewport.clientHeight;
  }

  /** Notice scrolling since the last drawing. A view that became shorter, so that the browser had to move it, was not
   *  scrolled by the reader. */
  _look() {
    if (this._top === null || this.viewport.clientHeight === 0) return;
    const still = Math.min(this._top, this._limit());
    if (Math.abs(this.viewport.scrollTop - still) <= STILL_PX) return;
    this._rest = null;
    this._keep();
  }

  /** Remember the present position. */
  _keep() {
    if (!this.rows.length || this.viewport.clientHeight === 0) return;
    this._top = this.viewport.scrollTop;
    const rest = Math.max(0, this._limit() - this._top); // a touch may pull a view beyond its end
    const isEnd = this.options.sticksToEnd && !this._hasMore && rest <= END_PX;
    if (this._rest === null && isEnd) this._rest = rest;
    if (this.options.holds === 'row') this._note();
    else this._held = [];
  }

  _note() {
    const inset = this._inset();
    const top = this.viewport.scrollTop - inset;
    const first = this._rowAt(Math.max(0, top));
    const last = this._rowAt(Math.max(0, top + this.viewport.clientHeight));
    this._held = [];
    for (let place = first; place <= last; place += 1) {
      const row = this.rows[place];
      if (row.isLoose) continue;
      const gap = this._offsets[place] - top;
      this._held.push({ key: row.key, gap, value: row.value, mark: this.options.markOf(row) });
    }
  }

  /** The position that the held rows ask for. The first unchanged row decides: a changed row may have another height
   *  and would push away the rows below it. Null when no row is held. */
  _heldTop() {
    const kept = this._held.filter((one) => this._places.has(one.key));
    const held = kept.find((one) => this._isSame(one)) ?? kept[0];
    return held ? this._offsets[this._places.get(held.key)] - held.gap : null;
  }

  _isSame({ key, value, mark }) {
    const row = this.rows[this._places.get(key)];
    return row.value === value && this.options.markOf(row) === mark;
  }

  _restore() {
    const limit = this._limit();
    let wanted = this.viewport.scrollTop;
    const held = this._heldTop();
    if (this.isAtEnd) wanted = limit - this._rest;
    else if (held !== null) wanted = held + this._inset();
    const clean = Math.max(0, Math.min(limit, wanted));
    if (Math.abs(clean - this.viewport.scrollTop) > STILL_PX) this.viewport.scrollTop = clean;
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
    this._look();
    this._paint();
    this.options.onScroll();
  }

  _resized() {
    if (this.viewport.clientHeight === 0) {
      this._top = null; // browsers differ in the position of a view that is shown again
      return;
    }
    this._look();
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
      if (isSettled && nextFirst >= first && nextLast <= last) break;
    }
    this._keep();
  }

  _range() {
    if (!this.rows.length) return [0, -1];
    const height = this.viewport.clientHeight || 800;
    const top = this._wantedTop(height);
    return [this._rowAt(Math.max(0, top - OVERSCAN_PX)), this._rowAt(top + height + OVERSCAN_PX)];
  }

  /** The position of the view after the restore. */
  _wantedTop(height) {
    const total = this._offsets[this.rows.length];
    if (this.isAtEnd) return Math.max(0, total - height - this._rest);
    const held = this._heldTop();
    if (held !== null) return held;
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

  /** Insert an element and restore its focus: moving an element drops the focus. */
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

  /** Measure the drawn rows. Returns whether a height differs from the known one. */
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
