// The question of a request or an invitation: accept it, decline it, or block the person.

import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';
import { block } from './actions.js';

/** @param thread { conversation, head, client, leave(), tell(error) } */
export function requestBar(thread) {
  const { conversation } = thread;
  const isInvited = Boolean(conversation.invited);
  const act = (run) => async () => {
    try {
      await run();
    } catch (error) {
      thread.tell(error);
    }
  };
  const accept = act(async () => {
    await conversation.accept();
    thread.render();
  });
  const decline = act(async () => {
    await conversation.leave();
    if (conversation === thread.conversation) thread.leave();
  });
  const buttons = [
    el('button.primary', { type: 'button', onclick: accept }, t('accept')),
    el('button.plain', { type: 'button', onclick: decline }, t('decline')),
  ];
  const otherId = thread.otherId();
  if (!isInvited && otherId) buttons.push(el('button.danger', { type: 'button', onclick: () => block(thread, otherId) }, t('block')));
  const text = isInvited ? t('invitationText', { title: thread.head.title }) : t('requestText', { name: thread.head.title });
  return el('div.request', { role: 'group', 'aria-label': t('requestRow') }, el('p', null, text), el('div', null, ...buttons));
}
