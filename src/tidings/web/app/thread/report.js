// Report a message to the moderators, with a reason.

import { field, formOf } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';

const REASON_MAX = 500;

export function reportMessage(client, message) {
  const fault = faultLine();
  const reason = el('textarea.plain-text', { id: 'reason', maxlength: REASON_MAX, rows: 3, dir: 'auto' });
  const send = async () => {
    const { conversationId, seq } = message;
    if (!(await fault.guard(() => client.rules.report(conversationId, seq, reason.value.trim())))) return;
    form.replaceChildren(el('p', { role: 'status' }, t('reported')),
      el('div.dialog-foot', null, el('button.primary', { type: 'button', onclick: () => dialog.close() }, t('close'))));
    form.querySelector('button').focus();
  };
  const form = formOf(send, el('p', null, t('reportText')), field('reason', t('reportReason'), reason), fault.line,
    el('div.dialog-foot', null,
      el('button.plain', { type: 'button', onclick: () => dialog.close() }, t('cancel')),
      el('button.danger', { type: 'submit' }, t('report'))));
  const dialog = openDialog(t('reportTitle'));
  dialog.querySelector('.dialog-body').replaceWith(form);
  reason.focus();
}
