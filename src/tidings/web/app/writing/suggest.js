// The list above the composer while a word with @ or : is typed: people of the conversation, or emoji. Arrows move,
// Enter and Tab take, Escape closes.

import { avatarOf } from '../parts/avatar.js';
import { el } from '../parts/dom.js';
import { folded } from '../parts/format.js';
import { MENTION, namedIn } from '../parts/text.js';
import { t } from '../parts/words.js';
import { findEmoji } from './emojis.js';

const SHOWN_MAX = 6;
const NAMED = new RegExp(`(?<![\\p{L}\\p{N}])${MENTION}`, 'gu');
const WORD = /(?:^|[\s(])([@:])([\p{L}\p{N}_.+@-]{0,40})$/u;

export class Suggestions {
  /** @param people() -> [{ id, name, url }]; isGroup() -> whether everybody can be mentioned */
  constructor(field, people, isGroup) {
    this._field = field;
    this._people = people;
    this._isGroup = isGroup;
    this._items = [];
    this._at = 0;
    this.element = el('ul.suggestions', { role: 'listbox', id: 'suggestions', 'aria-label': t('suggestions'), hidden: true });
    field.setAttribute('aria-controls', 'suggestions');
    field.setAttribute('aria-autocomplete', 'list');
  }

  get isOpen() {
    return !this.element.hidden;
  }

  close() {
    this.element.hidden = true;
    this._field.removeAttribute('aria-activedescendant');
  }

  /** Look again where nothing was found: people are known later than the first keys. */
  again() {
    if (!this._items.length && document.activeElement === this._field) this.look();
  }

  /** Look at the word before the caret. */
  look() {
    const { value, selectionStart } = this._field;
    const found = WORD.exec(value.slice(0, selectionStart));
    this._items = found ? this._for(found[1], found[2]) : [];
    this._start = found ? selectionStart - found[2].length - 1 : 0;
    this._at = 0;
    this._draw();
  }

  _for(sign, text) {
    if (sign === ':') return text.length < 2 ? [] : findEmoji(text, SHOWN_MAX).map((one) => emojiItem(one));
    const wanted = folded(text);
    const all = this._isGroup() ? [{ id: 'all', name: t('mentionAll'), isWord: true }, { id: 'here', name: t('mentionHere'), isWord: true }] : [];
    const people = [...this._people(), ...all];
    return people.filter(({ id, name }) => folded(id).startsWith(wanted) || folded(name).split(/\s+/u).some((word) => word.startsWith(wanted)))
      .slice(0, SHOWN_MAX).map((one) => personItem(one));
  }

  _draw() {
    this.element.hidden = !this._items.length;
    this.element.replaceChildren(...this._items.map((item, at) => el('li.suggestion', {
      role: 'option', id: `suggestion-${at}`, 'aria-selected': String(at === this._at),
      onpointerdown: (event) => event.preventDefault(), onclick: () => this._take(item),
    }, ...item.nodes())));
    if (this._items.length) this._field.setAttribute('aria-activedescendant', `suggestion-${this._at}`);
    else this._field.removeAttribute('aria-activedescendant');
  }

  /** Handle a key of the field. Returns whether it was for the list. */
  key(event) {
    if (!this.isOpen) return false;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      this._at = (this._at + (event.key === 'ArrowDown' ? 1 : -1) + this._items.length) % this._items.length;
      this._draw();
    } else if (event.key === 'Enter' || event.key === 'Tab') this._take(this._items[this._at]);
    else if (event.key === 'Escape') this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  _take(item) {
    this._field.setRangeText(`${item.text} `, this._start, this._field.selectionStart, 'end');
    this.close();
    this._field.dispatchEvent(new Event('input', { bubbles: true }));
    this._field.focus();
  }
}

const emojiItem = ({ sign, codes }) => ({ text: sign, nodes: () => [el('span.emoji', null, sign), `:${codes[0]}:`] });

const personItem = ({ id, name, url, isWord }) => ({
  text: `@${id}`,
  nodes: () => [isWord ? el('span.emoji', null, '@') : avatarOf({ id: name, name, url, size: 'small' }),
    el('strong', { dir: 'auto' }, isWord ? `@${id}` : name), isWord || name !== id ? el('span', null, isWord ? name : id) : null],
});

/** The people whom a text mentions, of those who can be: `{ mentions: [ids], mention: 'all' | 'here' | undefined }`. */
export function mentionsIn(text, ids, isGroup) {
  const words = [...text.matchAll(NAMED)].map(([, word]) => word);
  const known = new Set(ids);
  const found = words.map((word) => namedIn(word, known)).filter(Boolean);
  const mention = isGroup ? ['all', 'here'].find((one) => words.includes(one)) : undefined;
  return { mentions: found.length ? [...new Set(found)] : undefined, mention };
}
