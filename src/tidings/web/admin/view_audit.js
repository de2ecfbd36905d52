// The newest entries of the audit stream: actions of admins, revocations, failed sign-ins, refusals.

import { el } from '../app/parts/dom.js';
import { count, moment } from './figures.js';
import { card, head, payer, pill, table } from './parts.js';
import { poll } from './poll.js';

const NAMES = { sign_in: 'failed sign-in' };
const TONES = { admin: 'accent', revocation: 'warn', sign_in: 'bad', reject: 'plain' };

export function show(place, context) {
  const body = el('div.results');
  const lead = ['The newest entries of the stream. ', el('code', null, 'tidings audit tail --follow'), ' follows it, ',
    el('code', null, 'tidings audit replay'), ' counts it again.'];
  place.replaceChildren(head('Audit', lead), body);
  const columns = [['When'], ['Kind'], ['What'], ['User'], ['Count', true], ['By'], ['Detail']];
  const draw = (found) => body.replaceChildren(card('Newest entries', table('Newest entries', columns, found.entries.map(row), 'Nothing yet.')));
  return poll(2000, (signal) => context.api.look('audit', signal), draw, context.heard);
}

function row({ at_ms, event }) {
  if (!event) return [moment(at_ms), pill('unreadable', 'bad'), '–', '–', '–', '–', '–'];
  const isSomebody = event.user_id !== '-' && event.user_id !== '*';
  return [moment(at_ms), pill(NAMES[event.kind] ?? event.kind, TONES[event.kind] ?? 'plain'), event.class,
    isSomebody ? payer(event.user_id) : event.user_id === '*' ? 'others' : '–',
    count(event.count ?? 1), event.by || '–', event.detail || '–'];
}
