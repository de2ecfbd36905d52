// A popover with emoji: the ones used last, then all by group, and a search.

import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';
import { EMOJI, findEmoji, loadNames, nameOf } from './emojis.js';

const RECENT = 'tidings.emoji';
const RECENT_MAX = 16;
const FOUND_MAX = 48;
const FIRST = ['👍', '❤️', '😂', '😮', '😢', '🙏', '🎉', '🔥'];

/** The signs used last, filled up with the usual ones. */
export function recentEmoji(most) {
  return [...new Set([...stored(), ...FIRST])].slice(0, most);
}

export function rememberEmoji(sign) {
  try {
    localStorage.setItem(RECENT, JSON.stringify([...new Set([sign, ...stored()])].slice(0, RECENT_MAX)));
  } catch {
    // Storage is forbidden: the usual ones come first.
  }
}

function stored() {
  try {
    const known = JSON.parse(localStorage.getItem(RECENT) ?? '[]');
    return Array.isArray(known) ? known.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}

/** Open the picker at a button; `choose(sign)` gets the emoji. */
export function openEmoji(button, choose) {
  const grid = el('div.emoji-grid', { onkeydown: (event) => move(grid, event) });
  const search = el('input', { type: 'search', placeholder: t('searchEmoji'), 'aria-label': t('searchEmoji'), autocomplete: 'off' });
  const popover = el('div.emoji-picker', { popover: 'auto', role: 'dialog', 'aria-label': t('emoji') }, search, grid);
  const pick = (sign) => {
    rememberEmoji(sign);
    popover.hidePopover();
    choose(sign);
  };
  const draw = () => {
    grid.replaceChildren(...groupsFor(search.value.trim(), pick));
    grid.querySelector('button')?.setAttribute('tabindex', '0'); // Tab reaches the first, arrows the others
  };
  search.addEventListener('input', draw);
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') grid.querySelector('button')?.click();
    else if (event.key === 'ArrowDown') grid.querySelector('button')?.focus();
    else return;
    event.preventDefault();
  });
  popover.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    const isInside = popover.contains(document.activeElement) || document.activeElement === document.body;
    popover.remove();
    button.setAttribute('aria-expanded', 'false');
    if (isInside) button.focus({ preventScroll: true });
  });
  (button.closest('main, dialog') ?? document.body).append(popover);
  draw();
  loadNames(document.documentElement.lang).then(() => document.activeElement === search && draw());
  popover.showPopover();
  button.setAttribute('aria-expanded', 'true');
  place(popover, button);
  search.focus();
}

function groupsFor(text, pick) {
  const buttons = (ones) => ones.map(({ sign }) => el('button', {
    type: 'button', tabindex: -1, title: nameOf(sign), 'aria-label': nameOf(sign), onclick: () => pick(sign),
  }, sign));
  if (text) {
    const found = findEmoji(text, FOUND_MAX);
    return found.length ? [el('div.emoji-group', null, ...buttons(found))] : [el('p.hint', null, t('noMatch'))];
  }
  const recent = recentEmoji(RECENT_MAX).map((sign) => ({ sign }));
  const groups = [['recent', recent], ...Object.entries(EMOJI)];
  return groups.flatMap(([name, ones]) => [el('h3', null, t(`emoji.${name}`)), el('div.emoji-group', null, ...buttons(ones))]);
}

function move(grid, event) {
  const all = [...grid.querySelectorAll('button')];
  const at = all.indexOf(document.activeElement);
  const row = Math.max(1, Math.floor(grid.clientWidth / 40));
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row };
  if (at < 0 || !(event.key in steps)) return;
  event.preventDefault();
  if (at + steps[event.key] < 0) grid.parentElement.querySelector('input').focus();
  else all[Math.min(all.length - 1, at + steps[event.key])].focus();
}

function place(popover, button) {
  const at = button.getBoundingClientRect();
  const size = popover.getBoundingClientRect();
  const top = at.top - size.height - 8 > 8 ? at.top - size.height - 8 : Math.min(at.bottom + 8, innerHeight - size.height - 8);
  popover.style.left = `${Math.max(8, Math.min(innerWidth - size.width - 8, at.right - size.width))}px`;
  popover.style.top = `${Math.max(8, top)}px`;
}
