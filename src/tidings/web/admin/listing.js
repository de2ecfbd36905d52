// A list with a search, a page at a time: users or conversations.

import { el } from '../app/parts/dom.js';
import { button, head, sentenceOf, table } from './parts.js';

/** `load(query, cursor)` gives { rows, next_cursor }; `row(one)` its cells. A search may end early: then there is more. */
export function showList(place, { title, lead, label, id, columns, load, row, empty }) {
  const input = el('input', { id, type: 'search', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', maxlength: 128 });
  const found = el('div.results');
  const said = el('p.hint', { role: 'status' });
  let [query, rows, cursor, turn] = ['', [], null, 0];
  const more = button('Show more', null, () => page(cursor));
  const page = async (from) => {
    const mine = (turn += 1);
    found.setAttribute('aria-busy', 'true');
    try {
      const next = await load(query, from);
      if (mine !== turn) return; // somebody asked for something else meanwhile
      rows = from ? [...rows, ...next.rows] : next.rows;
      cursor = next.next_cursor;
      said.textContent = query || cursor ? `${rows.length} found${cursor ? ' so far' : ''}.` : '';
      found.replaceChildren(table(title, columns, rows.map(row), cursor ? 'Nothing so far. There is more to look through.' : empty));
    } catch (error) {
      if (mine !== turn) return;
      found.replaceChildren(el('p.fault', { role: 'alert' }, sentenceOf(error)));
    }
    more.hidden = !cursor;
    found.removeAttribute('aria-busy');
  };
  const submit = (event) => {
    event.preventDefault();
    query = input.value.trim();
    page(null);
  };
  more.hidden = true;
  place.replaceChildren(head(title, lead),
    el('form.finder', { onsubmit: submit, role: 'search' },
      el('div.field', null, el('label', { for: id }, label), input), el('button.primary', { type: 'submit' }, 'Search')),
    said, found, more);
  page(null);
}

export const asked = (query, cursor) => new URLSearchParams({ query, ...(cursor ? { cursor } : {}) });
