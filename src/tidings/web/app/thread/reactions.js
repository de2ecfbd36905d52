// Reactions to a message: pills below it, one press to add or take away, and who reacted.

import { personRow } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { numberOf } from '../parts/format.js';
import { t } from '../parts/words.js';
import { openEmoji, recentEmoji, rememberEmoji } from '../writing/emojipicker.js';

const STRIP = 6;

/** The pills below a message; null where nobody reacted. `on` is { react(message, key, isOn) }. */
export function reactionPills(message, on) {
  const found = Object.entries(message.reactions ?? {});
  if (!found.length || message.deleted) return null;
  return el('div.reactions', { role: 'group', 'aria-label': t('reactions') }, ...found.map(([key, { count, mine }]) =>
    el('button.reaction', {
      type: 'button', tabindex: -1, 'aria-pressed': String(mine), 'data-part': `reaction-${key}`,
      'aria-label': t('reactionLabel', { key, n: numberOf(count) }), onclick: () => on.react(message, key, !mine),
    }, el('span', null, key), el('span.reaction-count', null, numberOf(count)))));
}

/** The strip of the usual reactions, for the menu of a message. */
export function reactionStrip(message, choose, button) {
  const pick = (key) => {
    rememberEmoji(key);
    choose(key, !message.reactions?.[key]?.mine);
  };
  const signs = recentEmoji(STRIP).map((sign) => el('button', {
    type: 'button', role: 'menuitem', tabindex: -1, 'aria-label': t('reactWith', { key: sign }), onclick: () => pick(sign),
  }, sign));
  const more = el('button.more', {
    type: 'button', role: 'menuitem', tabindex: -1, 'aria-label': t('moreReactions'), onclick: () => openEmoji(button, (key) => pick(key)),
  }, '+');
  return el('div.strip', { role: 'presentation' }, ...signs, more);
}

/** Show who reacted, by reaction. */
export async function showReactions(profiles, conversation, message) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const dialog = openDialog(t('reactions'), fault.line, place);
  let found = {};
  const redraw = () => place.replaceChildren(...Object.entries(found).flatMap(([key, ids]) => [
    el('h3.people-title', null, el('span.emoji', null, key), numberOf(ids.length)),
    el('ul.people', { 'aria-label': key }, ...ids.map((id) => personRow(profiles.of(id)))),
  ]));
  dialog.addEventListener('close', profiles.onChange(redraw));
  await fault.guard(async () => {
    found = await conversation.reactions(message.seq);
    redraw();
    profiles.want(conversation, Object.values(found).flat());
  });
  place.removeAttribute('aria-busy');
}
