import type { ReactElement, ReactNode } from 'react';
import type { Conversation, ConnectionState, Entry, Message, ReadState, SendOptions, TidingsClient, TidingsError } from 'tidings';

/** Make a client known to the hooks below it, connect it, and close it at the end. */
export function TidingsProvider(props: { client: TidingsClient; children?: ReactNode }): ReactElement;
export function useTidings(): TidingsClient;
export function useConnection(): { state: ConnectionState; error: TidingsError | null; retryAt: number | null };
export function useInbox(): {
  conversations: readonly Conversation[];
  totalUnread: number;
  unreadConversations: number;
  loaded: boolean;
  hasMore: boolean;
  stale: boolean;
  error: TidingsError | null;
  loadMore(limit?: number): Promise<readonly Conversation[]>;
};
export function useConversation(
  conversationId: string,
  options?: { at?: 'newest' | 'first_unread' | number; limit?: number },
): {
  conversation: Conversation;
  messages: readonly Message[];
  hasOlder: boolean;
  hasNewer: boolean;
  isOpen: boolean;
  retryAt: number | null;
  error: TidingsError | null;
  send(text: string, options?: SendOptions): Promise<Message>;
  markRead(mark?: number | { upToTs: number } | { seqs: readonly number[] }): Promise<ReadState>;
  loadOlder(count?: number): Promise<readonly Message[]>;
};
export function useThread(conversationId: string, threadSeq: number, options?: { limit?: number }): {
  replies: readonly Entry[];
  error: TidingsError | null;
  send(text: string, options?: SendOptions): Promise<Message>;
};
export function useUnread(): { totalUnread: number; unreadConversations: number };
export function useUnread(conversationId: string): {
  unreadCount: number | null;
  unreadCapped: boolean;
  firstUnreadSeq: number | null;
};
export function useTyping(conversationId: string): { userIds: readonly string[]; keystroke(): void };
