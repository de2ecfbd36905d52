// The field for a new message: Enter sends, Shift+Enter is a new line, ArrowUp in an empty field edits the last own
// message. A draft is kept per conversation, also over a reload. A bar above it says what is edited or answered.

import { round } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { withEmoji } from './emojis.js';
import { openEmoji } from './emojipicker.js';
import { Suggestions } from './suggest.js';

const TEXT_BYTES_MAX = 16_384; // the server's limit
const HEIGHT_PX_MAX = 176;
const encoder = new TextEncoder();

export class Composer {
  /** @param on { send(text, replyTo, data), edit(message, text), editLast(), typed(), people(), isGroup(), lineOf(message), label } */
  constructor(on) {
    this.on = on;
    this.drafts = null;
    this._edited = null;
    this._answered = null;
    this._note = el('p.composer-note', { role: 'alert', hidden: true });
    this._barTitle = el('strong', { dir: 'auto' });
    this._barLine = el('span', { dir: 'auto' });
    this._barIcon = el('span.bar-icon');
    this._bar = el('div.editing', { hidden: true }, this._barIcon, el('div.bar-words', null, this._barTitle, this._barLine),
      round(t('stopThis'), 'close', () => this.escape()));
    this.field = el('textarea', {
      rows: 1, placeholder: on.label ?? t('message'), 'aria-label': on.label ?? t('message'), dir: 'auto', autocomplete: 'off', enterkeyhint: 'send',
      oninput: () => this._typed(), onkeydown: (event) => this._key(event), onblur: () => this.suggestions.close(),
    });
    this.suggestions = new Suggestions(this.field, () => on.people(), () => on.isGroup());
    const emoji = round(t('emoji'), 'smile', () => openEmoji(emoji, (sign) => this.insert(sign)), { 'aria-haspopup': 'dialog' });
    this._button = el('button.send', { type: 'submit', 'aria-label': t('send'), title: t('send'), disabled: true }, icon('send'));
    this.tools = el('div.composer-tools', null, emoji);
    this._box = el('div.composer-box', null, this.field, this.tools);
    this._form = el('form.composer', { onsubmit: (event) => this._submit(event) }, this._box, this._button);
    this.above = el('div.composer-above');
    this.element = el('div.composer-place', null, this.suggestions.element, this._bar, this._note, this.above, this._form);
  }

  /** A button that stands in the place of the send button while there is nothing to send. */
  offer(button) {
    button.classList.add('offer');
    this._form.append(button);
  }

  /** Show the draft of another conversation. `drafts` is { read(), write(text) }. */
  use(drafts) {
    this.escape();
    this.drafts = drafts;
    this._fill(drafts.read());
  }

  /** Show a draft that another device wrote. */
  refresh() {
    if (this._edited === null) this._fill(this.drafts.read());
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  /** Insert a text at the caret. */
  insert(text) {
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, 'end');
    this._typed();
    this.focus();
  }

  edit(message) {
    this._answered = null;
    this._edited = message;
    this._showBar('pencil', t('editing'), this.on.lineOf(message));
    this._fill(message.text ?? '');
    this.focus();
  }

  /** Answer a message: it is quoted above the text. */
  answer(message, name) {
    if (this._edited !== null) this.escape();
    this._answered = message;
    this._showBar('reply', t('answering', { name }), this.on.lineOf(message));
    this.focus();
  }

  _showBar(picture, title, line) {
    this._barIcon.replaceChildren(icon(picture));
    this._barTitle.textContent = title;
    this._barLine.textContent = line;
    this._bar.hidden = false;
  }

  /** Stop editing or answering. Returns whether there was something to stop. */
  escape() {
    if (this._edited === null && this._answered === null) return false;
    const wasEdited = this._edited !== null;
    this._edited = this._answered = null;
    this._bar.hidden = true;
    if (wasEdited) this._fill(this.drafts.read());
    return true;
  }

  get isEditing() {
    return this._edited !== null;
  }

  _fill(text) {
    this.field.value = text;
    this.refit();
  }

  _typed() {
    this.refit();
    this.suggestions.look();
    if (this._edited !== null) return;
    this.drafts.write(this.field.value);
    if (this.field.value.trim()) this.on.typed();
  }

  /** Whether there is something to send besides a text: files. */
  get hasMore() {
    return this.on.hasFiles?.() ?? false;
  }

  refit() {
    const isLong = encoder.encode(this.field.value).length > TEXT_BYTES_MAX;
    this._button.disabled = isLong || (!this.field.value.trim() && !this.hasMore);
    this._complain(isLong ? t('textTooLong') : '');
    this.field.style.height = 'auto';
    this.field.style.height = `${Math.min(HEIGHT_PX_MAX, this.field.scrollHeight)}px`;
    this.field.style.overflowY = this.field.scrollHeight > HEIGHT_PX_MAX ? 'auto' : 'hidden';
  }

  _complain(text) {
    this._note.hidden = !text;
    if (this._note.textContent !== text) this._note.textContent = text;
  }

  _key(event) {
    if (event.isComposing || this.suggestions.key(event)) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey) this._submit(event);
    else if (event.key === 'ArrowUp' && !event.altKey && this.field.value === '') this.on.editLast();
  }

  _submit(event) {
    event.preventDefault();
    const text = withEmoji(this.field.value.trim());
    if ((!text && !this.hasMore) || !this._note.hidden) return;
    const edited = this._edited;
    if (edited === null) this._take(text);
    else if (text && text !== edited.text) this.on.edit(edited, text);
    this.escape(); // the earlier draft comes back
    this.focus();
  }

  _take(text) {
    const replyTo = this._answered?.seq;
    this.drafts.write('');
    this._fill('');
    this.on.send(text, replyTo);
  }

  /** Send what was not typed, as an answer where one was begun. The text that was begun stays. */
  sendAs(text, data) {
    const replyTo = this._answered?.seq;
    this.escape();
    this.on.send(text, replyTo, data);
  }

  /** Put back a text that could not be sent. */
  giveBack(text) {
    const later = this.field.value;
    this.drafts.write(later ? `${text}\n${later}` : text);
    this._fill(this.drafts.read());
  }
}
