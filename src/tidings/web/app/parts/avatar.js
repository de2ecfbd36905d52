// The picture of a person (round) or of a group or channel (square): an image if there is one, else initials on a
// colour of its own.

import { el } from './dom.js';
import { initialsOf, tintOf } from './format.js';
import { icon } from './icons.js';

export function avatarOf({ id, name, kind = 'direct', url = null, size = '' }) {
  const made = el(`div.avatar.${kind}.tint-${tintOf(id)}`, { 'aria-hidden': 'true' });
  if (size) made.classList.add(size);
  const plain = () => made.replaceChildren(kind === 'channel' ? icon('hash') : initialsOf(name || id));
  plain();
  const facts = { src: url, alt: '', loading: 'lazy', referrerpolicy: 'no-referrer', onerror: plain };
  if (url) made.replaceChildren(el('img', facts));
  return made;
}
