// Keys in the list of messages: Up and Down move between messages once one of them has the focus, Right and Left between
// the buttons and links in it. Enter opens the menu of a message, R answers it, T opens its thread.

const INSIDE = ':is(button, a, input, pre):not([disabled], .message-bar *)';
const BUTTONS = { enter: '.message-more', r: '.message-reply', t: '.message-thread' };

/** @param pane { view, messages, list, end() } */
export function listenToKeys({ view, messages, list, end }) {
  const step = (row, isUp) => {
    const drawn = [...messages.querySelectorAll('.message')];
    const { bottom } = view.getBoundingClientRect();
    const shown = drawn.filter((one) => one.getBoundingClientRect().top < bottom - 20);
    const next = row ? drawn[drawn.indexOf(row) + (isUp ? -1 : 1)] : shown.at(-1);
    if (!next) return;
    list.reveal(next.dataset.key);
    next.focus({ preventScroll: true });
  };
  /** Go to the next part of a message, or back to the message itself. */
  const stepInside = (row, from, isBack) => {
    const places = [row, ...row.querySelectorAll(INSIDE)];
    const next = places[places.indexOf(from) + (isBack ? -1 : 1)];
    next?.focus({ preventScroll: true });
  };
  view.addEventListener('keydown', (event) => {
    const row = event.target.closest('.message');
    const isArrow = (event.key === 'ArrowUp' || event.key === 'ArrowDown') && !event.altKey;
    const button = row && row === event.target && !event.ctrlKey && !event.metaKey ? BUTTONS[event.key.toLowerCase()] : null;
    const isSide = row && (event.key === 'ArrowRight' || event.key === 'ArrowLeft') && !event.altKey && event.target.type !== 'range';
    if (isSide) stepInside(row, event.target, event.key === 'ArrowLeft');
    else if (button) row.querySelector(button)?.click();
    else if (isArrow) step(row, event.key === 'ArrowUp');
    else if (event.key === 'End' && !row) end();
    else return;
    event.preventDefault();
  });
}
