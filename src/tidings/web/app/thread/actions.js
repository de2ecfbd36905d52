// The two menus, of a conversation and of a message, and the actions behind their entries.

import { ask } from '../parts/dialogs.js';
import { later } from '../parts/later.js';
import { openMenu } from '../parts/menu.js';
import { t } from '../parts/words.js';
import { muteMenu, unmute } from './mute.js';
import { isHere } from './replies.js';
import { pollOf } from './poll.js';
import { reactionStrip } from './reactions.js';

/** @param thread { conversation, head, composer, client, profiles, find(), leave(), tell(error) } */
export function conversationMenu(thread, button) {
  const { conversation, head } = thread;
  const run = (promise) => promise.catch((error) => thread.tell(error));
  const unread = lastOfOthers(conversation);
  const otherId = head.kind === 'direct' ? thread.otherId() : null;
  openMenu(button, t('conversation'), [
    { icon: 'people', label: t('members'), run: () => members(thread) },
    { icon: 'search', label: t('searchMessages'), run: () => thread.find() },
    unread ? { icon: 'unread', label: t('markUnread'), run: () => markUnread(thread, unread.seq) } : null,
    conversation.muted
      ? { icon: 'bell', label: t('unmute'), run: () => unmute(thread) }
      : { icon: 'muted', label: t('muteMenu'), run: () => muteMenu(thread, button) },
    conversation.pinned
      ? { icon: 'pin', label: t('unpin'), run: () => run(conversation.pin(false)) }
      : { icon: 'pin', label: t('pinTop'), run: () => run(conversation.pin(true)) },
    conversation.archived
      ? { icon: 'archive', label: t('moveToInbox'), run: () => run(conversation.archive(false)) }
      : { icon: 'archive', label: t('archive'), run: () => archive(thread) },
    otherId ? { icon: 'block', label: t('block'), isHarsh: true, run: () => block(thread, otherId) } : null,
    head.kind === 'direct' ? null : { icon: 'leave', label: t('leave'), isHarsh: true, run: () => leave(thread) },
  ]);
}

/** Load a part and run it, unless the user has left the conversation meanwhile. */
async function part(thread, load, run) {
  const { conversation } = thread;
  const found = await later(load, (error) => thread.tell(error));
  if (found && conversation === thread.conversation) run(found, conversation);
}

export function members(thread) {
  const { client, profiles, head, on } = thread;
  part(thread, () => import('../people/members.js'), ({ showMembers }, conversation) =>
    showMembers(client, profiles, conversation, head.title, { write: on.write }));
}

export function messageMenu(thread, button, message) {
  const { conversation } = thread;
  const mayReact = 'react' in conversation;
  const isStored = message.seq !== null;
  const isWhole = !message.deleted && message.text !== null;
  const isTyped = isWhole && !pollOf(message) && !message.data?.voice;
  const isSaved = isStored && thread.on.saved.has(conversation.id, message.seq);
  const mayDelete = isStored && isWhole && (message.mine || isLead(thread));
  const all = [
    [message.state === 'failed', 'send', 'tryAgain', () => retry(thread, message)],
    [isStored && isWhole, 'reply', 'reply', () => thread.reply(message)],
    [isStored && isWhole && !message.threadSeq && thread.openThread, 'thread', 'replyInThread', () => thread.openThread(message.seq)],
    [isWhole, 'copy', 'copyText', () => copy(thread, message.text)],
    [isStored && isWhole && !message.unavailable && !message.hidden, 'forward', 'forward', () => forward(thread, message)],
    [isStored && isWhole && !message.pinned, 'pin', 'pinMessage', () => pin(thread, message, true)],
    [isStored && isWhole && message.pinned, 'pin', 'unpinMessage', () => pin(thread, message, false)],
    [isStored && isWhole && !isSaved, 'bookmark', 'saveMessage', () => save(thread, message, true)],
    [isStored && isSaved, 'bookmark', 'unsave', () => save(thread, message, false)],
    [hasReactions(message), 'smile', 'reactions', () => reacted(thread, message)],
    [isStored && message.mine, 'people', 'whoHasRead', () => receipts(thread, message)],
    [isStored && message.mine && isTyped && message.stream !== 'streaming', 'pencil', 'edit', () => thread.composer.edit(message)],
    [isStored && !message.mine && !message.threadSeq, 'unread', 'markUnreadHere', () => markUnread(thread, message.seq)],
    [isStored && isWhole && !message.mine, 'flag', 'report', () => report(thread, message)],
    [mayDelete, 'trash', 'deleteForAll', () => remove(thread, message)],
    [!isStored, 'trash', 'discard', () => conversation.discard(message.messageId)],
  ];
  const offered = all.filter(([isOffered]) => isOffered);
  const items = offered.map(([, name, key, run]) => ({ icon: name, label: t(key), run, isHarsh: name === 'trash' || name === 'flag' }));
  const strip = isStored && isWhole && mayReact ? [reactionStrip(message, (key, isOn) => thread.react(message, key, isOn), button)] : [];
  openMenu(button, t('message'), [...strip, ...items]);
}

export function receipts(thread, message) {
  part(thread, () => import('../people/receipts.js'), ({ showReceipts }, conversation) =>
    showReceipts(thread.profiles, conversation, message));
}

function reacted(thread, message) {
  part(thread, () => import('../people/reacted.js'), ({ showReactions }, conversation) =>
    showReactions(thread.profiles, conversation, message));
}

function forward(thread, message) {
  part(thread, () => import('./forward.js'), ({ forwardMessage }) => forwardMessage(thread, message));
}

function report(thread, message) {
  part(thread, () => import('./report.js'), ({ reportMessage }) => reportMessage(thread.client, message));
}

function pin(thread, message, isOn) {
  thread.conversation.pinMessage(message.seq, isOn).catch((error) => thread.tell(error));
}

function save(thread, message, isOn) {
  thread.on.saved.put(thread.conversation.id, message.seq, isOn).catch((error) => thread.tell(error));
}

const hasReactions = ({ reactions }) => Object.keys(reactions ?? {}).length > 0;

/** Retry a failed message. Its row shows the outcome; a line above the composer shows why no attempt was made. */
export function retry(thread, message) {
  thread.tell(null);
  thread.conversation.retry(message.messageId).catch((error) => error.code === 'outbox_full' && thread.tell(error));
}

/** Block the other side of a direct conversation. It goes away, and stays away. */
export function block(thread, otherId) {
  const { client, conversation } = thread;
  ask(t('blockTitle', { name: thread.profiles.nameOf(otherId) }), t('blockText'), t('block'), async () => {
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
  messages.findLast((one) => !one.mine && one.kind === 'message' && one.seq !== null && isHere(one));

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
  ask(t('leaveTitle'), t('leaveText', { title: thread.head.title }), t('leave'), async () => {
    await conversation.leave();
    if (conversation === thread.conversation) thread.leave();
  });
}

function remove({ conversation }, message) {
  ask(t('deleteTitle'), t('deleteText'), t('delete'), () => conversation.delete(message.seq));
}

async function copy(thread, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    thread.tell(error);
  }
}
