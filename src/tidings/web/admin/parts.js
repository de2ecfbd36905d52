// The parts of the views: heads, tiles, tables, pills, facts, and fields for a search.

import { ask } from '../app/parts/dialogs.js';
import { el, setText } from '../app/parts/dom.js';
import { spark } from './charts.js';
import { mark } from './marks.js';

/** The head of a view: its title, a sentence, and its actions. */
export function head(title, lead, ...actions) {
  return el('header.view-head', null,
    el('div', null, el('h1', { tabindex: -1 }, title), el('p.lead', null, lead)),
    actions.length ? el('div.view-actions', null, ...actions) : null);
}

export function card(title, ...body) {
  return el('section.card', { 'aria-label': title }, el('h2', null, title), ...body);
}

/** One number, with its recent past if known, and its time if that is not now. */
export function tile(label, isLively = false) {
  const title = el('dt', null, label);
  const value = el('dd', null, '–');
  const line = isLively ? spark() : null;
  const node = el('div.tile', null, title, value, line?.drawing);
  return {
    node,
    set: (text, past = null, when = '') => {
      setText(title, when ? `${label}, ${when}` : label);
      setText(value, text);
      if (line && past) line.update(past);
    },
  };
}

export const tiles = (...made) => el('dl.tiles', null, ...made.map((one) => one.node));

/** Tiles whose values are known at once. */
export function fixedTiles(facts) {
  return el('dl.tiles', null, ...Object.entries(facts).map(([label, value]) => {
    const { node, set } = tile(label);
    set(String(value));
    return node;
  }));
}

/** `columns`: [title, isNumber]; cells are text or nodes. */
export function table(label, columns, rows, empty = 'None.') {
  if (!rows.length) return el('p.none', null, empty);
  const heads = columns.map(([title, isNumber]) => el(`th${isNumber ? '.number' : ''}`, { scope: 'col' }, title));
  const body = rows.map((cells) => el('tr', null, ...cells.map((cell, at) =>
    el(`td${columns[at][1] ? '.number' : ''}`, { 'data-label': columns[at][0] }, cell ?? '–'))));
  const inner = el('table', null, el('caption.quiet', null, label), el('thead', null, el('tr', null, ...heads)),
    el('tbody', null, ...body));
  return el('div.table-place', { tabindex: 0, role: 'group', 'aria-label': label }, inner);
}

export const pill = (text, tone = 'plain') => el(`span.pill.pill-${tone}`, null, text);

export function facts(pairs) {
  return el('dl.facts', null, ...Object.entries(pairs).map(([name, value]) =>
    el('div', null, el('dt', null, name), el('dd', null, value ?? '–'))));
}

export const linkTo = (view, id) => el('a.id', { href: `#/${view}/${encodeURIComponent(id)}` }, id);

const KEY = /^key-([0-9a-f]{8})[0-9a-f]{24}$/;

/** The owner of a budget: a user, or an API key by the first digits of its hash, as `tidings key list` shows them. */
export function payer(id) {
  const key = KEY.exec(id);
  return key ? el('span', null, 'API key ', el('span.id', null, key[1])) : linkTo('users', id);
}

export function button(text, name, run, { kind = 'plain', isOff = false, why = null } = {}) {
  const facts = { type: 'button', onclick: run, disabled: isOff, title: isOff ? why : null };
  return el(`button.${kind}.small`, facts, name ? mark(name) : null, text);
}

/** A button for admins. A read-only key sees it disabled, with the reason. */
export function deed(context, text, kind, question, run) {
  const isOff = context.me.role !== 'admin';
  return button(text, null, () => ask(question.title, question.text, text, run),
    { kind, isOff, why: 'Your key may only look' });
}

/** A field to find something by its id. */
export function finder(label, id, value, find) {
  const input = el('input', { id, value, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', maxlength: 128, required: true });
  const submit = (event) => {
    event.preventDefault();
    if (input.value.trim()) find(input.value.trim());
  };
  return el('form.finder', { onsubmit: submit, role: 'search' },
    el('div.field', null, el('label', { for: id }, label), input),
    el('button.primary', { type: 'submit' }, 'Look up'));
}

const turns = new WeakMap(); // place -> its latest `fill`

/** Fill a place with the answer of `load`, drawn by `draw`, or with the reason why there is none. The latest call wins. */
export async function fill(place, load, draw) {
  const turn = {};
  turns.set(place, turn);
  place.setAttribute('aria-busy', 'true');
  const made = await load().then(draw).catch((error) => el('p.fault', { role: 'alert' }, sentenceOf(error)));
  if (turns.get(place) !== turn) return;
  place.replaceChildren(...[made].flat());
  place.removeAttribute('aria-busy');
}

export function sentenceOf(error) {
  if (error.status === undefined) return 'This node does not answer just now.';
  if (error.code === 'not_found') return 'There is nothing of this name.';
  if (error.code === 'bad_request') return 'That is not an id: letters, digits and _ . @ - only.';
  return error.message;
}
