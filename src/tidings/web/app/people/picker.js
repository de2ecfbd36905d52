// A field to choose people: type a name or an id, choose from the list, chips show the choice. Only people who are known
// can be chosen by Enter. An id that nobody is known by needs a choice of its own and is marked, because a message to a
// wrong id reaches nobody.

import { personRow, round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { folded } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';

const ID = /^[A-Za-z0-9_.@|+:=~-]{1,128}$/u;
const WAIT_MS = 120; // after the last key
const SHOWN_MAX = 8;

export class PeopleField {
  /** @param options { id, label, isSingle, without: ids to leave out, picked(person) } */
  constructor(client, profiles, options) {
    this.client = client;
    this.profiles = profiles;
    this.options = { isSingle: false, without: () => [], picked: () => {}, ...options };
    this.chosen = []; // { id, name, url, isUnknown }
    this._found = [];
    this._at = -1;
    const { id } = options;
    this._label = el('label', { for: id }, options.label);
    this._chips = el('ul.chips', { 'aria-label': t('chosenPeople'), hidden: true });
    this._list = el('ul.options', { id: `${id}-list`, role: 'listbox', 'aria-label': t('people'), hidden: true });
    this._note = el('p.hint', { role: 'status', id: `${id}-note` });
    this.input = el('input', {
      id, type: 'text', role: 'combobox', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', dir: 'auto',
      'aria-expanded': 'false', 'aria-controls': `${id}-list`, 'aria-autocomplete': 'list', 'aria-describedby': `${id}-note`,
      placeholder: t('nameOrId'), oninput: () => this._typed(), onkeydown: (event) => this._key(event),
    });
    this.element = el('div.field.people-field', null, this._label, this._chips, this.input, this._list, this._note);
    this._search();
  }

  set label(text) {
    this._label.textContent = text;
  }

  set isSingle(isSingle) {
    this.options.isSingle = isSingle;
  }

  get ids() {
    return this.chosen.map((one) => one.id);
  }

  get isEmpty() {
    return !this.chosen.length;
  }

  clear() {
    this.chosen = [];
    this.input.value = '';
    this._drawChips();
    this._search();
  }

  focus() {
    this.input.focus();
  }

  /** Say why a text that is left cannot be used. Returns whether one is left. */
  complain() {
    const text = this.input.value.trim();
    const hidden = this._hidden();
    const isMeant = this._found.length && !hidden.has(text);
    if (text) this._note.textContent = isMeant ? t('chooseFromList') : this._nobody(text, hidden);
    return Boolean(text);
  }

  // --- searching ---

  _typed() {
    clearTimeout(this._timer);
    if (/[,;]/u.test(this.input.value)) return this._takeSeveral();
    this._timer = setTimeout(() => this._search(), WAIT_MS);
  }

  async _search() {
    const text = this.input.value.trim();
    const turn = (this._turn = (this._turn ?? 0) + 1);
    const found = await this.profiles.search(text, SHOWN_MAX).catch(() => []);
    if (turn !== this._turn) return;
    const hidden = this._hidden();
    const isExact = ({ id, name }) => id === text || folded(name) === folded(text);
    const shown = found.filter((one) => !hidden.has(one.id));
    this._found = [...shown.filter(isExact), ...shown.filter((one) => !isExact(one))].slice(0, SHOWN_MAX);
    this._at = text && this._found.length && !hidden.has(text) ? 0 : -1;
    this._drawList(text, hidden);
  }

  _drawList(text, hidden) {
    this._shownFor = text;
    const isExact = this._found.some((one) => one.id === text);
    const options = this._found.map((one, at) => this._option(one, at));
    if (ID.test(text) && !isExact && !hidden.has(text)) options.push(this._unknown(text, options.length));
    this._list.replaceChildren(...options);
    this._list.hidden = !options.length;
    this.input.setAttribute('aria-expanded', String(options.length > 0));
    this._note.textContent = text && (!this._found.length || hidden.has(text)) ? this._nobody(text, hidden) : this._about();
    this._mark();
  }

  /** People who cannot be chosen: the user, and those who are in it already. */
  _hidden() {
    return new Set([this.client.userId, ...this.ids, ...this.options.without()]);
  }

  _nobody(text, hidden) {
    if (text === this.client.userId) return t('thatIsYou');
    return hidden.has(text) ? t('alreadyIn') : t('nobodyCalled', { name: text });
  }

  _about() {
    return this.chosen.some((one) => one.isUnknown) ? t('unknownChosen') : '';
  }

  _option(person, at) {
    const row = personRow(person, { isOnline: person.isOnline, tag: 'li.person.option' });
    return this._bound(row, person, at);
  }

  _unknown(id, at) {
    const row = el('li.person.option.is-unknown', null, icon('user'),
      el('div.who', null, el('strong', null, t('useId', { id })), el('span', null, t('useIdHint'))));
    return this._bound(row, { id, name: id, url: null, isUnknown: true }, at);
  }

  _bound(row, person, at) {
    row.id = `${this.options.id}-${at}`;
    row.setAttribute('role', 'option');
    row.addEventListener('pointerdown', (event) => event.preventDefault()); // the field keeps the focus
    row.addEventListener('click', () => this._pick(person));
    row.pick = () => this._pick(person);
    return row;
  }

  _mark() {
    const rows = [...this._list.children];
    rows.forEach((row, at) => row.setAttribute('aria-selected', String(at === this._at)));
    const active = rows[this._at];
    if (active) this.input.setAttribute('aria-activedescendant', active.id);
    else this.input.removeAttribute('aria-activedescendant');
    active?.scrollIntoView({ block: 'nearest' });
  }

  // --- choosing ---

  _key(event) {
    const rows = this._list.children;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      if (rows.length) this._at = (this._at + step + rows.length) % rows.length;
      this._mark();
    } else if (event.key === 'Enter' && this.input.value.trim()) this._enter();
    else if (event.key === 'Backspace' && !this.input.value && this.chosen.length) this._drop(this.chosen.at(-1).id);
    else return;
    event.preventDefault();
  }

  /** Take the marked person. A quick typist presses Enter before the list is there, so it is asked for first. */
  async _enter() {
    clearTimeout(this._timer);
    const text = this.input.value.trim();
    if (this._at < 0 || this._shownFor !== text) await this._search();
    if (this._shownFor !== text) return; // something else was typed meanwhile
    const row = this._list.children[this._at];
    if (row) row.pick();
    else this.complain();
  }

  /** Take a pasted list of ids, with commas between them. */
  async _takeSeveral() {
    const words = this.input.value.split(/[,;]+/u).map((one) => one.trim()).filter(Boolean);
    this.input.value = '';
    for (const word of words) {
      const found = await this.profiles.search(word, SHOWN_MAX).catch(() => []);
      const exact = found.find((one) => one.id === word) ?? (found.length === 1 ? found[0] : null);
      if (exact) this._add(exact);
      else if (ID.test(word)) this._add({ id: word, name: word, url: null, isUnknown: true });
      else this.input.value = word;
    }
    this._search();
  }

  _pick(person) {
    this.input.value = '';
    if (this.options.isSingle) this.chosen = [];
    this._add(person);
    this._found = [];
    this._search();
    this.focus();
    this.options.picked(person);
  }

  _add(person) {
    if (person.id === this.client.userId || this.ids.includes(person.id)) return;
    this.chosen.push(person);
    this._drawChips();
  }

  _drop(id) {
    this.chosen = this.chosen.filter((one) => one.id !== id);
    this._drawChips();
    this._search();
    this.focus();
  }

  _drawChips() {
    this._chips.hidden = !this.chosen.length;
    this._chips.replaceChildren(...this.chosen.map(({ id, name, isUnknown }) =>
      el(isUnknown ? 'li.chip.is-unknown' : 'li.chip', { title: id }, el('span', { dir: 'auto' }, name),
        round(t('removeName', { name }), 'close', () => this._drop(id)))));
    this._note.textContent = this._about();
  }
}
