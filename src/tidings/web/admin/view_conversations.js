// One conversation: members with their receipts, its head, and its part in the cold tier. Never a text.

import { el } from '../app/parts/dom.js';
import { asked, showList } from './listing.js';
import { ago, bytes, count, moment } from './figures.js';
import { button, card, facts, fill, finder, fixedTiles, head, linkTo, pill, table } from './parts.js';

export function show(place, context, id) {
  if (!id) return showAll(place, context);
  const found = el('div.results');
  const find = (wanted) => { location.hash = `#/conversations/${encodeURIComponent(wanted)}`; };
  place.replaceChildren(head('Conversations', 'Look one up by id. What people wrote is not shown here.'),
    finder('Conversation id', 'conversation-id', id, find), found);
  fill(found, () => context.api.look(`conversations/${encodeURIComponent(id)}`), (one) => draw(one, context));
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

function draw(one, context) {
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
      Members: count(one.members_count),
      'Archived up to': archive ? count(archive.archived_seq) : 'unknown',
      Segments: archive ? `${count(archive.segments)} · ${bytes(archive.bytes)}` : 'unknown',
    }),
    members(one, context),
  ];
}

function members(one, context) {
  const columns = [['User'], ['Role'], ['Presence'], ['Delivered', true], ['Read', true], ['Behind', true], ['Joined']];
  const place = el('div');
  let all = one.members;
  let cursor = one.next_cursor;
  const more = button('Show more', null, async () => {
    const next = await context.api.look(`conversations/${encodeURIComponent(one.conversation_id)}?cursor=${encodeURIComponent(cursor)}`);
    all = [...all, ...next.members];
    cursor = next.next_cursor;
    drawAll();
  });
  const drawAll = () => {
    more.hidden = !cursor;
    place.replaceChildren(table('Members', columns, all.map((member) => [
      linkTo('users', member.user_id), member.role, member.is_online ? pill('online', 'good') : pill('offline'),
      count(member.delivered_seq), count(member.read_seq), count(Math.max(one.last_seq - member.read_seq, 0)),
      moment(member.joined_at),
    ])));
  };
  drawAll();
  return card('Members', place, more);
}
