// Dialogs: a frame with a title and a close button, a question, and a line that says what went wrong.
// The browser's own <dialog> keeps focus inside and gives it back.

import { round } from './controls.js';
import { el } from './dom.js';
import { has, t } from './words.js';

let nextId = 1;

/** Open a dialog at once; `close()` ends it. */
export function openDialog(title, ...body) {
  const id = `dialog-${nextId++}`;
  const close = () => dialog.close();
  const head = el('header.dialog-head', null,
    el('h2', { id, dir: 'auto' }, title),
    round(t('close'), 'close', close));
  const dialog = el('dialog', { 'aria-labelledby': id }, head, el('div.dialog-body', { tabindex: -1 }, ...body));
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A question with one button to go on. */
export function ask(title, text, action, run, kind = 'danger') {
  const fault = faultLine();
  const goOn = async () => {
    if (await fault.guard(run)) dialog.close();
  };
  const dialog = openDialog(title, el('p', null, text), fault.line,
    el('div.dialog-foot', null,
      el('button.plain', { type: 'button', onclick: () => dialog.close() }, t('cancel')),
      el(`button.${kind}`, { type: 'button', onclick: goOn }, action)));
  return dialog;
}

/** The line for errors of a dialog. `guard` runs something, shows its error, and returns whether it succeeded. */
export function faultLine() {
  const line = el('p.fault', { role: 'alert' });
  const guard = async (run) => {
    line.textContent = '';
    try {
      await run();
      return true;
    } catch (error) {
      line.textContent = sentenceOf(error);
      return false;
    }
  };
  return { line, guard };
}

/** The sentence of an error, in the language of the page where its code is known. */
export const sentenceOf = (error) => (has(`error.${error.code}`) ? t(`error.${error.code}`) : error.message);
