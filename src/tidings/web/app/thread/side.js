// A thread beside its conversation: the root, its replies, and a composer of its own. On a narrow screen it stands in
// place of the conversation.

import { Attachments, listenToDrops } from '../files/attach.js';
import { round } from '../parts/controls.js';
import { sentenceOf } from '../parts/dialogs.js';
import { el, perFrame, setText } from '../parts/dom.js';
import { countOf } from '../parts/format.js';
import { VirtualList } from '../parts/virtual.js';
import { t } from '../parts/words.js';
import { Composer } from '../writing/composer.js';
import { mentionsIn } from '../writing/suggest.js';
import { messageMenu, retry } from './actions.js';
import { listenToKeys } from './keys.js';
import { drawRow } from './message.js';
import { lineOf } from './quotes.js';
import { Replies } from './replies.js';
import { heightOf, peopleIn, rowsOf } from './rows.js';
import { listenToTouch } from './touch.js';

const MARK_MS = 250;

export class SidePane {
  /** @param thread the pane of the conversation: { client, profiles, head, on, drawing(), quoteOf(seq), wholeKeys }; on { toggled(isOpen) } */
  constructor(thread, toggled) {
    Object.assign(this, { thread, client: thread.client, profiles: thread.profiles, on: thread.on, toggled });
    this.replies = null;
    this.conversation = null;
    this._texts = new Map(); // what was begun, by thread
    this._renderSoon = perFrame(() => this.render());
    this._build();
    this.profiles.onChange(this._renderSoon);
    document.addEventListener('visibilitychange', () => this._mark());
  }

  _build() {
    this._where = el('p.thread-state', { dir: 'auto' });
    this._follow = el('button.plain.follow', { type: 'button', onclick: () => this._toggleFollow() });
    this._earlier = el('button.plain.earlier', { type: 'button', hidden: true, onclick: () => this._older() }, t('showEarlier'));
    this._rows = el('ol.messages');
    this._view = el('div.thread-view', { tabindex: 0, role: 'region', 'aria-label': t('replies') }, this._earlier, this._rows);
    this._alert = el('p.composer-note', { role: 'alert', hidden: true });
    this._also = el('input', { type: 'checkbox', id: 'also-here' });
    this.attachments = new Attachments(this.client, {
      changed: () => this.composer?.refit(), tell: (error) => this.tell(error), conversation: () => this.conversation,
    });
    this.composer = new Composer({
      label: t('replyInThread'), send: (...said) => this._send(...said), lineOf,
      edit: (message, text) => this.conversation.edit(message.seq, text).catch((error) => this.tell(error)),
      editLast: () => {}, typed: () => {}, isGroup: () => this.head.kind !== 'direct',
      people: () => this.head.others().map((id) => this.profiles.of(id)), hasFiles: () => !this.attachments.isEmpty,
    });
    this.attachments.joinTo(this.composer);
    const close = round(t('closeThread'), 'close', () => this.close());
    this.element = el('aside.side', { 'aria-label': t('thread'), hidden: true },
      el('header.thread-head', null, el('div.side-title', null, el('h2', null, t('thread')), this._where), this._follow, close),
      el('div.thread-stage', null, this._view),
      el('div.below', null, this._alert, this.composer.element, el('label.check.also', { for: 'also-here' }, this._also, t('alsoToHere'))));
    listenToDrops(this.element, (files) => this.attachments.add(files));
    this._list = new VirtualList(this._view, this._rows, {
      sticksToEnd: true, estimate: (row) => heightOf(row, this._view.clientWidth),
      draw: (element, row) => drawRow(element, row, this._drawing()),
    });
    listenToKeys({ view: this._view, messages: this._rows, list: this._list, end: () => this._list.scrollToEnd() });
    listenToTouch(this._view);
  }

  get head() {
    return this.thread.head;
  }

  get files() {
    return this.thread.files;
  }

  get isOpen() {
    return !this.element.hidden;
  }

  // --- opening and closing ---

  async open(conversation, rootSeq) {
    this.close();
    const replies = new Replies(this.client, conversation, rootSeq);
    Object.assign(this, { conversation, replies });
    replies.changed = this._renderSoon;
    this._listen(conversation);
    this.element.hidden = false;
    this._also.checked = false;
    this.toggled(true);
    this.composer.use({ read: () => this._texts.get(rootSeq) ?? '', write: (text) => this._texts.set(rootSeq, text) });
    setText(this._where, this.head.title);
    this._list.scrollToEnd();
    this.render();
    if (matchMedia('(hover: hover)').matches) this.composer.focus();
    else this.element.querySelector('.round').focus();
    await replies.load().catch((error) => this.tell(error));
    if (replies === this.replies) this.render();
  }

  _listen(conversation) {
    const events = ['updated', 'window', 'message'];
    this._offs = events.map((event) => conversation.on(event, ({ message }) => {
      if (message?.threadSeq === this.replies.rootSeq || message?.seq === this.replies.rootSeq) this.replies.put(message);
      this._renderSoon();
    }));
    this._offs.push(conversation.on('entry', ({ entry }) => this.replies.take(entry) && this._renderSoon()));
  }

  close() {
    if (!this.isOpen) return;
    for (const off of this._offs) off();
    clearTimeout(this._timer);
    this._timer = null;
    this.attachments.clear();
    Object.assign(this, { conversation: null, replies: null, _marked: 0 });
    this._list.reset();
    this.tell(null);
    this.element.hidden = true;
    this.toggled(false);
  }

  /** Stop an edit or an answer, then close. Returns whether there was something. */
  escape() {
    if (!this.isOpen) return false;
    if (!this.composer.escape()) this.close();
    return true;
  }

  leave() {
    this.close();
  }

  // --- drawing ---

  _drawing() {
    const { on, ...rest } = this.thread.drawing();
    const own = {
      menu: (button, message) => messageMenu(this, button, message), reply: (message) => this.reply(message),
      retry: (message) => retry(this, message), jump: (seq) => this.thread.reading.jumpToSeq(seq),
      react: (message, key, isOn) => this.react(message, key, isOn),
    };
    return { ...rest, isDirect: false, on: { ...on, ...own } };
  }

  render() {
    const { replies, client, profiles } = this;
    if (!replies) return;
    const { messages } = replies;
    profiles.want(this.conversation, peopleIn(messages));
    const rows = rowsOf({
      messages, divider: null, hasOlder: true, start: null, isDirect: false, query: '', shownKey: null,
      now_ms: client.now(), ownId: client.userId, personOf: (id) => profiles.of(id), named: (text) => profiles.named(text),
      quoteOf: (seq) => this.thread.quoteOf(seq), wholeKeys: this.thread.wholeKeys, waits_s: null,
      isSaved: (seq) => seq !== null && this.on.saved.has(this.conversation.id, seq), threadOf: () => null, isSide: true,
    });
    this.composer.suggestions.again();
    this._earlier.hidden = !replies.hasOlder;
    this._list.setRows(this._divided(rows, messages));
    this._follow.setAttribute('aria-pressed', String(Boolean(replies.isFollowed)));
    setText(this._follow, replies.isFollowed ? t('unfollow') : t('follow'));
    this._mark();
  }

  /** A line below the root says how many replies there are. */
  _divided(rows, messages) {
    const count = messages.length - (this.replies.root ? 1 : 0);
    const at = rows.findIndex(({ key }) => key === this.replies.root?.key);
    if (at < 0 || !count || this.replies.hasOlder) return rows;
    const text = countOf(count, 'repliesCount');
    return rows.toSpliced(at + 1, 0, { key: 'replies', kind: 'note', value: text, mark: text, isLoose: true });
  }

  async _older() {
    const { replies } = this;
    await replies.loadOlder().catch((error) => this.tell(error));
    if (replies === this.replies) this.render();
  }

  _lastSeq() {
    return this.replies?.messages.findLast((one) => one.seq !== null)?.seq ?? 0;
  }

  /** What is open in view is read, soon: also what came while it waited. */
  _mark() {
    if (document.visibilityState !== 'visible' || this._lastSeq() <= (this._marked ?? 0)) return;
    this._timer ??= setTimeout(async () => {
      this._timer = null;
      if (!this.replies) return;
      const { conversation, replies } = this;
      const upToSeq = this._lastSeq();
      this._marked = upToSeq;
      await this.client.threads.markRead(conversation.id, replies.rootSeq, { upToSeq }).catch(() => {
        this._marked = 0; // the next drawing tries again
      });
      this.thread.read(conversation, replies.rootSeq);
    }, MARK_MS);
  }

  // --- writing ---

  async _send(text, replyTo, data) {
    const { conversation, replies, head } = this;
    this.tell(null);
    const place = { threadSeq: replies.rootSeq, alsoHere: this._also.checked };
    this._also.checked = false;
    replies.isFollowed = true; // who writes in a thread follows it
    const mentions = mentionsIn(text, head.others(), head.kind !== 'direct');
    await this.attachments.send(conversation, text, { replyTo, data, ...place, ...mentions }, (error) => {
      if (replies === this.replies && !data) this.composer.giveBack(text);
      this.tell(error);
    });
    if (replies !== this.replies) return;
    this._list.scrollToEnd();
    this.render();
  }

  async _toggleFollow() {
    const { conversation, replies, client } = this;
    const wanted = !replies.isFollowed;
    try {
      await client.threads[wanted ? 'follow' : 'unfollow'](conversation.id, replies.rootSeq);
      replies.isFollowed = wanted;
      this.render();
    } catch (error) {
      this.tell(error);
    }
  }

  reply(message) {
    this.composer.answer(message, message.mine ? t('you') : this.profiles.nameOf(message.senderId));
  }

  react(message, key, isOn) {
    this.conversation.react(message.seq, key, isOn).catch((error) => this.tell(error));
  }

  tell(error) {
    this._alert.hidden = !error;
    setText(this._alert, error ? sentenceOf(error) : '');
  }
}
