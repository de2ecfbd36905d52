// Dialogs about people: a new conversation, its members, the receipts of a message, the own name.

import { idField, personRow, round } from './controls.js';
import { ask, faultLine, openDialog } from './dialogs.js';
import { el } from './dom.js';
import { lastSeenOf, numberOf } from './format.js';
import { icon, tick, TICK_LABELS } from './icons.js';
import { inPieces } from './profiles.js';

const KINDS = [['direct', 'user', 'Direct'], ['group', 'people', 'Group'], ['channel', 'hash', 'Channel']];
const ROLES = { owner: 'Owner', admin: 'Admin', member: 'Member' };

const ID = /^[A-Za-z0-9_.@-]{1,128}$/u;

/** Read user ids from a text. Throws an error with a sentence for a word that is no id. */
function idsOf(text) {
  const ids = [...new Set(text.split(/[\s,;]+/u).filter(Boolean))];
  const wrong = ids.find((id) => !ID.test(id));
  if (wrong) throw new Error(`“${wrong}” is no user id: those have letters from a to z, digits, and the signs . _ @ - only.`);
  return ids;
}

/** Ask for kind, people and name; `open` gets the new conversation. */
export function newConversation(client, open) {
  const fault = faultLine();
  const people = idField('people');
  const name = el('input', { id: 'title', autocomplete: 'off', maxlength: 200, dir: 'auto' });
  const nameField = el('div.field', { hidden: true }, el('label', { for: 'title' }, 'Name'), name);
  const peopleLabel = el('label', { for: 'people' }, 'With whom');
  const hint = el('p.hint', null, 'Their user id.');
  const choose = (kind) => {
    nameField.hidden = kind === 'direct';
    peopleLabel.textContent = kind === 'direct' ? 'With whom' : 'Members';
    hint.textContent = kind === 'direct' ? 'Their user id.' : 'User ids, with spaces or commas. You are in it anyway.';
    people.required = kind === 'direct';
  };
  const submit = async (event) => {
    event.preventDefault();
    const kind = form.elements.kind.value;
    const make = async () => create(client, kind, idsOf(people.value), name.value.trim());
    if (await fault.guard(async () => open(await make()))) dialog.close();
  };
  const form = el('form.dialog-body', { onsubmit: submit }, kindChoice(choose), nameField,
    el('div.field', null, peopleLabel, people, hint), fault.line,
    el('div.dialog-foot', null, el('button.primary', { type: 'submit' }, 'Start')));
  const dialog = openDialog('New conversation');
  dialog.querySelector('.dialog-body').replaceWith(form);
  people.focus();
}

function kindChoice(choose) {
  const options = KINDS.map(([kind, picture, label]) => {
    const facts = { type: 'radio', name: 'kind', value: kind, checked: kind === 'direct', onchange: () => choose(kind) };
    return el('label.choice', null, el('input', facts), icon(picture), label);
  });
  return el('fieldset.choices', null, el('legend', null, 'Kind'), ...options);
}

async function create(client, kind, ids, name) {
  if (kind !== 'direct') return client.createConversation({ kind, members: ids, name: name || null });
  if (ids.length !== 1) throw new Error('A direct conversation is with one person: one user id, without spaces.');
  if (ids[0] === client.userId) throw new Error('That is you.');
  return client.direct(ids[0]);
}

// --- members ---

export async function showMembers(client, profiles, conversation, title) {
  const fault = faultLine();
  const list = el('ul.people', { 'aria-label': 'Members' });
  const more = el('div');
  const dialog = openDialog(title, more, fault.line, list);
  let details = null;
  let presences = new Map();
  const isLead = () => {
    const mine = details.members.find((one) => one.userId === client.userId)?.role ?? 'member';
    return details.kind !== 'direct' && mine !== 'member';
  };
  const redraw = () => {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    list.replaceChildren(...details.members.map((one) => memberRow(one, presences.get(one.userId), isLead())));
    [...list.querySelectorAll('button')].find((one) => one.dataset.id === focused)?.focus();
  };
  const draw = async () => {
    details = await conversation.details();
    presences = await presencesIn(client, conversation, details.members.map((one) => one.userId));
    redraw();
    profiles.want(conversation, details.members.map((one) => one.userId));
    if (isLead() && !more.firstChild) more.append(renameForm(), addForm()); // once: the user may be writing in them
    if (details.name) dialog.querySelector('h2').textContent = details.name;
  };
  dialog.addEventListener('close', profiles.onChange(() => details && redraw()));
  const change = (run) => fault.guard(run).then((isDone) => isDone && fault.guard(draw));

  const memberRow = ({ userId, role }, presence, mayRemove) => {
    const isMe = userId === client.userId;
    const seen = presence?.online ? 'online' : lastSeenOf(presence?.lastSeen, client.now());
    const facts = [details.kind === 'direct' ? '' : ROLES[role], isMe ? 'you' : presence && seen];
    const isRemovable = mayRemove && !isMe && role !== 'owner';
    const label = `Remove ${profiles.nameOf(userId)}`;
    const action = isRemovable ? round(label, 'close', () => remove(userId), { 'data-id': userId }) : null;
    return personRow(profiles.of(userId), { isOnline: presence?.online, facts, action });
  };

  const remove = (userId) => {
    const run = () => conversation.removeMember(userId).then(draw);
    ask('Remove from the conversation', `${profiles.nameOf(userId)} will not see what comes.`, 'Remove', run);
  };

  const addForm = () => {
    const input = idField('add');
    return oneLine('add', 'Add members', input, 'Add', () => change(async () => {
      await conversation.addMembers(idsOf(input.value));
      input.value = '';
    }));
  };

  const renameForm = () => {
    const facts = { id: 'rename', autocomplete: 'off', maxlength: 200, dir: 'auto', value: details.name ?? '' };
    const input = el('input', facts);
    const rename = () => conversation.update({ name: input.value.trim() || null });
    return oneLine('rename', 'Name', input, 'Rename', () => change(rename));
  };

  await fault.guard(draw);
  dialog.querySelector('.dialog-body').focus();
}

/** Presence by user id, without people who cannot be asked about now. */
async function presencesIn(client, conversation, ids) {
  const ask = (some) => client.fetchPresence(conversation.id, some).catch(() => []);
  const found = await Promise.all(inPieces(ids).map(ask));
  return new Map(found.flat().map((one) => [one.userId, one]));
}

function oneLine(id, label, input, action, run) {
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  return el('form.one-line', { onsubmit: submit }, el('div.field', null, el('label', { for: id }, label), input),
    el('button.plain', { type: 'submit' }, action));
}

// --- receipts ---

/** Show the members who have read a message, those who have it, and the rest. */
export async function showReceipts(profiles, conversation, message) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const dialog = openDialog('Who has read it', fault.line, place);
  let lists = [];
  const redraw = () => place.replaceChildren(...lists.flatMap(([state, ids]) => stateList(state, ids, profiles)));
  dialog.addEventListener('close', profiles.onChange(redraw));
  await fault.guard(async () => {
    const { read, delivered, pending } = await conversation.receipts(message.seq);
    lists = [['read', read], ['delivered', delivered], ['sent', pending]];
    redraw();
    profiles.want(conversation, lists.flatMap(([, ids]) => ids));
  });
  place.removeAttribute('aria-busy');
}

function stateList(state, ids, profiles) {
  if (!ids.length) return [];
  const label = state === 'sent' ? 'Not delivered yet' : TICK_LABELS[state];
  return [
    el('h3.people-title', null, el('span.tick-sample', null, tick(state)), `${label} (${numberOf(ids.length)})`),
    el('ul.people', { 'aria-label': label }, ...ids.map((id) => personRow(profiles.of(id)))),
  ];
}

// --- the own profile ---

export async function showProfile(client, profiles) {
  const fault = faultLine();
  const name = el('input', { id: 'profile-name', maxlength: 200, dir: 'auto', autocomplete: 'name' });
  const picture = el('input', { id: 'profile-url', type: 'url', placeholder: 'https://', autocomplete: 'photo' });
  const submit = async (event) => {
    event.preventDefault();
    const asked = { name: name.value.trim() || null, avatarUrl: picture.value.trim() || null };
    const put = async () => {
      if (asked.avatarUrl && !/^https:\/\/[^\s<>"']+$/u.test(asked.avatarUrl)) {
        throw new Error('The address of a picture begins with https:// and has no spaces.');
      }
      profiles.learn(await client.putProfile(asked));
    };
    if (await fault.guard(put)) dialog.close();
  };
  const form = el('form.dialog-body', { onsubmit: submit, novalidate: true },
    el('div.field', null, el('label', { for: 'profile-name' }, 'Name'), name,
      el('p.hint', null, 'Shown to everybody you share a conversation with.')),
    el('div.field', null, el('label', { for: 'profile-url' }, 'Picture (address)'), picture), fault.line,
    el('div.dialog-foot', null, el('button.primary', { type: 'submit' }, 'Save')));
  const dialog = openDialog('Your profile');
  dialog.querySelector('.dialog-body').replaceWith(form);
  name.focus();
  await fault.guard(async () => {
    const profile = await client.getProfile(client.userId);
    name.value = profile.name ?? '';
    picture.value = profile.avatarUrl ?? '';
  });
}
