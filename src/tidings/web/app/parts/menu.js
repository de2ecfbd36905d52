// A menu at a button: arrows move, Escape and a click elsewhere close it, focus goes back to the button.

import { el } from './dom.js';
import { icon } from './icons.js';

const EDGE_PX = 8;

/** @param items { icon, label, run, isHarsh } or null for none; a string is a line of text; an element stands as it is,
 *  and a press on a button in it closes the menu */
export function openMenu(button, label, items) {
  const menu = el('div.menu', { popover: 'auto', role: 'menu', 'aria-label': label });
  for (const item of items.filter(Boolean)) {
    if (item instanceof Element) menu.append(closing(menu, item));
    else menu.append(typeof item === 'string' ? el('p', { role: 'presentation' }, item) : entryOf(menu, item));
  }
  menu.addEventListener('keydown', (event) => move(menu, event));
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    button.setAttribute('aria-expanded', 'false');
    const isInside = menu.contains(document.activeElement) || document.activeElement === document.body;
    menu.remove();
    if (isInside) button.focus({ preventScroll: true });
  });
  (button.closest('main, dialog') ?? document.body).append(menu); // inside a landmark, as accessibility rules demand
  menu.showPopover();
  place(menu, button);
  button.setAttribute('aria-expanded', 'true');
  menu.querySelector(':scope > button')?.focus(); // the first entry, not a button of an element above it
}

function closing(menu, element) {
  element.addEventListener('click', (event) => event.target.closest('button') && menu.hidePopover(), { capture: true });
  return element;
}

function entryOf(menu, { icon: name, label, run, isHarsh }) {
  const choose = () => {
    menu.hidePopover();
    run();
  };
  const made = el('button', { type: 'button', role: 'menuitem', tabindex: -1, onclick: choose }, icon(name), label);
  if (isHarsh) made.classList.add('harsh');
  return made;
}

function place(menu, button) {
  const at = button.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  const isRight = at.left + at.width / 2 > innerWidth / 2;
  const left = isRight ? at.right - size.width : at.left;
  const isAbove = at.bottom + size.height + EDGE_PX > innerHeight;
  const top = isAbove ? at.top - size.height - 4 : at.bottom + 4;
  menu.style.left = `${Math.max(EDGE_PX, Math.min(innerWidth - size.width - EDGE_PX, left))}px`;
  menu.style.top = `${Math.max(EDGE_PX, Math.min(innerHeight - size.height - EDGE_PX, top))}px`;
}

function move(menu, event) {
  const entries = [...menu.querySelectorAll('button')];
  const at = entries.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: entries.length - 1 };
  if (event.key === 'Tab') menu.hidePopover();
  if (!(event.key in steps)) return;
  event.preventDefault();
  entries.at(steps[event.key] % entries.length)?.focus();
}
