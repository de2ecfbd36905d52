// One conversation: members with their receipts, its head, and its part in the cold tier. Never a text.

import { el } from '../app/parts/dom.js';
import { ago, bytes, count, moment } from './figures.js';
import { card, facts, fill, finder, fixedTiles, head, linkTo, pill, table } from './parts.js';

export function show(place, context, id) {
  const found = el('div.results');
  const find = (wanted) => { location.hash = `#/conversations/${encodeURIComponent(wanted)}`; };
  place.replaceChildren(head('Conversations', 'Look one up by id. What people wrote is not shown here.'),
    finder('Conversation id', 'conversation-id', id, find), found);
  if (id) fill(found, () => context.api.look(`conversations/${encodeURIComponent(id)}`), draw);
  return null;
}

function draw(one) {
  const archive = one.archive;
  return [
    el('section.card', { 'aria-label': 'Conversation' },
      el('div.node-head', null, el('h2', null, one.name ?? one.conversation_id), pill(one.kind, 'accent')),
      facts({
        Id: el('span.id', null, one.conversation_id),
        Created: moment(one.created_at),
        'Last message': one.last_message_at ? `${moment(one.last_message_at)}, ${ago(one.last_message_at)}` : 'none yet',
        'New members see': one.history === 'all' ? 'everything' : 'what comes after they joined',
        'Shown from': one.floor_seq ? `after ${count(one.floor_seq)}` : 'the beginning',
        'Member list as of': count(one.members_seq),
      })),
    fixedTiles({
      Head: count(one.head),
      Members: count(one.members.length),
      'Archived up to': archive ? count(archive.archived_seq) : 'unknown',
      Segments: archive ? `${count(archive.segments)} · ${bytes(archive.bytes)}` : 'unknown',
    }),
    card('Members', table('Members', [['User'], ['Role'], ['Presence'], ['Delivered', true], ['Read', true], ['Behind', true], ['Joined']],
      one.members.map((member) => [
        linkTo('users', member.user_id), member.role, member.is_online ? pill('online', 'good') : pill('offline'),
        count(member.delivered_seq), count(member.read_seq), count(Math.max(one.last_seq - member.read_seq, 0)),
        moment(member.joined_at),
      ]))),
  ];
}
