// A conversation on the screen. Pages are loaded two screens ahead in both directions, and the reader's place is kept.
// reading.js decides what counts as read, and where the conversation opens.

import { sentenceOf } from '../parts/dialogs.js';
import { el, perFrame, setText } from '../parts/dom.js';
import { typingOf } from '../parts/format.js';
import { logo } from '../parts/icons.js';
import { VirtualList } from '../parts/virtual.js';
import { t } from '../parts/words.js';
import { FileViews } from '../files/show.js';
import { openEmoji } from '../writing/emojipicker.js';
import { conversationMenu, members, messageMenu, receipts, retry } from './actions.js';
import { FindBar } from './find.js';
import { FloatingDay } from './floating.js';
import { ThreadHead } from './head.js';
import { drawRow } from './message.js';
import { listenToKeys } from './keys.js';
import { castVote } from './poll.js';
import { PinBar } from './pins.js';
import { Quotes } from './quotes.js';
import { Reading } from './reading.js';
import { isHere, Summaries } from './replies.js';
import { requestBar } from './request.js';
import { heightOf, peopleIn, rowsOf, startOf } from './rows.js';
import { Sending } from './sending.js';
import { SidePane } from './side.js';
import { SpokenLog, TypingLine } from './signs.js';
import { listenToTouch } from './touch.js';

const PAGE = 50;
const SCREENS_AHEAD = 2;
const AGAIN_MS = 2000; // the pause before a page that failed is loaded again

export class ThreadPane {
  /** @param on { leave(), write(userId), sideToggled(isOpen), drafts, saved } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this.conversation = null;
    this.isLoaded = false;
    this._isBusy = false;
    this.wholeKeys = new Set();
    this._offs = [];
    this._renderSoon = perFrame(() => this.render());
    this._quotes = new Quotes(() => this._renderSoon());
    this.files = new FileViews(client);
    this._summaries = new Summaries();
    this._build();
    client.on('state', ({ state }) => (state === 'connected' ? this._connected() : this.head.refresh()));
    client.on('presence', () => this.head.refresh());
    profiles.onChange(() => (this._renderSoon(), this.pins.draw()));
    document.addEventListener('visibilitychange', () => this._seen());
  }

  _build() {
    this.head = new ThreadHead(this.client, this.profiles, {
      back: () => this.leave(), find: () => this.find(), members: () => members(this),
      menu: (button) => conversationMenu(this, button), changed: () => this._renderSoon(),
    });
    this.sending = new Sending(this);
    this.composer = this.sending.composer;
    this._find = new FindBar({
      changed: () => this.render(), show: (seq) => this.reading.jumpToSeq(seq), older: () => this._load('loadOlder'),
      closed: () => this.composer.focus(),
      search: (query, cursor, limit) => this.client.search(query, { conversationId: this.conversation.id, cursor, limit }),
    });
    this._messages = el('ol.messages');
    const facts = { tabindex: 0, role: 'region', 'aria-label': t('messages') };
    this._view = el('div.thread-view', facts, this._messages);
    this._typing = new TypingLine();
    this._spoken = new SpokenLog();
    this._alert = el('p.composer-note', { role: 'alert', hidden: true });
    this._request = el('div.request-place');
    this._list = new VirtualList(this._view, this._messages, {
      sticksToEnd: true,
      estimate: (row) => heightOf(row, this._view.clientWidth),
      draw: (element, row) => drawRow(element, row, this.drawing()),
      onScroll: () => this.scrolled(),
    });
    this.reading = new Reading(this, this._list, this._view);
    this.pins = new PinBar(this);
    this._day = new FloatingDay(this._view, this._list);
    listenToKeys({ view: this._view, messages: this._messages, list: this._list, end: () => this.reading.jumpToNow() });
    listenToTouch(this._view);
    this._open = el('div.thread-open', { hidden: true }, this.head.element, this.pins.element, this._find.element, this._stage(),
      el('div.below', null, this._typing.element, this._alert, this._request, this.composer.element), this._spoken.element);
    this._closed = el('div.thread-empty', null, logo(), el('h2', null, t('yourConversations')), el('p', null, t('chooseOrStart')));
    this._missing = el('div.thread-missing', { hidden: true, role: 'alert' }, el('h2', null, t('nothingToSee')),
      el('p', null, t('nothingToSeeHint')),
      el('button.plain', { type: 'button', onclick: () => this.leave() }, t('backToConversations')));
    const place = { id: 'thread', tabindex: -1, 'aria-label': t('conversation') };
    this.element = el('section.thread', place, this._open, this._closed, this._missing);
    this.sending.listen(this._open);
    this.side = new SidePane(this, (isOpen) => this.on.sideToggled(isOpen));
  }

  drawing() {
    this._rowActions ??= {
      receipts: (message) => receipts(this, message),
      retry: (message) => retry(this, message),
      menu: (button, message) => messageMenu(this, button, message),
      reply: (message) => this.reply(message),
      mayReact: () => 'react' in this.conversation,
      react: (message, key, isOn) => this.react(message, key, isOn),
      vote: (...said) => castVote(this.conversation, ...said).catch((error) => this.tell(error)),
      pickReaction: (button, message) => openEmoji(button, (key) => this.react(message, key, true)),
      jump: (seq) => this.reading.jumpToSeq(seq),
      thread: (seq) => this.openThread(seq),
      expand: (message) => this._expand(message),
    };
    const files = (message) => this.files.draw(this.conversation, message);
    return { isDirect: this.head.kind === 'direct', ownId: this.client.userId, on: this._rowActions, files };
  }

  _stage() {
    this._loading = el('p.loading', { hidden: true, role: 'status' }, t('loadingMessages'));
    return el('div.thread-stage', null, this._view, this.reading.pills.unread, this._day.element, this._loading, this.reading.pills.now);
  }

  // --- opening and leaving ---

  async open(conversation) {
    if (conversation === this.conversation) return;
    this.close();
    this.conversation = conversation;
    this._quotes.use(conversation);
    this.pins.reset();
    this._open.hidden = false;
    this._closed.hidden = true;
    this.sending.use(this.on.drafts.for(conversation));
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
    this._offs.push(conversation.on('updated', ({ message, previous }) => this._grew(message, previous)));
    this._offs.push(conversation.on('entry', ({ entry }) => this._took(entry)));
    this._offs.push(conversation.on('thread', ({ threadSeq, unreadCount }) => this.read(conversation, threadSeq, unreadCount)));
    this._offs.push(conversation.on('typing', () => this._showTyping()));
    this._offs.push(conversation.on('waiting', () => this.sending.countDown()));
    this._offs.push(conversation.on('conversation', ({ change }) => this._changed(change)));
  }

  _took(entry) {
    this.pins.take(entry);
    this._summaries.take(entry);
    if (entry.threadSeq) this._renderSoon();
  }

  /** The replies of a thread were read, or counted. */
  read(conversation, threadSeq, unreadCount = 0) {
    if (conversation !== this.conversation) return;
    this._summaries.count(threadSeq, unreadCount);
    this._renderSoon();
  }

  openThread(rootSeq) {
    this.side.open(this.conversation, rootSeq);
  }

  quoteOf(seq) {
    return this._quotes.of(seq);
  }

  _changed(change) {
    if (change === 'removed') this.leave();
    else this.head.reload();
  }

  async _loadFirst() {
    const { conversation } = this;
    this.isLoaded = false;
    this.render();
    this._loading.hidden = false;
    try {
      await conversation.open({ at: conversation.unreadCount ? 'first_unread' : 'newest', limit: PAGE });
      if (conversation !== this.conversation) return;
      this.isLoaded = true;
      this._spoken.begin(this.lastSeq());
      this.pins.load();
    } catch (error) {
      if (conversation === this.conversation) this._refused(error);
    }
    if (conversation !== this.conversation) return;
    this._loading.hidden = true;
    if (this.isLoaded) this.reading.begin();
    this.render();
  }

  close() {
    for (const off of this._offs) off();
    this._offs = [];
    this.side.close();
    this._summaries.clear();
    this.sending.close();
    this.conversation?.stopTyping();
    this.conversation?.close();
    this.conversation = this.head.conversation = null;
    this.isLoaded = false;
    this.wholeKeys.clear();
    this._find.close();
    this._list.reset();
    this._day.hide();
    this._spoken.clear();
    this.tell(null);
    this.reading.reset();
    this._request.replaceChildren();
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
    if (!this.isLoaded) await this._loadFirst();
    this.head.reload();
    this.render();
  }

  // --- drawing ---

  render() {
    const { conversation } = this;
    if (!conversation) return;
    const rows = this.isLoaded || conversation.messages.length ? this._rowsNow() : [];
    this._list.setRows(rows, conversation.hasNewer);
    if (this._find.isOpen) this._find.refresh(conversation.messages, conversation.hasOlder);
    this.composer.suggestions.again();
    this._showTyping();
    this._showRequest();
    this.scrolled();
  }

  _rowsNow() {
    const { conversation, head, profiles, reading } = this;
    profiles.want(conversation, peopleIn(conversation.messages));
    return rowsOf({
      messages: conversation.messages.filter(isHere), threadOf: (one) => this._summaries.of(one), divider: reading.divider, hasOlder: conversation.hasOlder || !this.isLoaded,
      start: startOf(head), isDirect: head.kind === 'direct', query: this._find.query, shownKey: reading.shownKey,
      now_ms: this.client.now(), ownId: this.client.userId, personOf: (id) => profiles.of(id), named: (text) => profiles.named(text),
      quoteOf: (seq) => this.quoteOf(seq), wholeKeys: this.wholeKeys, waits_s: this.sending.waits_s(),
      isSaved: (seq) => seq !== null && this.on.saved.has(conversation.id, seq),
    });
  }

  /** A conversation that waits for an answer of the user shows the question in place of the composer. */
  _showRequest() {
    const { conversation } = this;
    const isAsked = Boolean(conversation.requested || conversation.invited);
    this.composer.element.hidden = Boolean(conversation.invited);
    if (isAsked === Boolean(this._request.firstChild)) return;
    this._request.replaceChildren(...(isAsked ? [requestBar(this)] : []));
  }

  /** Update pills, pages ahead and the read mark after each scroll and each change. */
  scrolled() {
    const { conversation } = this;
    if (!conversation || !this.isLoaded) return;
    conversation.follow = this.reading.look();
    this._loadAhead();
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
    else setTimeout(() => this.scrolled(), AGAIN_MS); // at the very top no scroll event would load it again
  }

  /** A jump loads another part: no page is loaded meanwhile. */
  wait(isOn) {
    this._isBusy = isOn;
    this._loading.hidden = !isOn;
  }

  _expand(message) {
    this.wholeKeys.add(message.key);
    this.render();
  }

  _showTyping() {
    const typists = this.conversation?.typing ?? [];
    if (typists.length) this.profiles.want(this.conversation, typists);
    const text = typingOf(typists.map((id) => this.profiles.nameOf(id)), 'group');
    this.head.refresh();
    this._typing.show(text);
  }

  /** The other member of a direct conversation, where it is known. */
  otherId() {
    return this.head.others()[0] ?? null;
  }

  // --- reading ---

  lastSeq() {
    return this.conversation.messages.findLast((one) => one.seq !== null)?.seq ?? 0;
  }

  _seen() {
    if (!this.conversation || document.visibilityState !== 'visible') return;
    if (this.isLoaded && this.conversation.unreadCount) this.reading.freeze();
    this.render();
  }

  _came(message) {
    if (this.isLoaded && message.stream !== 'streaming' && isHere(message)) this._spoken.add(message, this.profiles.nameOf(message.senderId));
    if (message.kind === 'member') this.head.reload();
    this._renderSoon();
  }

  /** A message that is read while it is written is never cut, and is spoken once it is whole. */
  _grew(message, previous) {
    if (previous.stream !== 'streaming') return;
    this.wholeKeys.add(message.key);
    if (message.stream !== 'streaming' && this.isLoaded) this._spoken.add(message, this.profiles.nameOf(message.senderId));
  }

  find() {
    this._find.open();
  }

  // --- writing ---

  reply(message) {
    this.sending.reply(message);
  }

  react(message, key, isOn) {
    this.conversation.react(message.seq, key, isOn).catch((error) => this.tell(error));
  }

  /** Show an error above the composer; null removes it. */
  tell(error) {
    this._alert.hidden = !error;
    setText(this._alert, error ? sentenceOf(error) : '');
  }

  // --- keys ---

  /** Close the search, the edit or the answer. Returns whether there was one. */
  escape() {
    if (this._find.isOpen) this._find.close();
    else if (this.side.escape()) return true;
    else if (!this.composer.escape()) return false;
    return true;
  }
}
