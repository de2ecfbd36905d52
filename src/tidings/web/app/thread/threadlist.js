// The threads that the user follows, the latest reply first.

import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { badgeOf, countOf, shortWhen } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { emptyList, listed } from '../parts/listed.js';
import { moreButton } from '../parts/more.js';
import { t } from '../parts/words.js';
import { Rows } from '../inbox/row.js';
import { lineOf } from './quotes.js';

/** `open(conversation, threadSeq)` shows one. */
export async function showThreads(client, profiles, open) {
  const fault = faultLine();
  const rows = new Rows(client, profiles, () => '');
  const list = el('ul.message-list', { 'aria-label': t('threads') });
  const more = moreButton(() => fault.guard(load));
  const place = el('div', { 'aria-busy': 'true' }, list);
  const dialog = openDialog(t('threads'), fault.line, place, more);
  let cursor = null;
  const load = async () => {
    const page = await client.threads.page({ cursor });
    cursor = page.nextCursor;
    list.append(...page.threads.map(row));
    more.hidden = cursor === null;
    if (!list.firstChild) place.replaceChildren(emptyList(icon('thread'), t('noThreads'), t('noThreadsHint')));
  };
  const row = ({ conversationId, threadSeq, root, replies, lastSentAt, unreadCount }) => {
    const conversation = client.conversation(conversationId);
    const unread = unreadCount ? [el('span.badge', { 'aria-hidden': 'true' }, badgeOf(unreadCount)), el('span.quiet', null, t('unreadCount', { n: unreadCount }))] : [];
    if (root) profiles.want(conversation, [root.senderId]);
    const run = () => {
      dialog.close();
      open(conversation, threadSeq);
    };
    const made = listed({
      person: root ? profiles.of(root.senderId) : { name: '?', url: null },
      title: `${rows.titleOf(conversation)} · ${countOf(replies, 'repliesCount')}`, when: shortWhen(lastSentAt, client.now()),
      words: [root ? profiles.named(lineOf(root)) : t('unavailableMessage')], run,
    });
    made.querySelector('.listed').append(...unread);
    return made;
  };
  await fault.guard(load);
  place.removeAttribute('aria-busy');
  dialog.querySelector('.listed')?.focus();
}
