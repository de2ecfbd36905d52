/** Threads that the user follows. A reply is a send with `threadSeq`. */
export class Threads {
  constructor(client, rest) {
    this._client = client;
    this._rest = rest;
  }

  /** A page, the latest reply first. `filter` is 'all' or 'unread'. */
  page({ filter = 'all', limit = 20, cursor = null } = {}) {
    const query = new URLSearchParams({ filter, limit, ...(cursor === null ? {} : { cursor }) });
    return this._rest.send('GET', `/v1/threads?${query}`, undefined, true);
  }

  /** A page of the replies of one thread, newest first. */
  replies(conversationId, threadSeq, { beforeSeq, afterSeq, limit = 20 } = {}) {
    const query = new URLSearchParams({ thread_seq: threadSeq, limit });
    if (beforeSeq !== undefined) query.set('before_seq', beforeSeq);
    if (afterSeq !== undefined) query.set('after_seq', afterSeq);
    return this._rest.send('GET', `${pathOf(conversationId)}/messages?${query}`, undefined, true);
  }

  follow(conversationId, threadSeq) {
    return this._rest.send('PUT', `${pathOf(conversationId)}/threads/${threadSeq}/follow`, undefined, true);
  }

  unfollow(conversationId, threadSeq) {
    return this._rest.send('DELETE', `${pathOf(conversationId)}/threads/${threadSeq}/follow`, undefined, true);
  }

  /** Mark replies as read: up to a seq, or only these seqs. Without either, all of them. */
  markRead(conversationId, threadSeq, { upToSeq = Number.MAX_SAFE_INTEGER, seqs } = {}) {
    const mark = seqs === undefined ? { up_to_seq: upToSeq } : { seqs };
    return this._rest.send('POST', `${pathOf(conversationId)}/read`, { thread_seq: threadSeq, ...mark }, true);
  }

  markUnread(conversationId, threadSeq, fromSeq) {
    const mark = { thread_seq: threadSeq, from_seq: fromSeq };
    return this._rest.send('POST', `${pathOf(conversationId)}/unread`, mark, true);
  }

  /** Mark all threads of a conversation as read. */
  readAll(conversationId) {
    return this._rest.send('POST', `${pathOf(conversationId)}/read`, { threads: true }, true);
  }

  /** Take the counts of one thread from an event. A total that is left out is 0. */
  _take({ conversationId, unreadThreads = 0 }, threadSeq, unreadCount) {
    this._client.inbox.unreadThreads = unreadThreads;
    this._client.inbox._keep(this._client.inbox, { unreadThreads });
    const conversation = this._client.conversation(conversationId);
    this._client._emit('thread', { conversation, threadSeq, unreadCount, unreadThreads });
  }
}

const pathOf = (conversationId) => `/v1/conversations/${encodeURIComponent(conversationId)}`;
