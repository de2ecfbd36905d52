// The field for a new message: Enter sends, Shift+Enter is a new line, ArrowUp in an empty field edits the last own
// message. A draft is kept per conversation, also over a reload.

import { round } from './controls.js';
import { el } from './dom.js';
import { icon } from './icons.js';

const TEXT_BYTES_MAX = 16_384; // the server's limit
const HEIGHT_PX_MAX = 176;
const encoder = new TextEncoder();

export class Composer {
  /** @param on { send(text), edit(message, text), editLast(), typed() } */
  constructor(on) {
    this.on = on;
    this._draftKey = null;
    this._unkept = new Map(); // drafts that storage refuses; they last as long as the page
    this._edited = null;
    this._note = el('p.composer-note', { role: 'alert', hidden: true });
    this._editText = el('span');
    this._editBar = el('div.editing', { hidden: true }, icon('pencil'), this._editText,
      round('Stop editing', 'close', () => this.stopEditing()));
    this.field = el('textarea', {
      rows: 1, placeholder: 'Message', 'aria-label': 'Message', dir: 'auto', autocomplete: 'off', enterkeyhint: 'send',
      oninput: () => this._typed(), onkeydown: (event) => this._key(event),
    });
    this._button = el('button.send', { type: 'submit', 'aria-label': 'Send', disabled: true }, icon('send'));
    const form = el('form.composer', { onsubmit: (event) => this._submit(event) }, this.field, this._button);
    this.element = el('div', null, this._editBar, this._note, form);
  }

  /** Show the draft of another conversation. */
  use(draftKey) {
    this.stopEditing();
    this._draftKey = draftKey;
    this._fill(this._stored());
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  edit(message) {
    this._edited = message;
    this._editBar.hidden = false;
    this._editText.textContent = 'Editing a message';
    this._fill(message.text ?? '');
    this.focus();
  }

  stopEditing() {
    if (this._edited === null) return false;
    this._edited = null;
    this._editBar.hidden = true;
    this._fill(this._stored());
    return true;
  }

  get isEditing() {
    return this._edited !== null;
  }

  _fill(text) {
    this.field.value = text;
    this._fit();
  }

  _typed() {
    this._fit();
    if (this._edited !== null) return;
    this._store(this.field.value);
    if (this.field.value.trim()) this.on.typed();
  }

  _fit() {
    const isLong = encoder.encode(this.field.value).length > TEXT_BYTES_MAX;
    this._button.disabled = isLong || !this.field.value.trim();
    this._complain(isLong ? 'This is longer than one message may be (16 KiB).' : '');
    this.field.style.height = 'auto';
    this.field.style.height = `${Math.min(HEIGHT_PX_MAX, this.field.scrollHeight + 2)}px`;
    this.field.style.overflowY = this.field.scrollHeight > HEIGHT_PX_MAX ? 'auto' : 'hidden';
  }

  _complain(text) {
    this._note.hidden = !text;
    if (this._note.textContent !== text) this._note.textContent = text;
  }

  _key(event) {
    if (event.isComposing) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey) this._submit(event);
    else if (event.key === 'ArrowUp' && !event.altKey && this.field.value === '') this.on.editLast();
  }

  _submit(event) {
    event.preventDefault();
    const text = this.field.value.trim();
    if (!text || !this._note.hidden) return;
    const edited = this._edited;
    if (edited === null) this._take(text);
    else if (text !== edited.text) this.on.edit(edited, text);
    this.stopEditing(); // the earlier draft comes back
    this.focus();
  }

  _take(text) {
    this._store('');
    this._fill('');
    this.on.send(text);
  }

  /** Put back a text that could not be sent. */
  giveBack(text) {
    const later = this.field.value;
    this._store(later ? `${text}\n${later}` : text);
    this._fill(this._stored());
  }

  _stored() {
    const unkept = this._unkept.get(this._draftKey);
    if (unkept !== undefined) return unkept;
    try {
      return localStorage.getItem(this._draftKey) ?? '';
    } catch {
      return '';
    }
  }

  _store(text) {
    this._unkept.delete(this._draftKey);
    try {
      if (text) localStorage.setItem(this._draftKey, text);
      else localStorage.removeItem(this._draftKey);
    } catch {
      if (text) this._unkept.set(this._draftKey, text);
    }
  }
}
