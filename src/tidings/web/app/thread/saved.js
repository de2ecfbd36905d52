// Messages that the user saved: nobody else learns of them. The list is under the account's menu.

import { round } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { shortWhen } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { emptyList, listed } from '../parts/listed.js';
import { t } from '../parts/words.js';
import { Rows } from '../inbox/row.js';
import { lineOf } from './quotes.js';

const KNOWN_PAGES_MAX = 5; // pages read at the start, so that a message knows whether it is saved

const keyOf = (conversationId, seq) => `${conversationId} ${seq}`;

export class SavedMessages {
  /** @param on { open(conversation, seq), changed() } */
  constructor(client, profiles, on) {
    this.client = client;
    this.profiles = profiles;
    this.on = on;
    this._known = null;
    this._rows = new Rows(client, profiles, () => '');
    client.on('state', ({ state }) => state === 'connected' && this._known === null && this._load());
  }

  has(conversationId, seq) {
    return this._known?.has(keyOf(conversationId, seq)) ?? false;
  }

  async _load() {
    const known = new Set();
    try {
      for (let cursor = null, pages = 0; pages < KNOWN_PAGES_MAX; pages += 1) {
        const page = await this.client.saved.page(cursor);
        for (const { conversationId, message } of page.saved) known.add(keyOf(conversationId, message.seq));
        cursor = page.nextCursor;
        if (cursor === null) break;
      }
    } catch {
      return; // the next connection tries again
    }
    this._known = known;
    if (known.size) this.on.changed();
  }

  async put(conversationId, seq, isOn) {
    const { saved } = this.client;
    await (isOn ? saved.put(conversationId, seq) : saved.remove(conversationId, seq));
    this._known ??= new Set();
    this._known[isOn ? 'add' : 'delete'](keyOf(conversationId, seq));
    this.on.changed();
  }

  async show() {
    const fault = faultLine();
    const list = el('ul.message-list', { 'aria-label': t('savedMessages') });
    const more = el('button.plain', { type: 'button', hidden: true, onclick: () => fault.guard(load) }, t('showMore'));
    const place = el('div', { 'aria-busy': 'true' }, list);
    const dialog = openDialog(t('savedMessages'), fault.line, place, more);
    let cursor = null;
    const load = async () => {
      const page = await this.client.saved.page(cursor);
      cursor = page.nextCursor;
      list.append(...page.saved.map((one) => this._row(one, dialog, fault)));
      more.hidden = cursor === null;
      if (!list.firstChild && cursor === null) place.replaceChildren(emptyList(icon('bookmark'), t('nothingSaved'), t('nothingSavedHint')));
    };
    await fault.guard(load);
    place.removeAttribute('aria-busy');
    dialog.querySelector('.listed')?.focus();
  }

  _row({ conversationId, message }, dialog, fault) {
    const conversation = this.client.conversation(conversationId);
    const { userId } = this.client;
    const who = message.senderId === userId ? t('youName') : this.profiles.nameOf(message.senderId);
    const open = () => {
      dialog.close();
      this.on.open(conversation, message.seq);
    };
    const remove = () => fault.guard(async () => {
      await this.put(conversationId, message.seq, false);
      row.remove();
    });
    const row = listed({
      person: this.profiles.of(message.senderId), title: `${who} · ${this._rows.titleOf(conversation)}`,
      when: shortWhen(message.sentAt, this.client.now()), words: [this.profiles.named(lineOf(message))], run: open,
      action: round(t('unsave'), 'close', remove),
    });
    return row;
  }
}
