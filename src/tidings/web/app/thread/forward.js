// Forward a message to other conversations: a new message with its text and copies of its files, and `data.forwarded`,
// which names who wrote it first. The name is the word of the person who forwards: the server does not check it.

import { avatarOf } from '../parts/avatar.js';
import { formOf } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { folded } from '../parts/format.js';
import { t } from '../parts/words.js';
import { upload } from '../files/upload.js';
import { Rows } from '../inbox/row.js';

const TARGETS_MAX = 5; // a message for everybody belongs into a group
const SHOWN_MAX = 50;
const PAGE = 100;
const CARRIED = ['link', 'poll', 'voice']; // what the page itself shows; other data means nothing elsewhere

/** @param thread { client, profiles, conversation, files: FileViews } */
export function forwardMessage({ client, profiles, conversation, files }, message) {
  const fault = faultLine();
  const rows = new Rows(client, profiles, () => '');
  const chosen = new Set();
  const input = el('input', { id: 'forward', type: 'search', placeholder: t('search'), 'aria-label': t('searchConversations'), autocomplete: 'off', dir: 'auto', oninput: () => draw() });
  const list = el('ul.people', { 'aria-label': t('conversations') });
  const send = el('button.primary', { type: 'submit', disabled: true }, t('forward'));
  const form = formOf(() => go(), el('div.field', null, input), list, fault.line, el('div.dialog-foot', null, send));
  const dialog = openDialog(t('forwardTo'));
  dialog.querySelector('.dialog-body').replaceWith(form);

  const draw = () => {
    const wanted = folded(input.value.trim());
    const found = client.inbox.conversations.filter((one) => !one.removed && !one.requested && !one.invited
      && (chosen.has(one) || folded(rows.titleOf(one)).includes(wanted)));
    list.replaceChildren(...found.slice(0, SHOWN_MAX).map(row));
    if (!found.length) list.append(el('li.hint', null, t('noMatch')));
    count();
  };
  const row = (one) => {
    const title = rows.titleOf(one);
    const box = el('input', { type: 'checkbox', checked: chosen.has(one), onchange: () => choose(one, box.checked) });
    const picture = avatarOf({ id: one.kind === 'direct' ? title : one.id, name: title, kind: one.kind, url: one.avatarUrl, size: 'small' });
    return el('li', null, el('label.person.check', null, picture, el('div.who', null, el('strong', { dir: 'auto' }, title)), box));
  };
  const choose = (one, isOn) => {
    if (isOn) chosen.add(one);
    else chosen.delete(one);
    count();
  };
  const count = () => {
    const isFull = chosen.size >= TARGETS_MAX;
    send.disabled = !chosen.size;
    for (const box of list.querySelectorAll('input')) box.disabled = isFull && !box.checked;
  };

  /** Send to one after the other. One that is done is not sent again, whatever becomes of the next. */
  const go = async () => {
    const targets = [...chosen];
    send.disabled = true;
    const isDone = await fault.guard(async () => {
      for (const one of targets) {
        await sendTo(one);
        chosen.delete(one);
      }
    });
    draw();
    if (!isDone) return;
    dialog.close();
    if (targets.length === 1) location.hash = `#/c/${encodeURIComponent(targets[0].id)}`;
  };
  const sendTo = async (target) => {
    const uploaded = [];
    for (const file of message.files ?? []) uploaded.push(await copy(target, file));
    target.send(message.text ?? '', { data: dataOf(message, profiles), uploaded }).catch(() => {}); // its row shows the outcome
  };
  /** A file belongs to one conversation, so it is uploaded again. */
  const copy = async (target, { fileId, name, mime, bytes, width, height, blurhash }) => {
    const blob = await files.blob(conversation, fileId);
    return upload(client, target, blob, { name, mime, bytes, width, height, blurhash }, () => {}, new AbortController().signal);
  };

  draw();
  input.focus();
  loadAll(client, dialog, draw);
}

async function loadAll({ inbox }, dialog, draw) {
  while (dialog.open && inbox.loaded && inbox.hasMore) {
    if ((await inbox.loadMore(PAGE).catch(() => null)) === null) return;
    draw();
  }
}

/** The data of a forwarded message. The first author stays, however often it is forwarded. */
function dataOf({ data, senderId }, profiles) {
  const carried = Object.entries(data ?? {}).filter(([key]) => CARRIED.includes(key));
  const forwarded = data?.forwarded?.name ? data.forwarded : { id: senderId, name: profiles.nameOf(senderId) };
  return { ...Object.fromEntries(carried), forwarded };
}
