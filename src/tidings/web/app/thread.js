// A conversation on the screen. It opens at its newest messages. The line before the first unread message keeps its place
// until the user sends or leaves. Messages are marked as read only while the end is in view and the page is visible.
// Pages are loaded two screens ahead in both directions, and the reader's place is kept.

import { conversationMenu, members, messageMenu, retry } from './actions.js';
import { Composer } from './composer.js';
import { sentenceOf } from './dialogs.js';
import { el, perFrame, setText } from './dom.js';
import { FindBar } from './find.js';
import { typingOf } from './format.js';
import { ThreadHead } from './head.js';
import { logo } from './icons.js';
import { drawRow } from './message.js';
import { showReceipts } from './people.js';
import { Pills } from './pills.js';
import { heightOf, peopleIn, rowsOf, startOf, UNREAD_KEY } from './rows.js';
import { SpokenLog, TypingLine } from './signs.js';
import { VirtualList } from './virtual.js';

const PAGE = 50;
const SCREENS_AHEAD = 2;
const AGAIN_MS = 2000; // the pause before a page that failed is loaded again
const SHOWN_MS = 2500; // how long a message that was jumped to stays marked

export class ThreadPane {
  /** @param on { leave() } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this.conversation = null;
    this._divider = null;
    this._isDividerSeen = false;
    this._markedSeq = 0;
    this._isBusy = false;
    this._shownKey = null;
    this._offs = [];
    this._build();
    this._renderSoon = perFrame(() => this.render());
    client.on('state', ({ state }) => (state === 'connected' ? this._connected() : this.head.refresh()));
    client.on('presence', () => this.head.refresh());
    profiles.onChange(() => this._renderSoon());
    document.addEventListener('visibilitychange', () => this._seen());
  }

  _build() {
    this.head = new ThreadHead(this.client, this.profiles, {
      back: () => this.leave(), find: () => this.find(), members: () => members(this),
      menu: (button) => conversationMenu(this, button), changed: () => this._renderSoon(),
    });
    this.composer = new Composer({
      send: (text) => this._send(text), edit: (message, text) => this._edit(message, text),
      editLast: () => this._editLast(), typed: () => this.conversation.keystroke(),
    });
    this._find = new FindBar({
      changed: () => this.render(), show: (message) => this._show(message.key), older: () => this._load('loadOlder'),
      closed: () => this.composer.focus(),
    });
    this._messages = el('ol.messages');
    const facts = { tabindex: 0, role: 'region', 'aria-label': 'Messages', onkeydown: (event) => this._key(event) };
    this._view = el('div.thread-view', facts, this._messages);
    this._typing = new TypingLine();
    this._spoken = new SpokenLog();
    this._alert = el('p.composer-note', { role: 'alert', hidden: true });
    this._open = el('div.thread-open', { hidden: true }, this.head.element, this._find.element, this._stage(),
      this._typing.element, this._alert, this.composer.element, this._spoken.element);
    this._closed = el('div.thread-empty', null, logo(), el('h2', null, 'Your conversations'),
      el('p', null, 'Choose one from the list, or start a new one.'));
    this._missing = el('div.thread-missing', { hidden: true, role: 'alert' }, el('h2', null, 'Nothing to see here'),
      el('p', null, 'There is no such conversation, or you are not in it.'),
      el('button.plain', { type: 'button', onclick: () => this.leave() }, 'Back to conversations'));
    const place = { id: 'thread', tabindex: -1, 'aria-label': 'Conversation' };
    this.element = el('section.thread', place, this._open, this._closed, this._missing);
    this._list = new VirtualList(this._view, this._messages, {
      sticksToEnd: true,
      estimate: (row) => heightOf(row, this._view.clientWidth),
      draw: (element, row) => drawRow(element, row, { isDirect: this.head.kind === 'direct', on: this._rowActions }),
      onScroll: () => this._scrolled(),
    });
    this._rowActions = {
      receipts: (message) => showReceipts(this.profiles, this.conversation, message),
      retry: (message) => retry(this, message),
      menu: (button, message) => messageMenu(this, button, message),
    };
  }

  _stage() {
    this._pills = new Pills({ unread: () => this._jumpToUnread(), now: () => this._jumpToNow() });
    this._loading = el('p.loading', { hidden: true, role: 'status' }, 'Loading messages …');
    return el('div.thread-stage', null, this._view, this._pills.unread, this._loading, this._pills.now);
  }

  // --- opening and leaving ---

  async open(conversation) {
    if (conversation === this.conversation) return;
    this.close();
    this.conversation = conversation;
    this._open.hidden = false;
    this._closed.hidden = true;
    this.composer.use(`tidings.draft.${this.client.userId ?? ''}.${conversation.id}`);
    this.head.use(conversation);
    this._listen(conversation);
    if (matchMedia('(hover: hover)').matches) this.composer.focus();
    else this.element.focus({ preventScroll: true });
    await this._loadFirst();
  }

  _listen(conversation) {
    const render = () => this._renderSoon();
    this._offs = ['updated', 'window', 'unread', 'receipt', 'inbox'].map((event) => conversation.on(event, render));
    this._offs.push(conversation.on('message', ({ message }) => this._came(message)));
    this._offs.push(conversation.on('typing', () => this._showTyping()));
    this._offs.push(conversation.on('conversation', ({ change }) => this._changed(change)));
  }

  _changed(change) {
    if (change === 'removed') this.leave();
    else this.head.reload();
  }

  async _loadFirst() {
    const { conversation } = this;
    this._isLoaded = false;
    this.render();
    this._loading.hidden = false;
    try {
      await conversation.open({ at: 'newest', limit: PAGE });
      if (conversation !== this.conversation) return;
      this._isLoaded = true;
      this._spoken.begin(this._lastSeq());
      this._freeze();
    } catch (error) {
      if (conversation === this.conversation) this._refused(error);
    }
    if (conversation !== this.conversation) return;
    this._loading.hidden = true;
    this._list.scrollToEnd();
    this.render();
  }

  close() {
    for (const off of this._offs) off();
    this._offs = [];
    this.conversation?.stopTyping();
    this.conversation?.close();
    this.conversation = this.head.conversation = null;
    this._divider = null;
    this._markedSeq = 0;
    this._isLoaded = false;
    this._find.close();
    this._list.reset();
    this._spoken.clear();
    this.tell(null);
    this._pills.hide();
    this._loading.hidden = true;
    this._open.hidden = true;
    this._closed.hidden = false;
    this._missing.hidden = true;
  }

  _refused(error) {
    if (error.code !== 'not_found') return this.tell(error);
    this.close();
    this._closed.hidden = true;
    this._missing.hidden = false;
  }

  leave() {
    this.on.leave();
  }

  async _connected() {
    if (!this.conversation) return;
    if (!this._isLoaded) await this._loadFirst();
    this.head.reload();
    this.render();
  }

  /** Remember where the unread messages begin. */
  _freeze() {
    const { firstUnreadSeq: seq, unreadCount: count, unreadCapped: isCapped } = this.conversation;
    this._divider = seq && count !== 0 ? { seq, count, isCapped } : null;
    this._isDividerSeen = false;
  }

  // --- drawing ---

  render() {
    const { conversation } = this;
    if (!conversation) return;
    const rows = this._isLoaded || conversation.messages.length ? this._rowsNow() : [];
    this._list.setRows(rows, conversation.hasNewer);
    if (this._find.isOpen) this._find.refresh(conversation.messages, conversation.hasOlder);
    this._showTyping();
    this._scrolled();
  }

  _rowsNow() {
    const { conversation, head, profiles } = this;
    profiles.want(conversation, peopleIn(conversation.messages));
    return rowsOf({
      messages: conversation.messages, divider: this._divider, hasOlder: conversation.hasOlder || !this._isLoaded,
      start: startOf(head), isDirect: head.kind === 'direct', query: this._find.query, shownKey: this._shownKey,
      now_ms: this.client.now(), ownId: this.client.userId, personOf: (id) => profiles.of(id),
    });
  }

  /** Update pills, pages ahead and the read mark after each scroll and each change. */
  _scrolled() {
    const { conversation } = this;
    if (!conversation || !this._isLoaded) return;
    const isNow = this._list.isAtEnd && !conversation.hasNewer;
    conversation.follow = isNow;
    this._showPills(isNow);
    this._loadAhead();
    this._markRead(isNow);
  }

  _showPills(isNow) {
    const side = this._list.sideOf(UNREAD_KEY);
    if (side === 0) this._isDividerSeen = true;
    const isAbove = side === -1 || side === null;
    this._pills.show(isAbove && !this._isDividerSeen ? this._divider : null, isNow, this.conversation);
  }

  _loadAhead() {
    const { conversation, _view: view } = this;
    const ahead = view.clientHeight * SCREENS_AHEAD;
    if (!ahead || this._isBusy) return;
    const below = view.scrollHeight - view.clientHeight - view.scrollTop;
    if (conversation.hasOlder && view.scrollTop < ahead) this._load('loadOlder');
    else if (conversation.hasNewer && below < ahead) this._load('loadNewer');
  }

  async _load(way) {
    const { conversation } = this;
    if (this._isBusy) return;
    this._isBusy = true;
    const slow = setTimeout(() => { this._loading.hidden = false; }, 300);
    const found = await conversation[way](PAGE).catch(() => null);
    clearTimeout(slow);
    this._isBusy = false;
    this._loading.hidden = true;
    if (conversation !== this.conversation) return;
    if (found) this.render();
    else setTimeout(() => this._scrolled(), AGAIN_MS); // at the very top no scroll event would load it again
  }

  _showTyping() {
    const typists = this.conversation?.typing ?? [];
    if (typists.length) this.profiles.want(this.conversation, typists);
    const text = typingOf(typists.map((id) => this.profiles.nameOf(id)), 'group');
    this.head.refresh();
    this._typing.show(text);
  }

  // --- reading ---

  _markRead(isNow) {
    const { conversation } = this;
    const seq = this._lastSeq();
    if (!isNow || document.visibilityState !== 'visible' || seq <= this._markedSeq) return;
    const earlier = this._markedSeq;
    this._markedSeq = seq;
    if (conversation.unreadCount === 0 && conversation.readSeq >= seq) return;
    conversation.markRead().catch(() => {
      this._markedSeq = Math.min(this._markedSeq, earlier); // a later render tries again
    });
  }

  _lastSeq() {
    return this.conversation.messages.findLast((one) => one.seq !== null)?.seq ?? 0;
  }

  _seen() {
    if (!this.conversation || document.visibilityState !== 'visible') return;
    if (this._isLoaded && this.conversation.unreadCount) this._freeze();
    this.render();
  }

  _came(message) {
    if (this._isLoaded) this._spoken.add(message, this.profiles.nameOf(message.senderId));
    if (message.kind === 'member') this.head.reload();
    this._renderSoon();
  }

  async _jumpToUnread() {
    const { conversation, _divider: divider } = this;
    if (!this._list.has(UNREAD_KEY)) await this._jump(divider.seq);
    if (conversation === this.conversation) this._list.scrollToRow(UNREAD_KEY, 0.12);
    this._isDividerSeen = true;
    this._scrolled();
    this._view.focus({ preventScroll: true });
  }

  async _jumpToNow() {
    const { conversation } = this;
    if (conversation.hasNewer) await this._jump('newest');
    if (conversation !== this.conversation) return;
    this._list.scrollToEnd();
    this._scrolled();
  }

  async _jump(at) {
    const { conversation } = this;
    conversation.follow = at === 'newest';
    this._isBusy = true;
    this._loading.hidden = false;
    await conversation.jumpTo(at, { limit: PAGE }).catch((error) => this.tell(error));
    this._isBusy = false;
    this._loading.hidden = true;
    if (conversation === this.conversation) this.render();
  }

  _show(key) {
    this._shownKey = key;
    this.render();
    this._list.scrollToRow(key, 0.4);
    clearTimeout(this._shownTimer);
    this._shownTimer = setTimeout(() => {
      this._shownKey = null;
      this.render();
    }, SHOWN_MS);
  }

  find() {
    this._find.open();
  }

  // --- writing ---

  async _send(text) {
    const { conversation } = this;
    this._divider = null;
    this.tell(null);
    conversation.send(text).catch((error) => {
      if (error.code === 'outbox_full') this._giveBack(text, error); // otherwise its row shows the outcome
    });
    await this._jumpToNow();
  }

  _giveBack(text, error) {
    this.composer.giveBack(text);
    this.tell(error);
  }

  _edit(message, text) {
    this.conversation.edit(message.seq, text).catch((error) => this.tell(error));
  }

  _editLast() {
    const isEditable = (one) => one.mine && one.seq !== null && !one.deleted && one.kind === 'message';
    const last = this.conversation.messages.findLast(isEditable);
    if (last) this.composer.edit(last);
  }

  /** Show an error above the composer; null removes it. */
  tell(error) {
    this._alert.hidden = !error;
    setText(this._alert, error ? sentenceOf(error) : '');
  }

  // --- keys ---

  /** Close the search or the edit. Returns whether there was one. */
  escape() {
    if (this._find.isOpen) this._find.close();
    else if (!this.composer.stopEditing()) return false;
    return true;
  }

  /** Arrows move between messages once one of them has the focus; Enter opens its menu. */
  _key(event) {
    const row = event.target.closest('.message');
    const isArrow = (event.key === 'ArrowUp' || event.key === 'ArrowDown') && !event.altKey;
    if (event.key === 'Enter' && row === event.target) row.querySelector('.message-more').click();
    else if (isArrow) this._step(row, event.key === 'ArrowUp');
    else if (event.key === 'End' && !row) this._jumpToNow();
    else return;
    event.preventDefault();
  }

  _step(row, isUp) {
    const drawn = [...this._messages.querySelectorAll('.message')];
    const { bottom } = this._view.getBoundingClientRect();
    const shown = drawn.filter((one) => one.getBoundingClientRect().top < bottom - 20);
    const next = row ? drawn[drawn.indexOf(row) + (isUp ? -1 : 1)] : shown.at(-1);
    if (!next) return;
    this._list.reveal(next.dataset.key);
    next.focus({ preventScroll: true });
  }
}
