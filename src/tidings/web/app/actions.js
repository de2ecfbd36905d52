// The two menus, of a conversation and of a message, and the actions behind their entries.

import { ask } from './dialogs.js';
import { openMenu } from './menu.js';
import { showMembers, showReceipts } from './people.js';

/** @param thread { conversation, head, composer, client, profiles, find(), leave(), tell(error) } */
export function conversationMenu(thread, button) {
  const { conversation, head } = thread;
  const run = (promise) => promise.catch((error) => thread.tell(error));
  const unread = lastOfOthers(conversation);
  const otherId = head.kind === 'direct' ? otherOf(thread) : null;
  openMenu(button, 'Conversation', [
    conversation.requested ? { icon: 'check', label: 'Accept', run: () => run(conversation.accept()) } : null,
    { icon: 'people', label: 'Members', run: () => members(thread) },
    unread ? { icon: 'unread', label: 'Mark unread', run: () => markUnread(thread, unread.seq) } : null,
    conversation.muted
      ? { icon: 'bell', label: 'Unmute', run: () => run(conversation.mute(false)) }
      : { icon: 'muted', label: 'Mute', run: () => run(conversation.mute(true)) },
    conversation.pinned
      ? { icon: 'pin', label: 'Unpin', run: () => run(conversation.pin(false)) }
      : { icon: 'pin', label: 'Pin to the top', run: () => run(conversation.pin(true)) },
    conversation.archived
      ? { icon: 'archive', label: 'Move to the inbox', run: () => run(conversation.archive(false)) }
      : { icon: 'archive', label: 'Archive', run: () => archive(thread) },
    otherId ? { icon: 'close', label: 'Block', isHarsh: true, run: () => block(thread, otherId) } : null,
    head.kind === 'direct' ? null : { icon: 'leave', label: 'Leave', isHarsh: true, run: () => leave(thread) },
  ]);
}

export const members = ({ client, profiles, conversation, head }) =>
  showMembers(client, profiles, conversation, head.title);

export function messageMenu(thread, button, message) {
  const { conversation } = thread;
  const isStored = message.seq !== null;
  const isWhole = !message.deleted && message.text !== null;
  const mayDelete = isStored && isWhole && (message.mine || isLead(thread));
  const all = [
    [message.state === 'failed', 'send', 'Try again', () => retry(thread, message)],
    [isWhole, 'check', 'Copy text', () => copy(thread, message.text)],
    [isStored && message.mine, 'people', 'Who has read it', () => showReceipts(thread.profiles, conversation, message)],
    [isStored && message.mine && isWhole, 'pencil', 'Edit', () => thread.composer.edit(message)],
    [isStored && !message.mine, 'unread', 'Mark unread from here', () => markUnread(thread, message.seq)],
    [mayDelete, 'trash', 'Delete for everyone', () => remove(thread, message)],
    [!isStored, 'trash', 'Discard', () => conversation.discard(message.messageId)],
  ];
  const offered = all.filter(([isOffered]) => isOffered);
  const items = offered.map(([, name, label, run]) => ({ icon: name, label, run, isHarsh: name === 'trash' }));
  openMenu(button, 'Message', items);
}

/** Retry a failed message. Its row shows the outcome; a line above the composer shows why no attempt was made. */
export function retry(thread, message) {
  thread.tell(null);
  thread.conversation.retry(message.messageId).catch((error) => error.code === 'outbox_full' && thread.tell(error));
}

const otherOf = ({ client, head }) =>
  head.details?.members.map((one) => one.userId).find((id) => id !== client.userId) ?? null;

/** Block the other side of a direct conversation. It goes away, and stays away. */
function block(thread, otherId) {
  const { client, conversation } = thread;
  const text = 'They cannot write to you any more, and nothing of theirs is counted. They are not told.';
  ask(`Block ${otherId}?`, text, 'Block', async () => {
    await client.block(otherId);
    await conversation.leave();
    thread.leave();
  });
}

function isLead({ client, head }) {
  const role = head.details?.members.find((one) => one.userId === client.userId)?.role;
  return head.kind !== 'direct' && (role === 'owner' || role === 'admin');
}

const lastOfOthers = ({ messages }) =>
  messages.findLast((one) => !one.mine && one.kind === 'message' && one.seq !== null);

/** Mark as unread and leave: an open conversation whose end is in view would be marked as read again. */
async function markUnread(thread, seq) {
  const { conversation } = thread;
  thread.leave();
  await conversation.markUnread(seq).catch((error) => thread.tell(error));
}

/** Archive a conversation and leave it. */
async function archive(thread) {
  const { conversation } = thread;
  try {
    await conversation.archive(true);
    if (conversation === thread.conversation) thread.leave(); // the user may have opened another one meanwhile
  } catch (error) {
    thread.tell(error);
  }
}

function leave(thread) {
  const { conversation } = thread;
  ask('Leave the conversation', `You will not see what comes in ${thread.head.title}.`, 'Leave', async () => {
    await conversation.leave();
    if (conversation === thread.conversation) thread.leave();
  });
}

function remove({ conversation }, message) {
  const text = 'Its text is removed for everyone, everywhere.';
  ask('Delete the message', text, 'Delete', () => conversation.delete(message.seq));
}

async function copy(thread, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    thread.tell(error);
  }
}
