// How long a conversation is muted: an hour, a night, a week, or until the user says otherwise.

import { openMenu } from '../parts/menu.js';
import { dayMonthOf, timeOf } from '../parts/format.js';
import { t } from '../parts/words.js';

const HOUR_MS = 3_600_000;
const TIMES = [['hour', HOUR_MS], ['hours', 8 * HOUR_MS], ['week', 168 * HOUR_MS], ['forever', null]];

/** @param thread { conversation, client, tell(error) } */
export function muteMenu(thread, button) {
  const { client, conversation } = thread;
  const mute = (ms) => set(thread, conversation, { muted: true, muted_until: ms === null ? null : Math.round(client.now() + ms) });
  openMenu(button, t('mute'), [t('muteFor'), ...TIMES.map(([name, ms]) =>
    ({ icon: ms === null ? 'muted' : 'clock', label: t(`mute.${name}`), run: () => mute(ms) }))]);
}

export const unmute = (thread) => set(thread, thread.conversation, { muted: false });

/** The other devices, and this one, hear of it from the server. */
async function set(thread, { id }, flags) {
  const path = `/v1/inbox/${encodeURIComponent(id)}`;
  await thread.client.rest('PATCH', path, flags).catch((error) => thread.tell(error));
}

/** "Muted", and until when. */
export function mutedWord({ mutedUntil }, now_ms) {
  if (!mutedUntil) return t('muted');
  const isSoon = mutedUntil - now_ms < 24 * HOUR_MS;
  return t('mutedUntil', { when: isSoon ? timeOf(mutedUntil) : dayMonthOf(mutedUntil) });
}
