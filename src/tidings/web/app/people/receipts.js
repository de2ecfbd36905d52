// Who has read a message, who has it, and the rest.

import { personRow } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { numberOf } from '../parts/format.js';
import { tick, tickLabel } from '../parts/icons.js';
import { t } from '../parts/words.js';

export async function showReceipts(profiles, conversation, message) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const dialog = openDialog(t('whoHasRead'), fault.line, place);
  let lists = [];
  const redraw = () => place.replaceChildren(...lists.flatMap(([state, ids]) => stateList(state, ids, profiles)));
  dialog.addEventListener('close', profiles.onChange(redraw));
  await fault.guard(async () => {
    const { read, delivered, pending } = await conversation.receipts(message.seq);
    lists = [['read', read], ['delivered', delivered], ['sent', pending]];
    redraw();
    profiles.want(conversation, lists.flatMap(([, ids]) => ids));
  });
  place.removeAttribute('aria-busy');
}

function stateList(state, ids, profiles) {
  if (!ids.length) return [];
  const label = state === 'sent' ? t('notDelivered') : tickLabel(state);
  return [
    el('h3.people-title', null, el('span.tick-sample', null, tick(state)), `${label} (${numberOf(ids.length)})`),
    el('ul.people', { 'aria-label': label }, ...ids.map((id) => personRow(profiles.of(id)))),
  ];
}
