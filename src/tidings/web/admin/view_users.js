// One user: profile, devices, unread counts with their proof, and actions of an admin. Never a text.

import { openDialog } from '../app/parts/dialogs.js';
import { el } from '../app/parts/dom.js';
import { dataOf } from './data.js';
import { asked, showList } from './listing.js';
import { ago, count, moment, plural } from './figures.js';
import { card, button, deed, facts, fill, finder, fixedTiles, head, linkTo, pill, sentenceOf, table } from './parts.js';

export function show(place, context, id) {
  if (!id) return showAll(place, context);
  const found = el('div.results');
  const find = (wanted) => { location.hash = `#/users/${encodeURIComponent(wanted)}`; };
  place.replaceChildren(head('Users', 'Look somebody up by id: devices, presence, unread.'), finder('User id', 'user-id', id, find), found);
  const load = () => fill(found, () => context.api.look(`users/${encodeURIComponent(id)}`), (user) => draw(user, context, load));
  load();
  return null;
}

function showAll(place, context) {
  showList(place, {
    title: 'Users',
    lead: 'Find somebody by a part of the name or id.',
    label: 'Name or id',
    id: 'user-query',
    columns: [['Id'], ['Name'], ['Presence']],
    load: async (query, cursor) => {
      const { users, next_cursor } = await context.api.look(`users?${asked(query, cursor)}`);
      return { rows: users, next_cursor };
    },
    row: (one) => [linkTo('users', one.user_id), one.name ?? '–', one.is_online ? pill('online', 'good') : pill('offline')],
    empty: 'There is nobody of this name or id.',
  });
  return null;
}

function draw(user, context, again) {
  if (!user.is_known) return [el('p.none', null, `Nothing is stored about ${user.user_id}.`), actions(user, context, again)];
  return [
    el('section.card.person-card', { 'aria-label': 'Profile' },
      el('div.node-head', null, el('h2', null, user.name ?? user.user_id),
        user.is_online ? pill('online', 'good') : pill(`offline, seen ${ago(user.last_seen)}`, 'plain')),
      facts({
        Id: user.user_id,
        'Tokens refused from before': user.tokens_valid_after ? moment(user.tokens_valid_after) : 'none',
        'Undelivered past the grace time': plural(user.waiting_conversations, 'conversation', 'conversations'),
      }),
      actions(user, context, again)),
    fixedTiles({
      Unread: count(user.total_unread),
      'Conversations with unread': count(user.unread_conversations),
      Connections: count(user.connections.length),
      'Active days': count(user.active_days.length),
    }),
    days(user),
    card('Connections', table('Connections', [['Node'], ['Device'], ['Connection']],
      user.connections.map((one) => [one.node_id, one.device ?? '–', el('code', null, one.connection_id)]), 'Not connected.')),
    card('Devices', table('Devices', [['Device'], ['Push'], ['State'], ['Last seen']],
      user.devices.map((one) => [one.device_id, one.provider ?? 'none', one.is_live ? pill('live', 'good') : pill('away'), moment(one.last_seen)]),
      'None known.')),
    verification(user, context),
    conversations(user, context),
  ];
}

function actions(user, context, again) {
  const id = user.user_id;
  const path = `users/${encodeURIComponent(id)}`;
  const said = el('p.hint', { role: 'status' });
  const kick = async () => {
    const answer = await context.api.act(`${path}/kick`);
    said.textContent = `Closed ${plural(answer.connections, 'connection', 'connections')}.`;
  };
  const revoke = async () => {
    await context.api.revoke(id);
    again();
  };
  const mint = async () => {
    try {
      const { token } = await context.api.act(`${path}/token`);
      openDialog(`A token of ${id}`, el('p', null, 'Valid for an hour.'), el('textarea.token', { readonly: true, rows: 6, 'aria-label': 'Token' }, token),
        el('a.primary.link-button', { href: `/#token=${token}`, target: '_blank', rel: 'noopener' }, `Open the page as ${id}`));
    } catch (error) {
      said.textContent = sentenceOf(error);
    }
  };
  return el('div.deeds', null,
    deed(context, 'Kick', 'plain', { title: `Kick ${id}?`, text: 'Every connection is closed, on every node. The clients come back by themselves.' }, kick),
    deed(context, 'Revoke tokens', 'danger', { title: `Revoke the tokens of ${id}?`, text: 'Every token made before now is refused and every connection is closed.' }, revoke),
    context.me.is_dev ? button('Mint a token', null, mint, { isOff: context.me.role !== 'admin', why: 'Your key may only look' }) : null,
    ...dataOf(id, context, said),
    said);
}

/** The last thirty days, a square each. */
function days(user) {
  const known = new Set(user.active_days);
  const today = Date.parse(new Date().toISOString().slice(0, 10));
  const squares = Array.from({ length: 30 }, (_, at) => new Date(today - (29 - at) * 86_400_000).toISOString().slice(0, 10));
  const active = squares.filter((day) => known.has(day)).length;
  return card('Activity', el('div.days', { role: 'img', 'aria-label': `Active on ${active} of the last 30 days` },
    ...squares.map((day) => el(`span${known.has(day) ? '.on' : ''}`, { title: day }))),
  el('p.hint', null, `Active on ${active} of the last 30 days (UTC).`));
}

function verification(user, context) {
  const result = el('div', { role: 'status' });
  const run = () => fill(result, () => context.api.look(`users/${encodeURIComponent(user.user_id)}/verify`), (report) => {
    if (report.cold) return el('p', null, pill('cold', 'plain'), ' The index of this user is not built; it is made when somebody looks.');
    if (!report.wrong.length) return el('p', null, pill('exact', 'good'), ` ${plural(report.conversations, 'conversation', 'conversations')} recounted from the tables, no difference.`);
    return table('Differences', [['Conversation'], ['What'], ['Tables', true], ['Shown', true]],
      report.wrong.map((one) => [one.conversation_id || 'all', one.what, count(one.expected), count(one.found)]));
  });
  return card('Unread, verified', el('p.hint', null, 'Counts everything again from the tables and compares it with what the user is shown.'),
    button('Verify now', 'check', run), result);
}

function conversations(user, context) {
  const rows = (some) => some.map((one) => [
    el('span', null, linkTo('conversations', one.conversation_id), one.name ? el('small.under', null, one.name) : null),
    one.kind,
    el('span', null, one.unread_count === null ? '–' : count(one.unread_count), one.unread_capped ? '+' : ''),
    count(one.read_seq), count(one.last_seq), one.last_message_at ? ago(one.last_message_at) : '–',
    ['muted', 'pinned', 'archived'].filter((flag) => one[flag]).join(', ') || '–',
  ]);
  const columns = [['Conversation'], ['Kind'], ['Unread', true], ['Read up to', true], ['Last', true], ['Last message'], ['Flags']];
  const place = el('div');
  let all = user.conversations;
  let cursor = user.next_cursor;
  const more = button('Show more', null, async () => {
    const next = await context.api.look(`users/${encodeURIComponent(user.user_id)}?cursor=${encodeURIComponent(cursor)}`);
    all = [...all, ...next.conversations];
    cursor = next.next_cursor;
    drawAll();
  });
  const drawAll = () => {
    more.hidden = !cursor;
    place.replaceChildren(table('Conversations', columns, rows(all), 'None.'));
  };
  drawAll();
  return card('Conversations', user.is_stale ? el('p.hint', null, 'The keyspace does not answer: these come from the tables.') : null, place, more);
}
