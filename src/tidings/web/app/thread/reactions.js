// Reactions to a message: pills below it, one press to add or take away.

import { el } from '../parts/dom.js';
import { numberOf } from '../parts/format.js';
import { t } from '../parts/words.js';
import { pollOf, VOTES } from './poll.js';
import { openEmoji, recentEmoji, rememberEmoji } from '../writing/emojipicker.js';

const STRIP = 6;
const QUICK = 3;

/** The pills below a message; null where nobody reacted. `on` is { react(message, key, isOn) }. */
export function reactionPills(message, on) {
  const isVote = pollOf(message) ? (key) => VOTES.includes(key) : () => false; // the poll shows its votes
  const found = Object.entries(message.reactions ?? {}).filter(([key]) => !isVote(key));
  if (!found.length || message.deleted) return null;
  return el('div.reactions', { role: 'group', 'aria-label': t('reactions') }, ...found.map(([key, { count, mine }]) =>
    el('button.reaction', {
      type: 'button', tabindex: -1, 'aria-pressed': String(mine), 'data-part': `reaction-${key}`,
      'aria-label': t('reactionLabel', { key, n: numberOf(count) }), onclick: () => on.react(message, key, !mine),
    }, el('span', null, key), el('span.reaction-count', null, numberOf(count)))));
}

/** The first of the usual reactions, for the bar beside a message: one press, and a second one takes it back. */
export function quickReactions(message, on) {
  return recentEmoji(QUICK).map((sign) => {
    const isMine = Boolean(message.reactions?.[sign]?.mine);
    const label = t('reactWith', { key: sign });
    return el('button.round.message-quick', {
      type: 'button', tabindex: -1, 'aria-label': label, title: label, 'aria-pressed': String(isMine), 'data-part': `quick-${sign}`,
      onclick: () => on.react(message, sign, !isMine),
    }, sign);
  });
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
