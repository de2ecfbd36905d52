// Conversations that everybody may find: search them, join one.

import { avatarOf } from '../parts/avatar.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { icon } from '../parts/icons.js';
import { emptyList } from '../parts/listed.js';
import { moreButton } from '../parts/more.js';
import { t } from '../parts/words.js';

const WAIT_MS = 150; // after the last key, before the server is asked

/** `open` gets the conversation that was joined or chosen. */
export async function showDirectory(client, open) {
  const fault = faultLine();
  const input = el('input', { id: 'directory', type: 'search', placeholder: t('search'), 'aria-label': t('searchPublic'), autocomplete: 'off', dir: 'auto' });
  const list = el('ul.people', { 'aria-label': t('publicConversations') });
  const more = moreButton(() => fault.guard(load));
  const place = el('div', { 'aria-live': 'polite' }, list);
  const dialog = openDialog(t('publicConversations'), el('div.field', null, input), fault.line, place, more);
  let cursor = null;
  let turn = 0;
  const load = async () => {
    const asked = (turn += 1);
    const query = new URLSearchParams({ query: input.value.trim(), ...(cursor ? { cursor } : {}) });
    const page = await client.rest('GET', `/v1/directory?${query}`);
    if (asked !== turn) return;
    if (cursor === null) list.replaceChildren();
    list.append(...page.conversations.map(row));
    cursor = page.nextCursor;
    more.hidden = cursor === null;
    const isEmpty = !list.firstChild;
    place.replaceChildren(isEmpty ? emptyList(icon('hash'), t(input.value.trim() ? 'noMatch' : 'noPublic'), t('noPublicHint')) : list);
  };
  const row = ({ conversationId, kind, name, avatarUrl }) => {
    const conversation = client.conversation(conversationId);
    const isIn = client.inbox.conversations.includes(conversation) && !conversation.removed;
    const title = name || t(`kind.${kind}`);
    const go = () => {
      dialog.close();
      open(conversation);
    };
    const join = () => fault.guard(async () => {
      await client.rules.join(conversationId);
      go();
    });
    const label = t(isIn ? 'openNamed' : 'joinNamed', { title });
    return el('li.person', null, avatarOf({ id: conversationId, name: title, kind, url: avatarUrl, size: 'small' }),
      el('div.who', null, el('strong', { dir: 'auto' }, title), el('span', null, t(`kind.${kind}`))),
      el(`button.${isIn ? 'plain' : 'primary'}`, { type: 'button', 'aria-label': label, onclick: isIn ? go : join }, t(isIn ? 'open' : 'join')));
  };
  let timer = null;
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      cursor = null;
      fault.guard(load);
    }, WAIT_MS);
  });
  input.focus();
  await fault.guard(load);
}
