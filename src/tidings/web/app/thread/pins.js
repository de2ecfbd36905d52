// The pinned messages of a conversation: a bar below its head shows the latest one. A press goes to the message, and the
// next press to the one that was pinned before it.

import { round } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el, setText } from '../parts/dom.js';
import { shortWhen } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { listed } from '../parts/listed.js';
import { t } from '../parts/words.js';
import { lineOf } from './quotes.js';

const CHANGES = new Set(['pin', 'delete', 'edit']);

export class PinBar {
  /** @param thread { conversation, client, profiles, reading, tell(error) } */
  constructor(thread) {
    this.thread = thread;
    this._title = el('strong');
    this._line = el('span', { dir: 'auto' });
    const facts = el('span.pinbar-facts', null, this._title, this._line);
    const jump = el('button.pinbar-jump', { type: 'button', onclick: () => this._jump() }, icon('pin'), facts);
    this.element = el('section.pinbar', { 'aria-label': t('pinnedMessages'), hidden: true }, jump,
      round(t('allPinned'), 'list', () => this._showAll(), { 'aria-haspopup': 'dialog' }));
    this.reset();
  }

  reset() {
    this.pins = [];
    this._at = 0;
    this.draw();
  }

  /** Read the pins again when an entry has changed them. */
  take({ kind, targetSeq }) {
    const isOne = this.pins.some(({ message }) => message.seq === targetSeq);
    if (CHANGES.has(kind) && (kind === 'pin' || isOne)) this.load();
  }

  /** One after the other: an earlier answer never replaces a later one. */
  load() {
    return (this._loading = Promise.resolve(this._loading).then(() => this._read()));
  }

  async _read() {
    const { conversation, profiles } = this.thread;
    const pins = await conversation?.pins().catch(() => null); // without a connection the known ones stay
    if (!pins || conversation !== this.thread.conversation) return;
    if (pins[0]?.message.seq !== this.pins[0]?.message.seq) this._at = 0;
    this.pins = pins;
    profiles.want(conversation, pins.map(({ message }) => message.senderId));
    this.draw();
  }

  draw() {
    const { length } = this.pins;
    this.element.hidden = !length;
    if (!length) return;
    this._at %= length;
    const { message } = this.pins[this._at];
    setText(this._title, length > 1 ? t('pinnedOf', { at: this._at + 1, n: length }) : t('pinnedMessage'));
    setText(this._line, `${this._nameOf(message)}: ${this.thread.profiles.named(lineOf(message))}`);
  }

  _nameOf({ senderId }) {
    const { client, profiles } = this.thread;
    return senderId === client.userId ? t('youName') : profiles.nameOf(senderId);
  }

  async _jump() {
    const { seq } = this.pins[this._at].message;
    this._at += 1;
    this.draw();
    await this.thread.reading.jumpToSeq(seq);
  }

  _showAll() {
    const { conversation, client, profiles } = this.thread;
    const fault = faultLine();
    const list = el('ul.message-list', { 'aria-label': t('pinnedMessages') });
    const dialog = openDialog(t('pinnedMessages'), fault.line, list);
    const go = (seq) => {
      dialog.close();
      this.thread.reading.jumpToSeq(seq);
    };
    const unpin = (seq) => fault.guard(async () => {
      await conversation.pinMessage(seq, false);
      await this.load();
      if (this.pins.length) draw();
      else dialog.close();
    });
    const draw = () => list.replaceChildren(...this.pins.map(({ message }) => listed({
      person: profiles.of(message.senderId), title: this._nameOf(message), when: shortWhen(message.sentAt, client.now()),
      words: [profiles.named(lineOf(message))], run: () => go(message.seq),
      action: round(t('unpinMessage'), 'close', () => unpin(message.seq)),
    })));
    draw();
  }
}
