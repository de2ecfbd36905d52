// Who reacted to a message, by reaction.

import { personRow } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { numberOf } from '../parts/format.js';
import { t } from '../parts/words.js';
import { pollOf, VOTES } from '../thread/poll.js';

export async function showReactions(profiles, conversation, message) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const dialog = openDialog(t('reactions'), fault.line, place);
  let found = {};
  const poll = pollOf(message);
  const wordOf = (key) => poll?.options[VOTES.indexOf(key)] ?? key;
  const redraw = () => place.replaceChildren(...Object.entries(found).flatMap(([key, ids]) => [
    el('h3.people-title', null, el('span.emoji', { dir: 'auto' }, wordOf(key)), numberOf(ids.length)),
    el('ul.people', { 'aria-label': wordOf(key) }, ...ids.map((id) => personRow(profiles.of(id)))),
  ]));
  dialog.addEventListener('close', profiles.onChange(redraw));
  await fault.guard(async () => {
    found = await conversation.reactions(message.seq);
    redraw();
    profiles.want(conversation, Object.values(found).flat());
  });
  place.removeAttribute('aria-busy');
}
