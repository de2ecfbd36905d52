// Every setting of the answering node with the source of its value. The server masks secrets.

import { el } from '../app/parts/dom.js';
import { card, fill, head, pill, table } from './parts.js';

export function show(place, context) {
  const body = el('div.results');
  const input = el('input', { id: 'filter', type: 'search', autocomplete: 'off', spellcheck: 'false' });
  const only = el('input', { id: 'changed', type: 'checkbox' });
  const fields = el('div.filters', null, el('div.field', null, el('label', { for: 'filter' }, 'Filter'), input),
    el('label.check', { for: 'changed' }, only, 'Only what is not a default'));
  place.replaceChildren(head('Settings', 'What holds on the node that answers this page.'), fields, body);
  fill(body, () => context.api.look('settings'), (found) => {
    const list = el('div.results');
    const draw = () => list.replaceChildren(...sections(found.settings.filter((one) => isWanted(one, input.value, only.checked))));
    input.addEventListener('input', draw);
    only.addEventListener('change', draw);
    draw();
    return list;
  });
  return null;
}

const isWanted = (one, text, isOnly) =>
  `${one.path} ${one.value} ${one.source} ${one.about}`.toLowerCase().includes(text.trim().toLowerCase()) && !(isOnly && one.source === 'default');

function sections(settings) {
  const groups = new Map();
  for (const one of settings) {
    const name = one.path.includes('.') ? one.path.split('.')[0] : 'general';
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  if (!groups.size) return [el('p.none', null, 'No setting fits.')];
  return [...groups].map(([name, some]) => card(name, table(`Settings: ${name}`, [['Setting'], ['Value'], ['Source']], some.map((one) => [
    el('span', null, el('code', null, one.path), el('small.under', null, one.about)),
    el('span.value', null, one.value === null || one.value === '' ? '–' : String(one.value)),
    pill(one.source, one.source === 'default' ? 'plain' : 'accent'),
  ]))));
}
