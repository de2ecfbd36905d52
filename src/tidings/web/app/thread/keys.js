// Keys in the list of messages: arrows move between messages once one of them has the focus. Enter opens the menu of a
// message, R answers it, T opens its thread.

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
  view.addEventListener('keydown', (event) => {
    const row = event.target.closest('.message');
    const isArrow = (event.key === 'ArrowUp' || event.key === 'ArrowDown') && !event.altKey;
    const button = row && row === event.target && !event.ctrlKey && !event.metaKey ? BUTTONS[event.key.toLowerCase()] : null;
    if (button) row.querySelector(button)?.click();
    else if (isArrow) step(row, event.key === 'ArrowUp');
    else if (event.key === 'End' && !row) end();
    else return;
    event.preventDefault();
  });
}
