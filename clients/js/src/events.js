/** Events of the server: how each kind changes the client. Unknown kinds are ignored: the server may be newer. */
import { camel } from './runtime.js';

const TAKE = {
  'message.new'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    const { message: entry, unreadCount, unreadCapped, totalUnread, mentionCount, totalMentions } = frame;
    conversation.removed = false;
    conversation._log.accept(entry);
    if (frame.threadUnreadCount !== undefined) client.threads._take(frame, entry.threadSeq, frame.threadUnreadCount);
    if (unreadCount === null) return;
    const isFirst = unreadCount > 0 && conversation.firstUnreadSeq === null;
    const firstUnreadSeq = unreadCount === 0 ? null : isFirst ? entry.seq : conversation.firstUnreadSeq;
    const isFirstMention = mentionCount > 0 && conversation.firstMentionSeq === null;
    const mentions = { mentionCount, totalMentions, firstMentionSeq: isFirstMention ? entry.seq : undefined };
    conversation._takeCounts({ unreadCount, unreadCapped, totalUnread, firstUnreadSeq, ...mentions });
  },
  'message.appended'(client, { conversationId, seq, offset, text }) {
    const conversation = client.conversation(conversationId);
    conversation._window.grow(seq, offset, text);
    client._emit('appended', { conversation, seq, offset, text });
  },
  resumed: (client, frame) => client.conversation(frame.conversationId)._resumed(frame),
  receipt: (client, frame) => client.conversation(frame.conversationId)._receipt(frame),
  receipts: (client, frame) => client.conversation(frame.conversationId)._receipts(frame),
  'read.synced'(client, frame) {
    if (frame.conversationId === null) client.inbox._total(frame);
    else if (frame.threadSeq !== undefined) client.threads._take(frame, frame.threadSeq, frame.unreadCount);
    else client.conversation(frame.conversationId)._takeCounts(frame);
  },
  typing: (client, frame) => client.conversation(frame.conversationId)._typing.take(frame.userId, frame.typing),
  presence: (client, frame) => client._presence.take(frame),
  'scheduled.failed': (client, frame) => client._emit('scheduled.failed', frame),
  draft(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    if (conversation._takeDraft(frame)) client._emit('draft', { conversation, draft: conversation.draft });
  },
  'conversation.added'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._takeNewRow(frame);
    conversation._score = Math.max(conversation._score, client.now());
    conversation._follow();
    client.inbox._changed(conversation);
    client._emit('conversation', { change: 'added', conversation });
  },
  'conversation.updated'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._takeNewRow(frame);
    conversation._follow();
    client.inbox._changed(conversation);
    client._emit('conversation', { change: 'updated', conversation });
    client._countUpdate();
  },
  'conversation.removed'(client, frame) {
    const conversation = client.conversation(frame.conversationId);
    conversation._leave();
    client.inbox._remove(conversation);
    client._emit('conversation', { change: 'removed', conversation });
  },
  draining(client, frame) {
    if (client._life) client._life.drainMs = frame.reconnectInMs;
  },
};

export function takeEvent(client, frame) {
  try {
    TAKE[frame.type]?.(client, camel(frame));
  } catch (error) {
    client._report(error);
  }
}
