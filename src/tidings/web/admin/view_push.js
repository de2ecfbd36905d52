// Pushes: their outcomes, those that wait, and those that were given up.

import { el } from '../app/parts/dom.js';
import { count, moment } from './figures.js';
import { card, fixedTiles, head, linkTo, pill, table } from './parts.js';
import { poll } from './poll.js';

const TONES = { sent: 'good', gone: 'plain', later: 'warn', refused: 'bad', skipped: 'plain', dead: 'bad' };

export function show(place, context) {
  const body = el('div.results');
  place.replaceChildren(head('Push', 'Notices to devices that did not acknowledge in time.'), body);
  const look = async (signal) => {
    const [push, overview] = await Promise.all([context.api.look('push', signal), context.api.look(`overview?since=${Date.now() - 10_000}`, signal)]);
    return { ...push, outcomes: overview.pushes };
  };
  return poll(5000, look, (found) => body.replaceChildren(...draw(found)), context.heard);
}

function draw(found) {
  const outcomes = Object.entries(found.outcomes).map(([names, times]) => [...names.split(' '), times]).sort();
  return [
    fixedTiles({
      'Jobs queued': count(found.queued),
      'Waiting to try again': count(found.later),
      'Conversations to look at': count(found.due),
      'Dead letters': count(found.dead),
      Providers: found.providers.join(', ') || 'none set',
    }),
    card('Outcomes since the nodes began', table('Outcomes', [['Provider'], ['Outcome'], ['Pushes', true]],
      outcomes.map(([provider, outcome, times]) => [provider, pill(outcome, TONES[outcome] ?? 'plain'), count(times)]), 'Nothing was pushed yet.')),
    card('Dead letters', table('Dead letters', [['When'], ['User'], ['Conversation'], ['Message', true], ['Tries', true], ['Why']],
      found.dead_letters.map((one) => [moment(one.at_ms), linkTo('users', one.user_id),
        one.conversation_id ? linkTo('conversations', one.conversation_id) : 'badge', one.seq_no ? count(one.seq_no) : '–', count(one.tries), one.reason]),
      'Nothing was given up.')),
  ];
}
