// The list of conversations, the latest first: twenty, then more while the user scrolls. Rows re-sort as messages arrive,
// except that the row under the pointer keeps its place, so that a click never hits a row that just moved in. One row is
// in the tab order; arrow keys move to the others.

import { avatarOf } from './avatar.js';
import { round } from './controls.js';
import { el, perFrame, setText } from './dom.js';
import { badgeOf, numberOf, shortWhen, typingOf } from './format.js';
import { icon } from './icons.js';
import { VirtualList } from './virtual.js';

const ROW_PX = 72;
const PAGE = 20;
const AHEAD_PX = 1200; // more rows are loaded this far before the end
const WATCHED_MAX = 40; // the server accepts 50, the open conversation included
const WATCH_MS = 800;
const SKELETONS = 8;

export class InboxPane {
  /** @param on { open(conversation), create(), menu(button) } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this.currentId = null;
    this.isArchive = false;
    this._pointedId = null;
    this._focusedId = null;
    this._isLoading = false;
    this._order = [];
    this._build();
    const refresh = perFrame(() => this.refresh());
    for (const event of ['inbox', 'unread', 'typing', 'conversation']) client.on(event, refresh);
    profiles.onChange(refresh);
    client.on('state', ({ state }) => state === 'connected' && this._fill());
    this._clock = setInterval(() => this._list.redraw(), 60_000); // "14:02" becomes "Yesterday" by itself
    this.refresh();
  }

  _build() {
    this._view = el('div.inbox-view');
    this._rows = el('ul', { 'aria-label': 'Conversations, the latest first' });
    this._note = el('p.inbox-note', { hidden: true });
    const bones = Array.from({ length: SKELETONS }, skeleton);
    this._skeleton = el('div', { role: 'status', 'aria-label': 'Loading conversations' }, ...bones);
    this._empty = this._emptyNote();
    this._noArchive = el('div.archive-empty', { hidden: true }, icon('archive'), el('h2', null, 'Nothing is archived'),
      el('p', null, 'Archived conversations are kept here until something new comes.'));
    this._view.append(this._rows, this._note);
    this.element = el('nav.inbox', { 'aria-label': 'Conversations' },
      this._head(), this._skeleton, this._empty, this._noArchive, this._view);
    this._list = new VirtualList(this._view, this._rows, {
      holds: 'offset',
      isCounted: true,
      estimate: () => ROW_PX,
      markOf: (row) => this._markOf(row.value),
      draw: (element, row) => this._draw(element, row.value),
      onScroll: () => this._scrolled(),
    });
    this._rows.addEventListener('pointerover', (event) => this._point(event));
    this._rows.addEventListener('pointerleave', () => this._unpoint());
    this._rows.addEventListener('keydown', (event) => this._key(event));
    this._rows.addEventListener('focusin', (event) => this._focused(event));
  }

  _head() {
    this._me = round('Your account', 'user', () => this.on.menu(this._me), { 'aria-haspopup': 'menu' });
    const create = round('New conversation', 'plus', () => this.on.create());
    this._title = el('h2', null, 'Inbox');
    this._back = round('Back to the inbox', 'back', () => this.showArchive(false), { hidden: true });
    return el('header.inbox-head', null, this._back, this._me, this._title, create);
  }

  _emptyNote() {
    return el('div.inbox-empty', { hidden: true }, icon('bubble'), el('h2', null, 'No conversations yet'),
      el('p', null, 'Start one with somebody, or wait to be written to.'),
      el('button.primary', { type: 'button', onclick: () => this.on.create() }, 'New conversation'));
  }

  // --- content ---

  async _fill() {
    const { inbox } = this.client;
    if (!inbox.loaded) await inbox.load(PAGE).catch(() => {}); // the next connection tries again
    this.refresh();
    this._more();
  }

  refresh() {
    const { inbox } = this.client;
    const wanted = inbox.conversations.filter((one) => this._isWanted(one));
    const conversations = arranged(wanted, this._order, this._pointedId);
    const isEmpty = !conversations.length && !inbox.hasMore;
    this._order = conversations;
    this._skeleton.hidden = inbox.loaded || conversations.length > 0;
    this._empty.hidden = !inbox.loaded || !isEmpty || this.isArchive;
    this._noArchive.hidden = !isEmpty || !this.isArchive;
    this._view.hidden = isEmpty;
    this._list.setRows(conversations.map((one) => ({ key: one.id, value: one })));
    this._rove();
    this._note.hidden = !inbox.hasMore && !inbox.stale;
    setText(this._note, inbox.stale ? 'Counts may lag: the server is recovering.' : 'Loading more …');
    this._showMe();
  }

  /** Hide an archived conversation until a new message arrives. The open one stays in the list. */
  _isWanted(one) {
    if (this.isArchive) return one.archived;
    return !one.archived || Boolean(one.unreadCount) || one.id === this.currentId;
  }

  /** Show the inbox, or the archived conversations. */
  showArchive(isArchive) {
    this.isArchive = isArchive;
    setText(this._title, isArchive ? 'Archived' : 'Inbox');
    this._back.hidden = !isArchive;
    this._view.scrollTop = 0;
    this.refresh();
    this._more();
  }

  _showMe() {
    if (!this.client.userId) return;
    const { name, url } = this.profiles.of(this.client.userId);
    if (this._me.dataset.shown === `${name} ${url}`) return;
    this._me.dataset.shown = `${name} ${url}`;
    this._me.replaceChildren(avatarOf({ id: name, name, url, size: 'small' }));
  }

  _titleOf(one) {
    const isUnnamed = !one.name && one.kind in UNNAMED;
    return (isUnnamed ? this.profiles.titleOf(one) : null) ?? titleOf(one);
  }

  /** The names of the people who type. */
  _typistsOf(one) {
    if (one.typing.length && one.kind !== 'direct') this.profiles.want(one, one.typing);
    return one.typing.map((id) => this.profiles.nameOf(id));
  }

  /** Everything that a row shows: a row with the same mark is not drawn again. */
  _markOf(one) {
    return [this._titleOf(one), one.avatarUrl, one.lastMessagePreview, one.lastMessageTs, one.unreadCount, one.unreadCapped,
      one.muted, one.pinned, one.archived, one.id === this.currentId, this._typistsOf(one).join()].join('\u0001');
  }

  _draw(element, one) {
    const isCurrent = one.id === this.currentId;
    const name = this._titleOf(one);
    const href = `#/c/${encodeURIComponent(one.id)}`;
    const link = element.firstElementChild ?? element.appendChild(el('a', { href }));
    link.className = `row${one.unreadCount ? ' is-unread' : ''}${one.muted ? ' is-muted' : ''}`;
    link.dataset.id = one.id;
    link.tabIndex = one.id === this._rovingId() ? 0 : -1;
    if (isCurrent) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
    link.replaceChildren(
      avatarOf({ id: one.kind === 'direct' ? name : one.id, name, kind: one.kind ?? 'direct', url: one.avatarUrl }),
      el('div.row-facts', null,
        el('div.row-line', null,
          el('span.row-name', { dir: 'auto' }, name),
          one.lastMessageTs ? el('span.row-when', null, shortWhen(one.lastMessageTs, this.client.now())) : null),
        el('div.row-line', null, previewOf(one, this._typistsOf(one)), marksOf(one))));
  }

  // --- more rows ---

  _scrolled() {
    this._more();
    this._watchSoon();
  }

  async _more() {
    const { inbox } = this.client;
    const rest = this._view.scrollHeight - this._view.clientHeight - this._view.scrollTop;
    if (this._isLoading || !inbox.loaded || !inbox.hasMore || rest > AHEAD_PX || this._view.clientHeight === 0) return;
    this._isLoading = true;
    const found = await inbox.loadMore(PAGE).catch(() => null);
    this._isLoading = false;
    this.refresh();
    if (found) this._more();
  }

  /** Watch the rows on screen, to show who types. */
  _watchSoon() {
    clearTimeout(this._watching);
    this._watching = setTimeout(() => {
      const shown = [...this._rows.querySelectorAll('.row')].map((row) => row.dataset.id);
      this.client.watch(shown.slice(0, WATCHED_MAX));
    }, WATCH_MS);
  }

  // --- pointer and keys ---

  _point(event) {
    this._pointedId = event.pointerType === 'touch' ? null : (event.target.closest('.row')?.dataset.id ?? null);
  }

  _unpoint() {
    this._pointedId = null;
    this.refresh();
  }

  _focused(event) {
    const id = event.target.closest('.row')?.dataset.id;
    if (!id || id === this._focusedId) return;
    this._focusedId = id;
    this._rove();
  }

  /** The one row that Tab reaches: the one last used, else the open one, else the first. */
  _rovingId() {
    for (const id of [this._focusedId, this.currentId]) if (id && this._list.has(id)) return id;
    return this._order[0]?.id;
  }

  _rove() {
    const id = this._rovingId();
    for (const row of this._rows.querySelectorAll('.row')) row.tabIndex = row.dataset.id === id ? 0 : -1;
  }

  _key(event) {
    const at = this._order.findIndex((one) => one.id === event.target.closest('.row')?.dataset.id);
    const page = Math.max(1, Math.floor(this._view.clientHeight / ROW_PX) - 1);
    const last = this._order.length - 1;
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last };
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey || !(event.key in steps)) return;
    event.preventDefault();
    this._focusRow(this._order[Math.max(0, Math.min(last, steps[event.key]))].id);
  }

  _focusRow(id) {
    this._focusedId = id;
    this._list.reveal(id);
    this._rove();
    this._list.elementOf(id)?.firstElementChild.focus({ preventScroll: true });
  }

  // --- used by the page ---

  setCurrent(id) {
    this.currentId = id;
    if (id) this._focusedId = null;
    this.refresh();
  }

  /** Focus a row; without an id, the row that Tab would reach. */
  focus(wantedId = null) {
    const id = this._list.has(wantedId) ? wantedId : this._rovingId();
    if (id) this._focusRow(id);
  }

  /** The conversation above (-1) or below (1) the open one. */
  beside(step) {
    const at = this._order.findIndex((one) => one.id === this.currentId);
    return this._order[at < 0 ? 0 : at + step] ?? null;
  }

  stop() {
    clearInterval(this._clock);
    clearTimeout(this._watching);
  }
}

/** The order to show: pinned first, then as the server has it; but the pointed one stays at the index where it is. */
export function arranged(conversations, shown, pointedId) {
  const listed = conversations.filter((one) => !one.removed);
  const sorted = [...listed.filter((one) => one.pinned), ...listed.filter((one) => !one.pinned)];
  const at = pointedId === null ? -1 : shown.findIndex((one) => one.id === pointedId);
  const now = at < 0 ? -1 : sorted.findIndex((one) => one.id === pointedId);
  if (now >= 0 && now !== at) sorted.splice(at, 0, ...sorted.splice(now, 1));
  return sorted;
}

const UNNAMED = { channel: 'Channel', group: 'Group' };

export const titleOf = (one) => one.name || (UNNAMED[one.kind] ?? one.id);

function previewOf(one, typists) {
  if (typists.length) {
    return el('span.row-preview', null, el('span.typing-word', { dir: 'auto' }, typingOf(typists, one.kind)));
  }
  if (!one.lastSeq) return el('span.row-preview.is-none', null, 'No messages yet');
  return el('span.row-preview', { dir: 'auto' }, one.lastMessagePreview ?? '');
}

function marksOf(one) {
  const marks = el('span.row-marks');
  if (one.pinned) marks.append(icon('pin'), el('span.quiet', null, 'Pinned'));
  if (one.archived) marks.append(icon('archive'), el('span.quiet', null, 'Archived'));
  if (one.muted) marks.append(icon('muted'), el('span.quiet', null, 'Muted'));
  if (one.unreadCount) {
    const said = `${numberOf(one.unreadCount)}${one.unreadCapped ? ' or more' : ''} unread`;
    const badge = badgeOf(one.unreadCount, one.unreadCapped);
    marks.append(el('span.badge', { 'aria-hidden': 'true' }, badge), el('span.quiet', null, said));
  }
  return marks;
}

function skeleton() {
  return el('div.skeleton', { 'aria-hidden': 'true' }, el('i'), el('div', null, el('i'), el('i')));
}
