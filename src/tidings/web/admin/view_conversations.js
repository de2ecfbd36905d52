// One conversation: members with their receipts, its head, and its part in the cold tier. Never a text.

import { el } from '../app/parts/dom.js';
import { asked, showList } from './listing.js';
import { ago, bytes, count, moment } from './figures.js';
import { card, facts, fill, finder, fixedTiles, head, linkTo, pill, table } from './parts.js';

export function show(place, context, id) {
  if (!id) return showAll(place, context);
  const found = el('div.results');
  const find = (wanted) => { location.hash = `#/conversations/${encodeURIComponent(wanted)}`; };
  place.replaceChildren(head('Conversations', 'Look one up by id. What people wrote is not shown here.'),
    finder('Conversation id', 'conversation-id', id, find), found);
  fill(found, () => context.api.look(`conversations/${encodeURIComponent(id)}`), draw);
  return null;
}

function showAll(place, context) {
  showList(place, {
    title: 'Conversations',
    lead: 'Find one by a part of its name or id. What people wrote is not shown here.',
    label: 'Name or id',
    id: 'conversation-query',
    columns: [['Name'], ['Id'], ['Kind'], ['Entries', true], ['Last message'], ['Created']],
    load: async (query, cursor) => {
      const { conversations, next_cursor } = await context.api.look(`conversations?${asked(query, cursor)}`);
      return { rows: conversations, next_cursor };
    },
    row: (one) => [one.name ?? '–', linkTo('conversations', one.conversation_id), one.kind, count(one.last_seq),
      one.last_message_at ? ago(one.last_message_at) : 'none yet', moment(one.created_at)],
    empty: 'There is no such conversation.',
  });
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
