// Charts as SVG, drawn from plain numbers: lines over time, and bars. Each has a sentence for people who cannot see it.
// Lines break where nothing was measured. The charts do not know the meaning of the numbers.

import { el } from '../app/parts/dom.js';
import { timeOf } from './figures.js';
import { svg } from './marks.js';

const ROOM = { top: 10, end: 8, bottom: 22, start: 54 };
const TICKS = 4;

/** The smallest number, not below the given one, whose quarters have few digits. Quarters of counts are whole. */
export function niceMax(value, isWhole = false) {
  const most = isWhole ? Math.max(value, TICKS) : value;
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const tops = [1, 2, 4, 6, 8, 10, 12].map((step) => step * power);
  return tops.find((top) => top >= most * 0.999 && (!isWhole || top % TICKS === 0));
}

/** The digits after the point that write every tick of the axis exactly. */
export const tickDigits = (top) => Math.max(1 - Math.floor(Math.log10(top / TICKS)), 1);

/**
 * `series`: [{ name, of: (point) => number or null }]; `shown(value, digits)`: a number as text; `isWhole`: they are counts.
 * `update(points)` draws points with at_ms, oldest first, over the last minute or as many as it takes, `span_ms` at most.
 */
export function lineChart({ title, series, shown, span_ms: most_ms, isFilled = false, isWhole = false }) {
  const drawing = svg('svg', { class: 'chart', role: 'img', 'aria-label': title });
  const tip = el('div.chart-tip', { hidden: true, 'aria-hidden': 'true' });
  const values = series.map(() => el('strong'));
  const key = el('figcaption.chart-key', null,
    el('h2', null, title),
    el('ul', null, ...series.map((one, at) =>
      el('li', null, el(`span.swatch.tone-${at}`, { 'aria-hidden': 'true' }), el('span', null, one.name), values[at]))));
  const figure = el('figure.card.figure', null, key, el('div.chart-place', null, drawing, tip));
  let points = [];
  let frame = null;

  const draw = () => {
    const { width, height } = drawing.getBoundingClientRect();
    if (!width || !height) return;
    drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const end_ms = points.at(-1)?.at_ms ?? Date.now();
    const span_ms = spanOf(end_ms - (points[0]?.at_ms ?? end_ms), most_ms);
    const inner = { width: width - ROOM.start - ROOM.end, height: height - ROOM.top - ROOM.bottom };
    const top = niceMax(Math.max(0, ...points.flatMap((point) => series.map((one) => one.of(point) ?? 0))), isWhole);
    frame = {
      x: (at_ms) => ROOM.start + inner.width * (1 - (end_ms - at_ms) / span_ms),
      y: (value) => ROOM.top + inner.height * (1 - value / top),
      bottom: ROOM.top + inner.height,
    };
    drawing.replaceChildren(...grid(width, top, shown, frame), ...times(end_ms, span_ms, frame, height),
      ...series.flatMap((one, at) => paths(points, one, at, frame, isFilled)));
  };

  const point = (event) => {
    if (!frame || !points.length) return;
    const box = drawing.getBoundingClientRect();
    const nearest = points.reduce((best, one) =>
      Math.abs(frame.x(one.at_ms) - (event.clientX - box.left)) < Math.abs(frame.x(best.at_ms) - (event.clientX - box.left)) ? one : best);
    const x = frame.x(nearest.at_ms);
    drawing.querySelector('.chart-line')?.remove();
    drawing.append(svg('path', { class: 'chart-line', d: `M${x} ${ROOM.top}V${frame.bottom}` }));
    tip.replaceChildren(el('span', null, timeOf(nearest.at_ms)), ...series.map((one, at) =>
      el('span', null, el(`span.swatch.tone-${at}`), `${one.name} `, el('strong', null, shown(one.of(nearest))))));
    tip.hidden = false;
    tip.style.insetInlineStart = `${Math.min(Math.max(x - 60, 0), Math.max(box.width - 150, 0))}px`;
  };
  const leave = () => {
    tip.hidden = true;
    drawing.querySelector('.chart-line')?.remove();
  };
  drawing.addEventListener('pointermove', point);
  drawing.addEventListener('pointerleave', leave);
  new ResizeObserver(draw).observe(drawing);

  const update = (given) => {
    points = given;
    const last = points.at(-1);
    series.forEach((one, at) => { values[at].textContent = shown(last ? one.of(last) : null); });
    const said = series.map((one) => {
      const most = Math.max(0, ...points.map((each) => one.of(each) ?? 0));
      return `${one.name} now ${shown(last ? one.of(last) : null)}, highest ${shown(most)}`;
    });
    drawing.setAttribute('aria-label', `${title}. ${said.join('; ')}.`);
    draw();
  };
  return { figure, update };
}

/** Whole minutes that hold the points, so that the chart of a new node is not almost empty. */
const spanOf = (known_ms, most_ms) => Math.min(Math.max(Math.ceil((known_ms - 4000) / 60_000), 1) * 60_000, most_ms);

function grid(width, top, shown, frame) {
  const made = [];
  const digits = tickDigits(top);
  for (let tick = 0; tick <= TICKS; tick += 1) {
    const value = (top * tick) / TICKS;
    const y = Math.round(frame.y(value)) + 0.5;
    made.push(svg('path', { class: 'chart-grid', d: `M${ROOM.start} ${y}H${width - ROOM.end}` }));
    made.push(svg('text', { class: 'chart-text', x: ROOM.start - 8, y: y + 4, 'text-anchor': 'end' }, shown(value, digits)));
  }
  return made;
}

function times(end_ms, span_ms, frame, height) {
  const step_s = span_ms > 3_600_000 ? 14_400 : span_ms > 120_000 ? 60 : span_ms > 60_000 ? 30 : 15;
  const steps = Math.floor(span_ms / (step_s * 1000));
  const name = (back) => (back === 0 ? 'now' : step_s >= 3600 ? `-${(back * step_s) / 3600} h` : (back * step_s) % 60 ? `-${back * step_s} s` : `-${(back * step_s) / 60} min`);
  return Array.from({ length: steps + 1 }, (_, back) => svg('text', {
    class: 'chart-text',
    x: frame.x(end_ms - back * step_s * 1000),
    y: height - 5,
    'text-anchor': back === 0 ? 'end' : back === steps ? 'start' : 'middle',
  }, name(back)));
}

function paths(points, one, at, frame, isFilled) {
  const runs = [];
  let run = [];
  for (const point of points) {
    const value = one.of(point);
    if (value === null || value === undefined) {
      if (run.length) runs.push(run);
      run = [];
    } else run.push([frame.x(point.at_ms), frame.y(value)]);
  }
  if (run.length) runs.push(run);
  const inside = runs.map((each) => each.filter(([x]) => x >= ROOM.start - 0.5)).filter((each) => each.length);
  const text = (each) => each.map(([x, y], index) => `${index ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
  const lines = inside.map((each) => each.length > 1
    ? svg('path', { class: `chart-stroke tone-${at}`, d: text(each) })
    : svg('circle', { class: `chart-bar tone-${at}`, cx: each[0][0], cy: each[0][1], r: 2.5 }));
  const fills = isFilled && at === 0 ? inside.map((each) => svg('path', {
    class: `chart-fill tone-${at}`,
    d: `${text(each)}L${each.at(-1)[0].toFixed(1)} ${frame.bottom}L${each[0][0].toFixed(1)} ${frame.bottom}Z`,
  })) : [];
  return [...fills, ...lines];
}

/** Bars of counts, each a stack: `bars` = [{ label, parts: [number] }]. `every`: the distance between written labels. */
export function barChart({ title, names, bars, shown, every = 1, note = null }) {
  const sums = bars.map((bar) => bar.parts.reduce((all, part) => all + part, 0));
  const drawing = svg('svg', { class: 'chart', role: 'img', 'aria-label': sentence(title, bars, sums, shown) });
  const draw = () => {
    const { width, height } = drawing.getBoundingClientRect();
    if (!width || !height) return;
    drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const top = niceMax(Math.max(0, ...sums), true);
    const inner = { width: width - ROOM.start - ROOM.end, height: height - ROOM.top - ROOM.bottom };
    const frame = { y: (value) => ROOM.top + inner.height * (1 - value / top), bottom: ROOM.top + inner.height };
    const each = inner.width / bars.length;
    const gap = Math.min(each * 0.25, 6);
    const made = grid(width, top, shown, frame);
    bars.forEach((bar, at) => {
      const x = ROOM.start + each * at + gap / 2;
      let below = 0;
      bar.parts.forEach((part, tone) => {
        if (!part) return;
        const y = frame.y(below + part);
        const facts = { class: `chart-bar tone-${tone}`, x: x.toFixed(1), y: y.toFixed(1), rx: 2 };
        const title = svg('title', null, `${bar.label}: ${names[tone]} ${shown(part)}`);
        made.push(svg('rect', { ...facts, width: Math.max(each - gap, 1).toFixed(1), height: Math.max(frame.y(below) - y, 1).toFixed(1) }, title));
        below += part;
      });
      if (at % every === (bars.length - 1) % every) {
        const anchor = at === bars.length - 1 ? 'end' : 'middle';
        const at_x = at === bars.length - 1 ? width - ROOM.end : x + each / 2;
        made.push(svg('text', { class: 'chart-text', x: at_x, y: height - 5, 'text-anchor': anchor }, bar.label));
      }
    });
    drawing.replaceChildren(...made);
  };
  new ResizeObserver(draw).observe(drawing);
  const key = names.length > 1 ? el('ul', null, ...names.map((name, at) =>
    el('li', null, el(`span.swatch.tone-${at}`, { 'aria-hidden': 'true' }), el('span', null, name)))) : note;
  return el('figure.card.figure', null,
    el('figcaption.chart-key', null, el('h2', null, title), key), el('div.chart-place', null, drawing));
}

function sentence(title, bars, sums, shown) {
  const most = sums.indexOf(Math.max(...sums));
  if (!bars.length || !sums[most]) return `${title}. None.`;
  return `${title}. Last ${shown(sums.at(-1))}; highest ${shown(sums[most])}, ${bars[most].label}.`;
}

/** A line without axes, for a tile. Each value keeps its place, also beside unknown values. */
export function spark() {
  const drawing = svg('svg', { class: 'spark', viewBox: '0 0 100 28', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const update = (values) => {
    const step = 100 / Math.max(values.length - 1, 1);
    const known = values.map((value, at) => [(at * step).toFixed(1), value]).filter(([, value]) => value !== null && value !== undefined);
    const top = Math.max(...known.map(([, value]) => value), 0.001);
    const d = known.map(([x, value], at) => `${at ? 'L' : 'M'}${x} ${(26 - (24 * value) / top).toFixed(1)}`);
    drawing.replaceChildren(...(known.length > 1
      ? [svg('path', { class: 'chart-fill tone-0', d: `${d.join('')}L${known.at(-1)[0]} 28L${known[0][0]} 28Z` }),
        svg('path', { class: 'chart-stroke tone-0', d: d.join(''), 'vector-effect': 'non-scaling-stroke' })]
      : []));
  };
  return { drawing, update };
}
