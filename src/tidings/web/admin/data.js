// Data of a person: everything as a file, and the end of everything.

import { plural } from './figures.js';
import { button, deed, sentenceOf } from './parts.js';

const EVERY_MS = 1000;

/** Buttons to export and to erase; `said` is the place where they tell how it went. */
export function dataOf(userId, context, said) {
  const path = `users/${encodeURIComponent(userId)}`;
  const isOff = context.me.role !== 'admin';
  const save = async () => {
    said.textContent = 'The export is being made …';
    try {
      await context.api.save(`${path}/export`, `${userId}.zip`);
      said.textContent = 'The export is saved.';
    } catch (error) {
      said.textContent = sentenceOf(error);
    }
  };
  const erase = async () => {
    const { job_id } = await context.api.send('DELETE', path);
    follow(job_id, context, said);
  };
  return [
    button('Export', null, save, { isOff, why: 'Your key may only look' }),
    deed(context, 'Erase', 'danger', { title: `Erase ${userId}?`,
      text: 'Every message of this person is deleted, with profile, devices and preferences. This cannot be undone.' }, erase),
  ];
}

/** Tell how far an erasure is, until its end or until the view is left. */
async function follow(jobId, context, said) {
  do {
    const job = await context.api.read(`jobs/${encodeURIComponent(jobId)}`).catch(() => null);
    if (job?.state === 'done') {
      const where = plural(job.conversations, 'conversation', 'conversations');
      said.textContent = `Erased: ${plural(job.messages, 'message', 'messages')} in ${where}. The certificate is job ${jobId}.`;
      return;
    }
    if (job) said.textContent = `Erasing: ${plural(job.messages, 'message', 'messages')} so far …`;
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  } while (said.isConnected);
}
