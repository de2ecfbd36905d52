// The list of conversations, the latest first: twenty, then more while the user scrolls. Rows re-sort as messages arrive,
// except that the row under the pointer keeps its place, so that a click never hits a row that just moved in. One row is
// in the tab order; arrow keys move to the others.

import { avatarOf } from '../parts/avatar.js';
import { ownId, round } from '../parts/controls.js';
import { el, perFrame, setText } from '../parts/dom.js';
import { badgeOf } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { VirtualList } from '../parts/virtual.js';
import { t } from '../parts/words.js';
import { Rows } from './row.js';

const ROW_PX = 72;
const PAGE = 20;
const AHEAD_PX = 1200; // more rows are loaded this far before the end
const WATCHED_MAX = 40; // the server accepts 50, the open conversation included
const WATCH_MS = 800;
const SKELETONS = 8;
const OTHERS_MAX = 6; // people that an empty inbox proposes
const FILTERS = ['all', 'unread', 'mentions', 'groups'];
const WANTED = {
  all: () => true,
  unread: (one) => Boolean(one.unreadCount),
  mentions: (one) => Boolean(one.mentionCount),
  groups: (one) => one.kind !== 'direct',
};

export class InboxPane {
  /** @param on { create(), menu(button), search(), threads(), draftOf(conversation), write(userId) } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this.currentId = null;
    this.isArchive = false;
    this.filter = 'all';
    this._drawer = new Rows(client, profiles, on.draftOf);
    this._pointedId = null;
    this._focusedId = null;
    this._isLoading = false;
    this._order = [];
    this._build();
    const refresh = perFrame(() => this.refresh());
    const events = ['inbox', 'unread', 'typing', 'conversation', 'presence', 'state', 'receipt', 'updated', 'message', 'draft', 'thread'];
    for (const event of events) client.on(event, refresh);
    profiles.onChange(refresh);
    client.on('state', ({ state }) => state === 'connected' && this._fill());
    this._clock = setInterval(() => this._list.redraw(), 60_000); // "14:02" becomes "Yesterday" by itself
    this.refresh();
  }

  _build() {
    this._view = el('div.inbox-view');
    this._rows = el('ul', { 'aria-label': t('conversationsLatest') });
    this._note = el('p.inbox-note', { hidden: true });
    const bones = Array.from({ length: SKELETONS }, skeleton);
    this._skeleton = el('div', { role: 'status', 'aria-label': t('loadingConversations') }, ...bones);
    this._empty = this._emptyNote();
    this._noArchive = el('div.archive-empty', { hidden: true }, icon('archive'), el('h2', null, t('nothingArchived')),
      el('p', null, t('nothingArchivedHint')));
    this._noMatch = el('div.archive-empty', { hidden: true }, icon('check'), el('h2', null, t('nothingHere')),
      el('button.plain', { type: 'button', onclick: () => this.show('all') }, t('showAll')));
    this._view.append(this._rows, this._note);
    this.element = el('nav.inbox', { 'aria-label': t('conversations') },
      this._head(), this._tools(), this._skeleton, this._empty, this._noArchive, this._noMatch, this._view);
    this._list = new VirtualList(this._view, this._rows, {
      holds: 'offset',
      isCounted: true,
      estimate: () => ROW_PX,
      markOf: (row) => this._drawer.markOf(row.value, row.value.id === this.currentId),
      draw: (element, row) => this._draw(element, row.value),
      onScroll: () => this._scrolled(),
    });
    this._rows.addEventListener('pointerover', (event) => this._point(event));
    this._rows.addEventListener('pointerleave', () => this._unpoint());
    this._rows.addEventListener('keydown', (event) => this._key(event));
    this._rows.addEventListener('focusin', (event) => this._focused(event));
  }

  _head() {
    this._me = round(t('yourAccount'), 'user', () => this.on.menu(this._me), { 'aria-haspopup': 'menu' });
    const create = round(t('newConversation'), 'plus', () => this.on.create());
    this._threads = round(t('threads'), 'thread', () => this.on.threads(), { 'aria-haspopup': 'dialog' });
    this._title = el('h2', null, t('inbox'));
    this._back = round(t('backToInbox'), 'back', () => this.showArchive(false), { hidden: true });
    return el('header.inbox-head', null, this._back, this._me, this._title, this._threads, create);
  }

  /** The search and the filters below the head. */
  _tools() {
    const isMac = /Mac|iPhone|iPad/u.test(navigator.platform);
    const search = el('button.inbox-search', { type: 'button', onclick: () => this.on.search() }, icon('search'),
      el('span', null, t('search')), el('kbd', { 'aria-hidden': 'true' }, isMac ? '⌘K' : 'Ctrl K'));
    this._filters = FILTERS.map((name) => el('button.filter', {
      type: 'button', 'data-filter': name, 'aria-pressed': String(name === 'all'), onclick: () => this.show(name),
    }, t(`filter.${name}`)));
    this._toolbar = el('div.inbox-tools', null, search,
      el('div.filters', { role: 'group', 'aria-label': t('filters') }, ...this._filters));
    return this._toolbar;
  }

  _emptyNote() {
    this._others = el('div.others');
    this._ownId = el('div');
    return el('div.inbox-empty', { hidden: true }, icon('bubble'), el('h2', null, t('noConversations')),
      el('p', null, t('noConversationsHint')),
      el('button.primary', { type: 'button', onclick: () => this.on.create() }, t('newConversation')),
      this._others, this._ownId);
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
    const isPlain = !this.isArchive && this.filter === 'all';
    this._showEmpty(inbox.loaded && isEmpty && isPlain);
    this._noArchive.hidden = !isEmpty || !this.isArchive;
    this._noMatch.hidden = !inbox.loaded || !isEmpty || this.isArchive || isPlain;
    this._toolbar.hidden = this.isArchive || (isEmpty && isPlain);
    this._view.hidden = isEmpty;
    this._list.setRows(conversations.map((one) => ({ key: one.id, value: one })));
    this._rove();
    this._note.hidden = !inbox.hasMore && !inbox.stale;
    setText(this._note, inbox.stale ? t('countsLag') : t('loadingMore'));
    this._showMe();
    this._showThreads(inbox.unreadThreads ?? 0);
  }

  _showThreads(count) {
    const label = count ? t('threadsUnread', { n: count }) : t('threads');
    if (this._threads.getAttribute('aria-label') === label) return;
    this._threads.setAttribute('aria-label', label);
    this._threads.replaceChildren(icon('thread'), ...(count ? [el('span.badge', { 'aria-hidden': 'true' }, badgeOf(count))] : []));
  }

  /** Hide an archived conversation until a new message arrives. The open one stays in the list. */
  _isWanted(one) {
    if (this.isArchive) return one.archived;
    const isHere = !one.archived || Boolean(one.unreadCount) || one.id === this.currentId;
    return isHere && (WANTED[this.filter](one) || one.id === this._keptId);
  }

  /** Show all conversations, or a part of them. The row that is open when it stops matching stays until it is left. */
  show(filter) {
    this.filter = filter;
    this._keptId = null;
    for (const one of this._filters) one.setAttribute('aria-pressed', String(one.dataset.filter === filter));
    this._view.scrollTop = 0;
    this.refresh();
    this._more();
  }

  /** An empty inbox says who else is here, one click away, and the own id for others. */
  async _showEmpty(isEmpty) {
    const wasEmpty = !this._empty.hidden;
    this._empty.hidden = !isEmpty;
    if (!isEmpty || wasEmpty) return;
    this._ownId.replaceChildren(ownId(this.client.userId));
    const found = (await this.profiles.search('', OTHERS_MAX).catch(() => [])).filter((one) => one.id !== this.client.userId);
    this._others.replaceChildren(...(found.length ? [el('h3', null, t('alsoHere'))] : []), ...found.map((one) => {
      const picture = avatarOf({ id: one.name, name: one.name, url: one.url, size: 'small' });
      if (one.isOnline) picture.append(el('span.dot'));
      return el('button.other', { type: 'button', onclick: () => this.on.write(one.id) }, picture, el('span', { dir: 'auto' }, one.name));
    }));
  }

  /** Show the inbox, or the archived conversations. */
  showArchive(isArchive) {
    this.isArchive = isArchive;
    setText(this._title, isArchive ? t('archived') : t('inbox'));
    this._back.hidden = !isArchive;
    this._view.scrollTop = 0;
    this.refresh();
    this._more();
    if (isArchive) this.client.inbox.loadArchived().catch(() => {}); // what is known is shown
  }

  _showMe() {
    if (!this.client.userId) return;
    const { name, url } = this.profiles.of(this.client.userId);
    if (this._me.dataset.shown === `${name} ${url}`) return;
    this._me.dataset.shown = `${name} ${url}`;
    this._me.replaceChildren(avatarOf({ id: name, name, url, size: 'small' }));
  }

  _draw(element, one) {
    const isCurrent = one.id === this.currentId;
    const href = `#/c/${encodeURIComponent(one.id)}`;
    const link = element.firstElementChild ?? element.appendChild(el('a', { href }));
    link.className = `row${one.unreadCount ? ' is-unread' : ''}${one.muted ? ' is-muted' : ''}`;
    link.dataset.id = one.id;
    link.tabIndex = one.id === this._rovingId() ? 0 : -1;
    if (isCurrent) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
    link.replaceChildren(...this._drawer.draw(one, isCurrent));
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
    this.currentId = this._keptId = id;
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

function skeleton() {
  return el('div.skeleton', { 'aria-hidden': 'true' }, el('i'), el('div', null, el('i'), el('i')));
}
