// A new conversation: of two people, a group or a channel.

import { field, formOf } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { icon } from '../parts/icons.js';
import { t } from '../parts/words.js';
import { PeopleField } from './picker.js';

const KINDS = [['direct', 'user'], ['group', 'people'], ['channel', 'hash']];

/** Ask for kind, people and name; `open` gets the new conversation. */
export function newConversation(client, profiles, open) {
  const fault = faultLine();
  const people = new PeopleField(client, profiles, {
    id: 'people', label: t('withWhom'), isSingle: true,
    picked: ({ isUnknown }) => people.options.isSingle && !isUnknown && submit(), // an unknown id needs a second word
  });
  const name = el('input', { id: 'title', autocomplete: 'off', maxlength: 100, dir: 'auto' });
  const nameField = field('title', t('name'), name);
  nameField.hidden = true;
  const choose = (kind) => {
    nameField.hidden = kind === 'direct';
    people.isSingle = kind === 'direct';
    people.label = kind === 'direct' ? t('withWhom') : t('members');
    if (kind === 'direct' && people.chosen.length > 1) people.clear();
    people.focus();
  };
  const submit = async () => {
    if (people.complain()) return people.focus();
    const kind = form.elements.kind.value;
    const make = () => create(client, kind, people.ids, name.value.trim());
    if (await fault.guard(async () => open(await make()))) dialog.close();
  };
  const form = formOf(submit, kindChoice(choose), nameField, people.element, fault.line,
    el('div.dialog-foot', null, el('button.primary', { type: 'submit' }, t('start'))));
  const dialog = openDialog(t('newConversation'));
  dialog.querySelector('.dialog-body').replaceWith(form);
  people.focus();
}

function kindChoice(choose) {
  const options = KINDS.map(([kind, picture]) => {
    const facts = { type: 'radio', name: 'kind', value: kind, checked: kind === 'direct', onchange: () => choose(kind) };
    return el('label.choice', null, el('input', facts), icon(picture), t(`kind.${kind}`));
  });
  return el('fieldset.choices', null, el('legend', null, t('kindOf')), ...options);
}

async function create(client, kind, ids, name) {
  if (kind !== 'direct') return client.createConversation({ kind, members: ids, name: name || null });
  if (ids.length !== 1) throw new Error(t('chooseOne'));
  return client.direct(ids[0]);
}
