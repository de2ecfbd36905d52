// Small controls that several parts of the page use.

import { avatarOf } from './avatar.js';
import { el } from './dom.js';
import { icon } from './icons.js';
import { t } from './words.js';

/** A round button with an icon and a label for screen readers. */
export function round(label, name, run, more = null) {
  return el('button.round', { type: 'button', 'aria-label': label, title: label, onclick: run, ...more }, icon(name));
}

/** The own id with a button that copies it: people who write to a new person need it. */
export function ownId(id) {
  const copy = round(t('copyId'), 'copy', () => navigator.clipboard?.writeText(id).then(() => {
    copy.classList.add('is-done');
  }, () => {}));
  return el('p.own-id', null, `${t('yourId')} `, el('code', null, id), copy);
}

/** A button that floats over a list; hidden at first. */
export function pill(name, picture, text, run) {
  return el(`button.pill.${name}`, { type: 'button', hidden: true, onclick: run }, icon(picture), text);
}

/** A person in a list: picture, name, a note, and actions. Anybody may choose any name, so the id is shown too. */
export function personRow({ id, name, url }, { isOnline = false, facts = [], action = null, tag = 'li.person' } = {}) {
  const picture = avatarOf({ id: name, name, url, size: 'small' });
  if (isOnline) picture.append(el('span.dot'));
  const said = [name === id ? '' : id, ...facts].filter(Boolean).join(' · ');
  const who = el('div.who', null, el('strong', { dir: 'auto' }, name), said ? el('span', null, said) : null);
  return el(tag, null, picture, who, action);
}

/** A field with its label, and a hint below it. */
export function field(id, label, input, hint = null) {
  return el('div.field', null, el('label', { for: id }, label), input, hint ? el('p.hint', null, hint) : null);
}

/** A form whose button runs `run`; `fault` shows the error. */
export function formOf(run, ...children) {
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  return el('form.dialog-body', { onsubmit: submit, novalidate: true }, ...children);
}
