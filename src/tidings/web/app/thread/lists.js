// Lists of messages in a dialog: those that are pinned in a conversation, and those that the user saved. A press goes to
// the message.

import { avatarOf } from '../parts/avatar.js';
import { round } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { shortWhen } from '../parts/format.js';
import { t } from '../parts/words.js';
import { titleOf } from '../inbox/row.js';
import { lineOf } from './quotes.js';

/** @param rows [{ conversation, message }]; on { open(conversation, seq), remove(row) | null } */
function messageList(client, profiles, rows, on, emptyText) {
  if (!rows.length) return el('p.hint', null, emptyText);
  return el('ul.message-list', null, ...rows.map((row) => {
    const { conversation, message } = row;
    const { name, url } = profiles.of(message.senderId);
    const who = message.senderId === client.userId ? t('you') : name;
    const place = on.isMixed ? ` · ${titleOf(conversation)}` : '';
    const open = el('button.listed', { type: 'button', onclick: () => on.open(conversation, message.seq) },
      avatarOf({ id: name, name, url, size: 'small' }),
      el('div.hit', null,
        el('div.row-line', null, el('strong', { dir: 'auto' }, `${who}${place}`), el('span.row-when', null, shortWhen(message.sentAt, client.now()))),
        el('p', { dir: 'auto' }, lineOf(message))));
    return el('li', null, open, on.remove ? round(on.removeLabel, 'close', () => on.remove(row)) : null);
  }));
}

async function showList(client, profiles, title, emptyText, load, on) {
  const fault = faultLine();
  const place = el('div', { 'aria-busy': 'true' });
  const dialog = openDialog(title, fault.line, place);
  const open = (conversation, seq) => {
    dialog.close();
    on.open(conversation, seq);
  };
  const draw = async () => {
    const rows = await load();
    for (const { conversation, message } of rows) profiles.want(conversation, [message.senderId]);
    const remove = on.remove && ((row) => fault.guard(() => on.remove(row).then(draw)));
    place.replaceChildren(messageList(client, profiles, rows, { ...on, open, remove }, emptyText));
  };
  dialog.addEventListener('close', profiles.onChange(() => {}));
  await fault.guard(draw);
  place.removeAttribute('aria-busy');
  place.querySelector('button')?.focus();
}

export function showPins({ client, profiles, conversation, reading }) {
  const load = async () => {
    const { pins = [], messages = pins } = await client.rest('GET', `/v1/conversations/${encodeURIComponent(conversation.id)}/pins`);
    return messages.map((one) => ({ conversation, message: one.message ?? one }));
  };
  return showList(client, profiles, t('pinnedMessages'), t('noPins'), load, { open: (_, seq) => reading.jumpToSeq(seq) });
}

/** @param open(conversation, seq) */
export function showSaved(client, profiles, open) {
  const load = async () => {
    const { saved } = await client.rest('GET', '/v1/saved');
    return saved.map(({ conversationId, message }) => ({ conversation: client.conversation(conversationId), message }));
  };
  const remove = ({ conversation, message }) => saveMessage(client, conversation, message, false);
  return showList(client, profiles, t('savedMessages'), t('noSaved'), load, { open, remove, removeLabel: t('unsave'), isMixed: true });
}

export async function saveMessage(client, conversation, message, isOn = true) {
  await client.rest(isOn ? 'PUT' : 'DELETE', `/v1/saved/${encodeURIComponent(conversation.id)}/${message.seq}`);
}

export async function pinMessage(client, conversation, message, isOn) {
  await client.rest(isOn ? 'PUT' : 'DELETE', `/v1/conversations/${encodeURIComponent(conversation.id)}/messages/${message.seq}/pin`);
}
