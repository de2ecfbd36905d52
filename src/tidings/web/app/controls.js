// Small controls that several parts of the page use.

import { avatarOf } from './avatar.js';
import { el } from './dom.js';
import { icon } from './icons.js';

/** A round button with an icon; its label is what it is called. */
export function round(label, name, run, more = null) {
  return el('button.round', { type: 'button', 'aria-label': label, title: label, onclick: run, ...more }, icon(name));
}

/** A field for user ids. */
export function idField(id, more = null) {
  return el('input', { id, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true, ...more });
}

/** Somebody in a list: picture, id, what is said of them, and what can be done. */
export function personRow(id, { isOnline = false, facts = '', action = null } = {}) {
  const picture = avatarOf({ id, name: id, size: 'small' });
  if (isOnline) picture.append(el('span.dot'));
  const who = el('div.who', null, el('strong', { dir: 'auto' }, id), facts ? el('span', null, facts) : null);
  return el('li.person', null, picture, who, action);
}
