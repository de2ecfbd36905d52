// A message in a list of messages: of pinned ones, of saved ones, of threads.

import { avatarOf } from './avatar.js';
import { el } from './dom.js';

/** A press runs `run`; `action` is a button beside it. `words` are nodes or texts in one line. */
export function listed({ person, title, when, words, run, action = null }) {
  return el('li', null,
    el('button.listed', { type: 'button', onclick: run },
      avatarOf({ id: person.name, name: person.name, url: person.url, size: 'small' }),
      el('div.hit', null,
        el('div.row-line', null, el('strong', { dir: 'auto' }, title), el('span.row-when', null, when)),
        el('p', { dir: 'auto' }, ...words))),
    action);
}

/** What a list says that has nothing to show. */
export const emptyList = (picture, title, hint) =>
  el('div.list-empty', null, picture, el('strong', null, title), el('p', null, hint));
