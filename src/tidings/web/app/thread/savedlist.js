// The list of the messages that the user saved, under the account's menu.

import { round } from '../parts/controls.js';
import { faultLine, openDialog } from '../parts/dialogs.js';
import { el } from '../parts/dom.js';
import { shortWhen } from '../parts/format.js';
import { icon } from '../parts/icons.js';
import { emptyList, listed } from '../parts/listed.js';
import { moreButton } from '../parts/more.js';
import { t } from '../parts/words.js';
import { Rows } from '../inbox/row.js';
import { lineOf } from './quotes.js';

/** @param saved the SavedMessages of the page */
export async function showSaved(saved) {
  const { client, profiles } = saved;
  const fault = faultLine();
  const rows = new Rows(client, profiles, () => '');
  const list = el('ul.message-list', { 'aria-label': t('savedMessages') });
  const more = moreButton(() => fault.guard(load));
  const place = el('div', { 'aria-busy': 'true' }, list);
  const dialog = openDialog(t('savedMessages'), fault.line, place, more);
  let cursor = null;
  const load = async () => {
    const page = await client.saved.page(cursor);
    cursor = page.nextCursor;
    list.append(...page.saved.map(row));
    more.hidden = cursor === null;
    if (!list.firstChild && cursor === null) place.replaceChildren(emptyList(icon('bookmark'), t('nothingSaved'), t('nothingSavedHint')));
  };
  const row = ({ conversationId, message }) => {
    const conversation = client.conversation(conversationId);
    const who = message.senderId === client.userId ? t('youName') : profiles.nameOf(message.senderId);
    const open = () => {
      dialog.close();
      saved.on.open(conversation, message.seq);
    };
    const remove = () => fault.guard(async () => {
      await saved.put(conversationId, message.seq, false);
      made.remove();
    });
    const made = listed({
      person: profiles.of(message.senderId), title: `${who} · ${rows.titleOf(conversation)}`,
      when: shortWhen(message.sentAt, client.now()), words: [profiles.named(lineOf(message))], run: open,
      action: round(t('unsave'), 'close', remove),
    });
    return made;
  };
  await fault.guard(load);
  place.removeAttribute('aria-busy');
  dialog.querySelector('.listed')?.focus();
}
