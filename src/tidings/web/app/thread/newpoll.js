// Make a poll: a question, two to ten options, one choice or several.

import { field, formOf } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';
import { textOfPoll, VOTES } from './poll.js';

const QUESTION_MAX = 300;
const OPTION_MAX = 100; // ten of them and the question stay below the limit of a message's data, in any script

/** `send(text, data)` sends it. */
export function newPoll(send) {
  const fault = faultLine();
  const question = el('input', { id: 'question', maxlength: QUESTION_MAX, autocomplete: 'off', dir: 'auto' });
  const several = el('input', { id: 'several', type: 'checkbox' });
  const list = el('div.stack', { role: 'group', 'aria-label': t('pollOptions') });
  const said = () => [...list.querySelectorAll('input')].map((one) => one.value.trim()).filter(Boolean);
  /** One empty field more than what is written, up to the most. */
  const grow = () => {
    const isFull = [...list.querySelectorAll('input')].every((one) => one.value.trim());
    if (list.children.length < VOTES.length && (list.children.length < 2 || isFull)) list.append(option(list.children.length + 1));
  };
  const option = (number) => el('input.plain-line', {
    'aria-label': t('pollOption', { n: number }), placeholder: t('pollOption', { n: number }), maxlength: OPTION_MAX,
    autocomplete: 'off', dir: 'auto', oninput: grow,
  });
  const make = () => {
    const poll = { question: question.value.trim(), options: [...new Set(said())], several: several.checked };
    if (!poll.question || poll.options.length < 2) {
      fault.line.textContent = t('pollNeeds');
      return (poll.question ? list.querySelector('input') : question).focus();
    }
    dialog.close();
    return send(textOfPoll(poll), { poll });
  };
  const form = formOf(make, field('question', t('pollQuestion'), question), list,
    el('label.check', { for: 'several' }, several, t('pollSeveral')), fault.line,
    el('div.dialog-foot', null,
      el('button.plain', { type: 'button', onclick: () => dialog.close() }, t('cancel')),
      el('button.primary', { type: 'submit' }, t('send'))));
  const dialog = openDialog(t('newPoll'));
  dialog.querySelector('.dialog-body').replaceWith(form);
  grow();
  grow();
  question.focus();
}
