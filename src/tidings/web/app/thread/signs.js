// Two lines of a conversation that follow its events: who types, and new messages for a screen reader.

import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';

const SPOKEN_MAX = 5; // lines kept for a screen reader

export const dots = () => el('span.typing-dots', { 'aria-hidden': 'true' }, el('i'), el('i'), el('i'));

export class TypingLine {
  constructor() {
    this.element = el('div.typing', { 'aria-hidden': 'true' });
  }

  show(text) {
    if (this.element.dataset.text === text) return;
    this.element.dataset.text = text;
    this.element.replaceChildren(...(text ? [dots(), el('span', { dir: 'auto' }, text)] : []));
  }
}

/** The live region of new messages. It speaks only messages after the seq of `begin`. */
export class SpokenLog {
  constructor() {
    this.element = el('div.quiet', { role: 'log', 'aria-live': 'polite', 'aria-label': t('newMessagesLabel') });
    this._seq = 0;
  }

  begin(seq) {
    this._seq = seq;
  }

  add(message, name) {
    if (message.mine || message.kind !== 'message' || !message.text || message.seq <= this._seq) return;
    this.element.append(el('p', null, `${name}: ${message.text}`));
    while (this.element.children.length > SPOKEN_MAX) this.element.firstElementChild.remove();
  }

  clear() {
    this.element.replaceChildren();
  }
}
