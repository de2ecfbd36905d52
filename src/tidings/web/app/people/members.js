// The members of a conversation: who they are, what they may do, and what a leader may do with them.

import { field, personRow, round } from '../parts/controls.js';
import { ask, faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { lastSeenOf } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { openMenu } from '../parts/menu.js';
import { t } from '../parts/words.js';
import { showInvites } from './invitelist.js';
import { inPieces } from './profiles.js';
import { PeopleField } from './picker.js';
import { rulesFields } from './rules.js';

/** @param on { write(userId) } */
export async function showMembers(client, profiles, conversation, title, on) {
  const fault = faultLine();
  const list = el('ul.people', { 'aria-label': t('members') });
  const more = el('div.stack');
  const dialog = openDialog(title, more, fault.line, list);
  let details = null;
  let presences = new Map();
  const ownRole = () => details.members.find((one) => one.userId === client.userId)?.role ?? 'member';
  const isLead = () => details.kind !== 'direct' && ownRole() !== 'member';
  const redraw = () => {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    list.replaceChildren(...details.members.map((one) => memberRow(one, presences.get(one.userId))));
    [...list.querySelectorAll('button')].find((one) => one.dataset.id === focused)?.focus();
  };
  const draw = async () => {
    details = await conversation.details();
    presences = await presencesIn(client, conversation, details.members.map((one) => one.userId));
    redraw();
    profiles.want(conversation, details.members.map((one) => one.userId));
    if (isLead() && !more.firstChild) more.append(...leadTools()); // once: the user may be writing in them
    if (details.name) dialog.querySelector('h2').textContent = details.name;
  };
  dialog.addEventListener('close', profiles.onChange(() => details && redraw()));
  const change = (run) => fault.guard(run).then((isDone) => isDone && fault.guard(draw));

  const memberRow = ({ userId, role }, presence) => {
    const isMe = userId === client.userId;
    const seen = presence?.online ? t('online') : lastSeenOf(presence?.lastSeen, client.now());
    const facts = [details.kind === 'direct' ? '' : t(`role.${role}`), isMe ? t('you') : presence && seen];
    const items = isMe ? [] : choicesFor(userId, role);
    const label = t('actionsFor', { name: profiles.nameOf(userId) });
    const open = () => openMenu(action, label, items);
    const action = items.length ? round(label, 'more', open, { 'data-id': userId, 'aria-haspopup': 'menu' }) : null;
    return personRow(profiles.of(userId), { isOnline: presence?.online, facts, action });
  };

  const choicesFor = (userId, role) => {
    const mayLead = isLead() && role !== 'owner';
    const set = (wanted) => change(() => conversation.setRole(userId, wanted));
    const write = () => {
      dialog.close();
      on.write(userId);
    };
    return [
      details.kind === 'direct' ? null : { icon: 'bubble', label: t('write'), run: write },
      mayLead && role === 'member' ? { icon: 'star', label: t('makeAdmin'), run: () => set('admin') } : null,
      mayLead && role === 'admin' ? { icon: 'user', label: t('makeMember'), run: () => set('member') } : null,
      { icon: 'block', label: t('block'), isHarsh: true, run: () => block(userId) },
      mayLead ? { icon: 'close', label: t('remove'), isHarsh: true, run: () => remove(userId) } : null,
      mayLead ? { icon: 'leave', label: t('ban'), isHarsh: true, run: () => ban(userId) } : null,
    ].filter(Boolean);
  };

  const remove = (userId) => {
    const run = () => conversation.removeMember(userId).then(draw);
    ask(t('removeTitle'), t('removeText', { name: profiles.nameOf(userId) }), t('remove'), run);
  };

  const ban = (userId) => {
    const run = () => client.rules.ban(conversation.id, userId).then(draw);
    ask(t('banTitle', { name: profiles.nameOf(userId) }), t('banText'), t('ban'), run);
  };

  const block = (userId) => {
    ask(t('blockTitle', { name: profiles.nameOf(userId) }), t('blockText'), t('block'), () => client.block(userId));
  };

  /** Buttons for those who lead, each with the form that it opens. */
  const leadTools = () => {
    const invites = tool('link', 'inviteLinks', () => showInvites(client, conversation, profiles));
    invites.setAttribute('aria-haspopup', 'dialog');
    const settings = () => el('div.stack', null, renameForm(), rulesFields(client, conversation, details, change));
    const [add, addPlace] = opening('plus', 'addMembers', addForm);
    const [manage, managePlace] = opening('gear', 'settings', settings);
    return [el('div.tools', null, add, invites, manage), addPlace, managePlace];
  };

  const addForm = () => {
    const people = new PeopleField(client, profiles, {
      id: 'add', label: t('addMembers'), without: () => details.members.map((one) => one.userId),
    });
    const add = async () => {
      if (people.complain() || people.isEmpty) return people.focus();
      if (await change(() => conversation.addMembers(people.ids))) people.clear();
    };
    return oneLine(people.element, t('add'), add);
  };

  const renameForm = () => {
    const facts = { id: 'rename', autocomplete: 'off', maxlength: 100, dir: 'auto', value: details.name ?? '' };
    const input = el('input', facts);
    const rename = () => conversation.update({ name: input.value.trim() || null });
    return oneLine(field('rename', t('name'), input), t('rename'), () => change(rename));
  };

  await fault.guard(draw);
  dialog.querySelector('.dialog-body').focus();
}

const tool = (name, label, run) => el('button.tool', { type: 'button', onclick: run }, icon(name), t(label));

/** A button and the place of the form that it opens and closes. */
function opening(name, label, make) {
  const place = el('div', { hidden: true });
  const button = tool(name, label, () => {
    place.hidden = !place.hidden;
    if (!place.firstChild) place.append(make());
    button.setAttribute('aria-expanded', String(!place.hidden));
    if (!place.hidden) place.querySelector('input')?.focus();
  });
  button.setAttribute('aria-expanded', 'false');
  return [button, place];
}

/** Presence by user id, without people who cannot be asked about now. */
async function presencesIn(client, conversation, ids) {
  const ask = (some) => client.fetchPresence(conversation.id, some).catch(() => []);
  const found = await Promise.all(inPieces(ids).map(ask));
  return new Map(found.flat().map((one) => [one.userId, one]));
}

function oneLine(content, action, run) {
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  return el('form.one-line', { onsubmit: submit }, content, el('button.plain', { type: 'submit' }, action));
}
