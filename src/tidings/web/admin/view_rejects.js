// Refusals by minute and class, the users behind them, and the lag of the sums behind the stream.

import { el } from '../app/parts/dom.js';
import { barChart } from './charts.js';
import { count, rate, timeOf } from './figures.js';
import { card, fixedTiles, head, payer, table } from './parts.js';
import { poll } from './poll.js';

const SPANS = { 15: 'last 15 minutes', 60: 'last hour', 360: 'last 6 hours', 1440: 'last day' };
const CLASSES = ['send', 'read', 'typing', 'connect', 'http', 'held'];
const BARS_MAX = 60;

export function show(place, context) {
  const body = el('div.results');
  const select = el('select', { id: 'span', onchange: () => again() },
    ...Object.entries(SPANS).map(([minutes, name]) => el('option', { value: minutes, selected: minutes === '60' }, name)));
  const field = el('div.field.inline', null, el('label', { for: 'span' }, 'Over the'), select);
  place.replaceChildren(head('Rejects', 'Requests that a rate limit refused, from the audit stream.', field), body);
  let asking = null;
  const again = () => {
    asking?.stop();
    asking = poll(2000, (signal) => context.api.look(`rejects?minutes=${select.value}`, signal), (found) => body.replaceChildren(...draw(found)), context.heard);
  };
  again();
  return { stop: () => asking.stop() };
}

function draw(found) {
  const { lag } = found;
  const names = CLASSES.filter((name) => found.by_minute.some((minute) => minute.classes[name]));
  const all = found.by_minute.reduce((sum, minute) => sum + Object.values(minute.classes).reduce((a, b) => a + b, 0), 0);
  return [
    fixedTiles({
      Refused: count(all),
      'Failed sign-ins': count(found.sign_ins),
      'Stream entries': count(lag.entries),
      'Not counted yet': count(lag.waiting + lag.pending),
      'Dead letters': count(lag.dead),
    }),
    barChart({ title: `Refused, ${SPANS[found.minutes] ?? 'by minute'}`, names: names.length ? names : ['refused'],
      bars: grouped(found.by_minute, names), shown: rate, every: 10 }),
    card('Most refused', table('Most refused', [['User'], ['Class'], ['Refused', true]],
      found.top.map((one) => [one.user_id === '*' ? 'others together' : payer(one.user_id), one.class_name, count(one.count)]),
      'Nobody was refused.')),
  ];
}

/** Make at most BARS_MAX bars, each of as many minutes as needed. */
function grouped(minutes, names) {
  const size = Math.ceil(minutes.length / BARS_MAX);
  const bars = [];
  for (let at = 0; at < minutes.length; at += size) {
    const some = minutes.slice(at, at + size);
    bars.push({ label: timeOf(some[0].at_ms).slice(0, 5), parts: names.map((name) => some.reduce((sum, one) => sum + (one.classes[name] ?? 0), 0)) });
  }
  return bars;
}
