// Who has read a message and when, who has it, and the rest.

import { personRow } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { momentOf, numberOf } from '../parts/format.js';
import { tick, tickLabel } from '../parts/icons.js';
import { moreButton } from '../parts/more.js';
import { t } from '../parts/words.js';

export async function showReceipts(profiles, conversation, message) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const more = moreButton(() => fault.guard(load));
  const dialog = openDialog(t('whoHasRead'), fault.line, place, more);
  const times = {};
  const lists = [
    ['read', [], (id) => times[id]?.readAt],
    ['delivered', [], (id) => times[id]?.deliveredAt],
    ['sent', [], () => null],
  ];
  let cursor = null;
  const redraw = () => place.replaceChildren(...lists.flatMap((list) => stateList(profiles, ...list)));
  dialog.addEventListener('close', profiles.onChange(redraw));
  const load = async () => {
    const page = await conversation.receipts(message.seq, { cursor });
    const found = [page.read, page.delivered, page.pending];
    lists.forEach(([, ids], at) => ids.push(...found[at]));
    Object.assign(times, page.times);
    cursor = page.nextCursor ?? null;
    more.hidden = cursor === null;
    redraw();
    profiles.want(conversation, found.flat());
  };
  await fault.guard(load);
  place.removeAttribute('aria-busy');
}

function stateList(profiles, state, ids, timeOf) {
  if (!ids.length) return [];
  const label = state === 'sent' ? t('notDelivered') : tickLabel(state);
  return [
    el('h3.people-title', null, el('span.tick-sample', null, tick(state)), `${label} (${numberOf(ids.length)})`),
    el('ul.people', { 'aria-label': label }, ...ids.map((id) => personAt(profiles.of(id), timeOf(id)))),
  ];
}

const personAt = (person, ms) => personRow(person, { facts: ms ? [momentOf(ms)] : [] });
