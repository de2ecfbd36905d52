// The overview: traffic of all nodes together over the last five minutes and the last day, and the people online.

import { el, setText } from '../app/parts/dom.js';
import { barChart, lineChart } from './charts.js';
import { count, dayOf, lasting, millis, rate } from './figures.js';
import { card, head, pill, tile, tiles } from './parts.js';
import { poll } from './poll.js';

const SPAN_MS = 5 * 60_000;
const DAY_MS = 24 * 3_600_000;
const EVERY_MS = 2000;
const QUIET_MS = 6000; // this long after the last acknowledgement the tile shows the age of the figure
const STAGES = ['admit', 'number', 'store', 'index', 'acknowledge', 'route'];
const ABOUT = {
  admit: 'ask the limiter',
  number: 'give out the next number',
  store: 'commit to the tables',
  index: 'inbox and unread of every member',
  acknowledge: 'answer the sender',
  route: 'hand to sockets and other nodes',
};

export function show(place, context) {
  const live = pill('live', 'good');
  const parts = {
    messages: tile('Messages / s', true),
    deliveries: tile('Deliveries / s', true),
    connections: tile('Connections', true),
    ack: tile('Ack p99', true),
    rejects: tile('Refused / s', true),
    nodes: tile('Nodes'),
  };
  const charts = {
    flow: lineChart({ title: 'Messages and deliveries / s', shown: rate, span_ms: SPAN_MS, isFilled: true,
      series: [{ name: 'messages', of: (one) => one.messages }, { name: 'deliveries', of: (one) => one.deliveries }] }),
    ack: lineChart({ title: 'Time to acknowledge', shown: millis, span_ms: SPAN_MS,
      series: [{ name: 'p50', of: (one) => one.ack.p50_ms }, { name: 'p99', of: (one) => one.ack.p99_ms }] }),
    connections: lineChart({ title: 'Connections', shown: rate, span_ms: SPAN_MS, isFilled: true, isWhole: true,
      series: [{ name: 'open', of: (one) => one.connections }] }),
    rejects: lineChart({ title: 'Refused / s', shown: rate, span_ms: SPAN_MS, isFilled: true,
      series: [{ name: 'refused', of: (one) => one.rejects }] }),
  };
  const day = {
    flow: lineChart({ title: 'Last 24 h: messages and deliveries / min', shown: rate, span_ms: DAY_MS, isFilled: true,
      series: [{ name: 'messages', of: (one) => one.messages }, { name: 'deliveries', of: (one) => one.deliveries }] }),
    connections: lineChart({ title: 'Last 24 h: connections', shown: rate, span_ms: DAY_MS, isFilled: true, isWhole: true,
      series: [{ name: 'open', of: (one) => one.connections }] }),
  };
  const stages = stageTable();
  const days = el('div');
  place.replaceChildren(
    head('Overview', 'All nodes together, over the last five minutes. The last day is below.', live),
    tiles(...Object.values(parts)),
    el('div.charts', null, ...Object.values(charts).map((one) => one.figure)),
    card('Time in each stage', stages.node),
    el('div.charts', null, ...Object.values(day).map((one) => one.figure)),
    days,
  );
  let points = [];
  const draw = (found) => {
    const first = found.points[0]?.at_ms ?? Infinity;
    points = [...points.filter((one) => one.at_ms < first), ...found.points];
    const end_ms = points.at(-1)?.at_ms ?? 0;
    points = points.filter((one) => one.at_ms > end_ms - SPAN_MS);
    const last = points.at(-1);
    for (const name of ['messages', 'deliveries', 'connections', 'rejects']) {
      parts[name].set(rate(last?.[name]), points.map((one) => one[name]));
    }
    const acked = points.findLast((one) => one.ack.p99_ms !== null);
    const quiet_ms = acked ? last.at_ms - acked.at_ms : 0;
    const when = quiet_ms > QUIET_MS ? `${lasting(quiet_ms)} ago` : '';
    parts.ack.set(millis(acked?.ack.p99_ms), points.map((one) => one.ack.p99_ms), when);
    parts.nodes.set(String(found.nodes.length));
    for (const chart of Object.values(charts)) chart.update(points);
    stages.update(acked, when);
  };
  const asking = poll(EVERY_MS, (signal) => context.api.look(`overview?since=${Math.max((points.at(-1)?.at_ms ?? 0) - 6000, 0)}`, signal), draw,
    (error) => {
      context.heard(error);
      setText(live, error ? 'lost' : 'live');
      live.className = `pill pill-${error ? 'bad' : 'good'}`;
    });
  const askingDays = poll(60_000, (signal) => context.api.look('activity', signal), (found) => days.replaceChildren(daily(found)), () => {});
  const askingDay = poll(60_000, (signal) => context.api.look('traffic', signal), (found) => {
    const slots = byMinute(found);
    for (const chart of Object.values(day)) chart.update(slots);
  }, () => {});
  return { stop: () => [asking, askingDays, askingDay].forEach((one) => one.stop()) };
}

/** Slots with counts of a minute; the last one, which is not over, is left out. */
function byMinute({ slot_ms, slots }) {
  const minutes = slot_ms / 60_000;
  return slots.slice(0, -1).map((one) => ({ ...one, messages: one.messages / minutes, deliveries: one.deliveries / minutes }));
}

function stageTable() {
  const rows = STAGES.map((stage) => {
    const cells = { p50: el('span'), p99: el('span'), bar: el('span.stage-bar', { 'aria-hidden': 'true' }) };
    const node = el('li', null, el('div.stage-name', null, el('strong', null, stage), el('small', null, ABOUT[stage])),
      el('div.stage-track', null, cells.bar), el('div.stage-figures', null, 'p50 ', cells.p50, ' · p99 ', cells.p99));
    return { stage, node, ...cells };
  });
  const note = el('p.none', { hidden: true });
  const update = (point, when) => {
    setText(note, `Of the last acknowledgements, ${when}.`);
    note.hidden = !when;
    const most = Math.max(...rows.map((row) => point?.stages[row.stage]?.p99_ms ?? 0), 0.001);
    for (const row of rows) {
      const found = point?.stages[row.stage];
      setText(row.p50, millis(found?.p50_ms));
      setText(row.p99, millis(found?.p99_ms));
      row.bar.style.inlineSize = `${(100 * (found?.p99_ms ?? 0)) / most}%`;
    }
  };
  return { node: el('div', null, note, el('ol.stages', null, ...rows.map((row) => row.node))), update };
}

function daily(found) {
  const note = el('ul', null,
    el('li', null, 'today ', el('strong', null, count(found.daily.at(-1)?.users))),
    el('li', null, '7 days ', el('strong', null, count(found.week))),
    el('li', null, '30 days ', el('strong', null, count(found.month))));
  const bars = found.daily.map((day) => ({ label: dayOf(day.day), parts: [day.users] }));
  return barChart({ title: 'Daily active users', names: ['users'], bars, shown: rate, every: 7, note });
}
