/**
 * React hooks over the JavaScript client: each hook reads the client as it is now, and renders again when that changes.
 *
 * The client keeps everything (windows, outbox, counts), so a hook holds no copy that could differ. A component that is
 * unmounted stops listening; useConversation also closes the window that it opened.
 */
import { createContext, createElement, useCallback, useContext, useEffect, useRef, useState, useSyncExternalStore } from 'react';

const Context = createContext(null);

/** Make a client known to the hooks below it, connect it, and close it at the end. */
export function TidingsProvider({ client, children }) {
  useEffect(() => {
    client.connect().catch(() => {}); // useConnection shows why
    return () => void client.close();
  }, [client]);
  return createElement(Context.Provider, { value: client }, children);
}

export function useTidings() {
  const client = useContext(Context);
  if (!client) throw new Error('Put the component below <TidingsProvider client={…}>.');
  return client;
}

/** Render again after each of these events of `source`, a client or a conversation. */
function useEvents(source, events) {
  const version = useRef(0);
  const names = events.join();
  const subscribe = useCallback((render) => {
    const changed = () => {
      version.current += 1;
      render();
    };
    const ends = names.split(',').map((name) => source.on(name, changed));
    return () => ends.forEach((end) => end());
  }, [source, names]);
  useSyncExternalStore(subscribe, () => version.current, () => version.current);
}

/** { state, error, retryAt }: the connection. */
export function useConnection() {
  const client = useTidings();
  useEvents(client, ['state']);
  return { state: client.state, error: client.error, retryAt: client.retryAt };
}

/** Run `load` once there is a connection, and hold its error. Effects of children come before that of the provider. */
function useLoading(client, load, dependencies) {
  const [error, setError] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    setError(null);
    client.connect().then(() => isCurrent && load()).catch((found) => isCurrent && setError(found));
    return () => (isCurrent = false);
  }, dependencies);
  return error;
}

/** The inbox: its rows, totals, and loadMore. The first page is loaded when the first component asks. */
export function useInbox() {
  const client = useTidings();
  const { inbox } = client;
  useEvents(client, ['inbox', 'unread', 'conversation']);
  const error = useLoading(client, () => inbox.loaded || inbox.load(), [inbox]);
  const loadMore = useCallback((limit) => inbox.loadMore(limit), [inbox]);
  const { conversations, totalUnread, unreadConversations, loaded, hasMore, stale } = inbox;
  return { conversations, totalUnread, unreadConversations, loaded, hasMore, stale, error, loadMore };
}

/** An open conversation: its messages, and what one does with it. `at` as in Conversation.open. */
export function useConversation(conversationId, { at = 'newest', limit } = {}) {
  const client = useTidings();
  const conversation = client.conversation(conversationId);
  useEvents(conversation, ['message', 'updated', 'window', 'inbox', 'unread', 'conversation', 'waiting']);
  const error = useLoading(client, () => conversation.open({ at, limit }), [conversation]);
  useEffect(() => () => conversation.close(), [conversation]);
  const send = useCallback((text, options) => conversation.send(text, options), [conversation]);
  const markRead = useCallback((mark) => conversation.markRead(mark), [conversation]);
  const loadOlder = useCallback((count) => conversation.loadOlder(count), [conversation]);
  const { messages, hasOlder, hasNewer, isOpen, retryAt } = conversation;
  return { conversation, messages, hasOlder, hasNewer, isOpen, retryAt, error, send, markRead, loadOlder };
}

/** The replies of a thread, oldest first, and `send` for a reply. */
export function useThread(conversationId, threadSeq, { limit = 50 } = {}) {
  const client = useTidings();
  const conversation = client.conversation(conversationId);
  const [replies, setReplies] = useState([]);
  const load = useCallback(async () => {
    const path = `/v1/conversations/${encodeURIComponent(conversationId)}/messages?thread_seq=${threadSeq}&limit=${limit}`;
    setReplies((await client.rest('GET', path)).messages.slice().reverse());
  }, [client, conversationId, threadSeq, limit]);
  const error = useLoading(client, load, [load]);
  useEffect(() => conversation.on('entry', ({ entry }) => {
    const isOurs = entry.threadSeq === threadSeq || replies.some((reply) => reply.seq === entry.targetSeq);
    if (isOurs) load().catch(() => {}); // the next entry, or the next mount, loads it again
  }), [conversation, threadSeq, load, replies]);
  const send = useCallback((text, options) => conversation.send(text, { ...options, threadSeq }), [conversation, threadSeq]);
  return { replies, error, send };
}

/** { totalUnread, unreadConversations } of the user, or { unreadCount, firstUnreadSeq } of one conversation. */
export function useUnread(conversationId = null) {
  const client = useTidings();
  useEvents(client, ['unread', 'inbox', 'state']);
  if (conversationId !== null) {
    const { unreadCount, unreadCapped, firstUnreadSeq } = client.conversation(conversationId);
    return { unreadCount, unreadCapped, firstUnreadSeq };
  }
  const { totalUnread, unreadConversations } = client.inbox;
  return { totalUnread, unreadConversations };
}

/** The people who type now, and `keystroke` to call with each key of one's own. */
export function useTyping(conversationId) {
  const client = useTidings();
  const conversation = client.conversation(conversationId);
  useEvents(conversation, ['typing']);
  const keystroke = useCallback(() => conversation.keystroke(), [conversation]);
  return { userIds: conversation.typing, keystroke };
}
