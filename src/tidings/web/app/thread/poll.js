// A poll in a message: a question, its options, and the votes. A vote is a reaction to the message, so it is counted
// exactly, once per person, and everybody sees who voted. A client without polls shows the text and the reactions.

import { el } from '../parts/dom.js';
import { countOf, numberOf } from '../parts/format.js';
import { t } from '../parts/words.js';

export const VOTES = ['1️⃣', '2️⃣', '3️⃣', '4️⃣', '5️⃣', '6️⃣', '7️⃣', '8️⃣', '9️⃣', '🔟'];

/** The poll of a message as { question, options, several }; null where there is none. Its data comes from anybody. */
export function pollOf({ data, deleted, hidden }) {
  const { question, options, several } = data?.poll ?? {};
  if (deleted || hidden || typeof question !== 'string' || !Array.isArray(options)) return null;
  const isPoll = options.length >= 2 && options.length <= VOTES.length && options.every((one) => typeof one === 'string');
  return isPoll ? { question, options, several: several === true } : null;
}

/** The text of a poll, for clients and notifications that show no polls. */
export const textOfPoll = ({ question, options }) =>
  [`📊 ${question}`, ...options.map((one, at) => `${VOTES[at]} ${one}`)].join('\n');

/** `vote(place)` is called with the place of an option. */
export function drawPoll(message, poll, vote) {
  const votes = poll.options.map((_, at) => message.reactions?.[VOTES[at]] ?? { count: 0, mine: false });
  const sum = votes.reduce((all, { count }) => all + count, 0);
  return el('div.poll', { role: 'group', 'aria-label': poll.question },
    el('strong.poll-question', { dir: 'auto' }, poll.question),
    el('span.poll-note', null, t(poll.several ? 'pollSeveral' : 'pollOne')),
    ...poll.options.map((option, at) => drawOption(message, option, at, votes[at], sum, vote)),
    el('span.poll-note', null, countOf(sum, 'votesCount')));
}

function drawOption({ seq }, option, at, { count, mine }, sum, vote) {
  const share = sum ? Math.round((100 * count) / sum) : 0;
  const bar = el('span.poll-bar', { 'aria-hidden': 'true' });
  bar.style.width = `${share}%`;
  return el('button.poll-option', {
    type: 'button', tabindex: -1, 'aria-pressed': String(Boolean(mine)), disabled: seq === null, 'data-part': `vote-${at}`,
    'aria-label': t('voteLabel', { option, said: countOf(count, 'votesCount') }), onclick: () => vote(at),
  }, bar, el('span.poll-mark', { 'aria-hidden': 'true' }), el('span.poll-text', { dir: 'auto' }, option),
  el('span.poll-count', { 'aria-hidden': 'true' }, numberOf(count)));
}

/** Vote, or take the vote back. In a poll with one choice a new vote takes the place of the earlier one. */
export async function castVote(conversation, message, poll, at) {
  const isMine = (key) => Boolean(message.reactions?.[key]?.mine);
  const key = VOTES[at];
  const earlier = poll.several ? [] : VOTES.filter((one) => one !== key && isMine(one));
  for (const one of earlier) await conversation.react(message.seq, one, false);
  await conversation.react(message.seq, key, !isMine(key));
}

export const pollHeight = (poll) => (poll ? 84 + 46 * poll.options.length : 0);
