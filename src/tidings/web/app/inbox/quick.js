// Go to a conversation, a person or a message by a few letters: Ctrl+K, or the search field above the inbox. Conversations
// come first, then people without one, then messages that contain the words.

import { avatarOf } from '../parts/avatar.js';
import { openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { folded, shortWhen } from '../parts/format.js';
import { marked, withoutSigns } from '../parts/text.js';
import { t } from '../parts/words.js';
import { Rows } from './row.js';

const WAIT_MS = 150; // after the last key, before the server is asked
const SHOWN_MAX = 8;
const AGAIN_MS = 1500; // before the server is asked again, where it had not looked at everything
const TRIES_MAX = 8;
const NOTHING = { people: [], messages: [], cursor: null, isComplete: true };
const PAGE = 100;

export class QuickOpen {
  /** @param on { open(conversation, seq), write(userId) } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this._rows = new Rows(client, profiles, () => '');
  }

  open() {
    if (this._dialog?.open) return;
    this._forget();
    this._input = el('input', {
      type: 'text', role: 'combobox', 'aria-label': t('search'), placeholder: t('searchAll'), autocomplete: 'off', dir: 'auto',
      'aria-expanded': 'true', 'aria-controls': 'quick-list', 'aria-autocomplete': 'list',
      oninput: () => this._typed(), onkeydown: (event) => this._key(event),
    });
    this._list = el('div.quick-list', { id: 'quick-list', role: 'listbox', 'aria-label': t('results') });
    this._status = el('p.quiet', { role: 'status' });
    this._dialog = openDialog(t('search'), el('div', null, this._input), this._list, this._status);
    this._dialog.classList.add('quick');
    this._dialog.addEventListener('close', this.profiles.onChange(() => this._redraw()));
    this._found = NOTHING;
    this._isAsking = false;
    this._input.focus();
    this._draw();
    this._loadAll();
  }

  /** Load the rest of the inbox, so that every conversation can be found. */
  async _loadAll() {
    const { inbox } = this.client;
    while (this._dialog.open && inbox.loaded && inbox.hasMore) {
      const found = await inbox.loadMore(PAGE).catch(() => null);
      if (found === null) return;
      this._redraw();
    }
  }

  /** Answers to what was typed before are dropped. */
  _forget() {
    this._turn = {};
    clearTimeout(this._timer);
  }

  _typed() {
    this._forget();
    const text = this._input.value.trim();
    if (!text) this._found = NOTHING;
    this._isAsking = text !== '';
    this._draw();
    if (text) this._timer = setTimeout(() => this._ask(text), WAIT_MS);
  }

  /** Ask for people and messages, and again while the server has not looked at every message. */
  async _ask(text, tries = 0) {
    const turn = this._turn;
    const [people, page] = await Promise.all([
      this.profiles.search(text, SHOWN_MAX).catch(() => []), this._page(text, null),
    ]);
    if (turn !== this._turn || !this._dialog.open) return;
    this._found = { people, messages: page.hits, cursor: page.nextCursor, isComplete: page.complete };
    this._isAsking = false;
    this._redraw();
    if (!page.complete && tries < TRIES_MAX) this._timer = setTimeout(() => this._ask(text, tries + 1), AGAIN_MS);
  }

  /** A page of messages; none where the server has no search. */
  async _page(text, cursor) {
    const page = await this.client.search(text, { limit: SHOWN_MAX, cursor }).catch(() => null);
    for (const { conversationId, message } of page?.hits ?? []) {
      this.profiles.want(this.client.conversation(conversationId), [message.senderId]);
    }
    return page ?? { hits: [], nextCursor: null, complete: true };
  }

  async _more() {
    const turn = this._turn;
    const at = this._at;
    const page = await this._page(this._input.value.trim(), this._found.cursor);
    if (turn !== this._turn || !this._dialog.open) return;
    this._found = { ...this._found, messages: [...this._found.messages, ...page.hits], cursor: page.nextCursor };
    this._draw();
    this._mark(at); // the first of the new ones
  }

  // --- drawing ---

  _draw() {
    const text = this._input.value.trim();
    const conversations = this._conversations(folded(text)).map((one) => this._conversationRow(one, text));
    const known = new Set(this.client.inbox.conversations.map((one) => this.profiles.peerOf(one)));
    const people = this._found.people.filter(({ id }) => !known.has(id) && id !== this.client.userId);
    const groups = [
      ['conversations', conversations],
      ['people', people.map((one) => this._personRow(one, text))],
      ['messages', [...this._found.messages.map((hit) => this._hitRow(hit)), ...(this._found.cursor ? [this._moreRow()] : [])]],
    ];
    const shown = groups.filter(([, rows]) => rows.length);
    this._list.replaceChildren(...shown.map(([name, rows]) =>
      el('div', { role: 'group', 'aria-label': t(name) }, el('h3', { 'aria-hidden': 'true' }, t(name)), ...rows)));
    if (!this._found.isComplete) this._list.append(el('p.hint', null, t('searchGoesOn')));
    else if (!shown.length) this._list.append(el('p.hint', null, this._isAsking ? t('searchingOlder') : t('noMatch')));
    this._options = [...this._list.querySelectorAll('[role="option"]')];
    this._options.forEach((row, at) => { row.id = `quick-${at}`; });
    this._status.textContent = t('resultsCount', { count: this._options.length, n: this._options.length });
    this._mark(0);
  }

  /** Draw again, with the same choice. */
  _redraw() {
    const key = this._options[this._at]?.key;
    this._draw();
    this._mark(Math.max(0, this._options.findIndex((row) => row.key === key)));
  }

  _conversations(wanted) {
    const all = this.client.inbox.conversations.filter((one) => !one.removed);
    if (!wanted) return all.slice(0, SHOWN_MAX);
    const scored = all.map((one) => [one, scoreOf(folded(this._rows.titleOf(one)), wanted)]);
    return scored.filter(([, score]) => score > 0).sort((a, b) => b[1] - a[1]).slice(0, SHOWN_MAX).map(([one]) => one);
  }

  _conversationRow(one, text) {
    const name = this._rows.titleOf(one);
    const picture = avatarOf({ id: one.kind === 'direct' ? name : one.id, name, kind: one.kind ?? 'direct', url: one.avatarUrl, size: 'small' });
    const when = one.lastMessageTs ? el('span.row-when', null, shortWhen(one.lastMessageTs, this.client.now())) : null;
    return this._option([picture, el('strong', { dir: 'auto' }, ...marked(name, text.toLocaleLowerCase())), when], () => this.on.open(one), one.id);
  }

  _personRow({ id, name, url }, text) {
    const picture = avatarOf({ id: name, name, url, size: 'small' });
    return this._option([picture, el('strong', { dir: 'auto' }, ...marked(name, text.toLocaleLowerCase())),
      el('span.row-when', null, name === id ? '' : id)], () => this.on.write(id), id);
  }

  _hitRow({ conversationId, message, snippet }) {
    const conversation = this.client.conversation(conversationId);
    const who = message.senderId === this.client.userId ? t('youName') : this.profiles.nameOf(message.senderId);
    const title = this._rows.titleOf(conversation);
    const parts = (snippet ?? []).map(([text, isHit]) => (isHit ? el('mark', null, text) : this.profiles.named(withoutSigns(text))));
    return this._option([
      el('div.hit', null,
        el('div.row-line', null, el('strong', { dir: 'auto' }, who === title ? who : `${who} · ${title}`),
          el('span.row-when', null, shortWhen(message.sentAt, this.client.now()))),
        el('p', { dir: 'auto' }, ...parts)),
    ], () => this.on.open(conversation, message.seq), `${conversationId} ${message.seq}`);
  }

  _moreRow() {
    const row = this._option([el('strong.more-hits', null, t('moreResults'))], null, 'more');
    row.run = () => this._more();
    return row;
  }

  _option(children, run, key) {
    const row = el('div.quick-row', { role: 'option', onclick: () => row.run() }, ...children);
    row.key = key;
    row.run = () => {
      this._dialog.close();
      run();
    };
    return row;
  }

  // --- keys ---

  _mark(at) {
    this._at = at;
    this._options.forEach((row, place) => row.setAttribute('aria-selected', String(place === at)));
    const active = this._options[at];
    if (active) this._input.setAttribute('aria-activedescendant', active.id);
    else this._input.removeAttribute('aria-activedescendant');
    active?.scrollIntoView({ block: 'nearest' });
  }

  _key(event) {
    const { length } = this._options;
    if (event.key === 'ArrowDown' && length) this._mark((this._at + 1) % length);
    else if (event.key === 'ArrowUp' && length) this._mark((this._at - 1 + length) % length);
    else if (event.key === 'Enter') this._options[this._at]?.run();
    else return;
    event.preventDefault();
  }
}

/** How well a title matches: at its start, at the start of a word, anywhere; 0 for not at all. */
function scoreOf(title, wanted) {
  const at = title.indexOf(wanted);
  if (at < 0) return 0;
  if (at === 0) return 3;
  return /[\s._@-]/u.test(title[at - 1]) ? 2 : 1;
}
