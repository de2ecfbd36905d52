// An invite link, used by anybody who has it. It asks before it joins, and waits while a person signs in.

import { ask } from '../parts/dialogs.js';
import { t } from '../parts/words.js';

const KEPT = 'tidings.invite'; // over the sign-in

/** Take an invite out of the address. It waits while a person signs in. */
export function takeInvite() {
  const found = new URLSearchParams(location.hash.slice(1)).get('invite');
  if (found === null) return;
  history.replaceState(null, '', location.pathname + location.search);
  try {
    sessionStorage.setItem(KEPT, found);
  } catch {
    // Storage is forbidden: the link works for a person who is signed in.
  }
}

/** Ask whether to join by the invite that waits. `open` gets the conversation. */
export function offerInvite(client, open) {
  let invite = null;
  try {
    invite = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
  } catch {
    return;
  }
  if (!invite) return;
  const join = async () => open(client.conversation(await client.rules.use(invite)));
  ask(t('inviteTitle'), t('inviteText'), t('join'), join, 'primary');
}
