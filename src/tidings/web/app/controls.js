// Small controls that several parts of the page use.

import { avatarOf } from './avatar.js';
import { el } from './dom.js';
import { icon } from './icons.js';

/** A round button with an icon and a label for screen readers. */
export function round(label, name, run, more = null) {
  return el('button.round', { type: 'button', 'aria-label': label, title: label, onclick: run, ...more }, icon(name));
}

/** A button that floats over a list; hidden at first. */
export function pill(name, picture, text, run) {
  return el(`button.pill.${name}`, { type: 'button', hidden: true, onclick: run }, icon(picture), text);
}

/** A field for user ids. */
export function idField(id, more = null) {
  return el('input', { id, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true, ...more });
}

/** A person in a list: picture, name, a note, and actions. Anybody may choose any name, so the id is shown too. */
export function personRow({ id, name, url }, { isOnline = false, facts = [], action = null } = {}) {
  const picture = avatarOf({ id: name, name, url, size: 'small' });
  if (isOnline) picture.append(el('span.dot'));
  const said = [name === id ? '' : id, ...facts].filter(Boolean).join(' · ');
  const who = el('div.who', null, el('strong', { dir: 'auto' }, name), said ? el('span', null, said) : null);
  return el('li.person', null, picture, who, action);
}
