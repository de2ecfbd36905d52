// API keys: their names and roles, a new one, and the end of one. The key itself is shown once.

import { openDialog } from '../app/parts/dialogs.js';
import { el } from '../app/parts/dom.js';
import { moment } from './figures.js';
import { card, deed, fill, head, pill, sentenceOf, table } from './parts.js';

const ROLES = { readonly: 'read only', admin: 'admin', moderator: 'moderator' };
const TONES = { admin: 'accent', moderator: 'warn', readonly: 'plain' };

export function show(place, context) {
  const listed = el('div.results');
  const load = () => fill(listed, () => context.api.look('keys'), ({ keys }) => card('Keys', table('Keys',
    [['Name'], ['Role'], ['Made'], ['Id'], ['Action']], keys.map((key) => row(key, context, load)), 'None.')));
  place.replaceChildren(head('Keys', 'Programs and operators come with a key. Only its hash is stored.'), form(context, load), listed);
  load();
  return null;
}

function row(key, context, again) {
  const end = async () => {
    await context.api.send('DELETE', `admin/keys/${key.key_id}`);
    again();
  };
  const question = { title: `Revoke the key ${key.name}?`, text: 'Every node refuses it within five seconds. The programs that use it stop working.' };
  return [key.name, pill(ROLES[key.role] ?? key.role, TONES[key.role]), moment(key.created_at), el('code', null, key.key_id),
    deed(context, 'Revoke', 'danger', question, end)];
}

function form(context, again) {
  const isOff = context.me.role !== 'admin';
  const name = el('input', { id: 'key-name', required: true, maxlength: 64, pattern: '[!-~]+', autocomplete: 'off', spellcheck: 'false', disabled: isOff });
  const role = el('select', { id: 'key-role', disabled: isOff },
    ...Object.entries(ROLES).map(([value, text]) => el('option', { value }, text)));
  const fault = el('p.fault', { role: 'alert' });
  const submit = async (event) => {
    event.preventDefault();
    fault.textContent = '';
    try {
      const made = await context.api.send('POST', 'admin/keys', { name: name.value, role: role.value });
      openDialog(`The key ${made.name}`, el('p', null, 'Copy it now: it cannot be shown again.'),
        el('textarea.token', { readonly: true, rows: 3, 'aria-label': 'Key' }, made.key));
      name.value = '';
      again();
    } catch (error) {
      fault.textContent = sentenceOf(error);
    }
  };
  return card('A new key', el('form.finder', { onsubmit: submit },
    el('div.field', null, el('label', { for: 'key-name' }, 'Name'), name),
    el('div.field', null, el('label', { for: 'key-role' }, 'Role'), role),
    el('button.primary', { type: 'submit', disabled: isOff, title: isOff ? 'Your key may only look' : null }, 'Make a key')), fault);
}
