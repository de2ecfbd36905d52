/** A page of the inbox may be read before events that arrive first: what the events told stays. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Peer } from './scripted.js';
import { until } from './server.js';

const rowOf = (id, more = {}) => ({ conversation_id: id, kind: 'group', name: id, avatar_url: null, last_message_preview: 't1',
  last_seq: 1, last_message_ts: 5, unread_count: 0, unread_capped: false, read_seq: 1, first_unread_seq: null, muted: false,
  pinned: false, archived: false, ...more });
const pageOf = (rows, more = {}) => ({ type: 'ok', conversations: rows, next_cursor: null, total_unread: 0, unread_conversations: 0,
  stale: false, ...more });

/** Load the inbox, and load the same page again while `happen` happens: the server has read the page before. */
async function overtaken(t, row, totals, happen) {
  const peer = new Peer();
  const client = peer.client();
  t.after(() => client.close());
  await client.connect();
  const page = pageOf([row], totals);
  peer.answers.inbox = () => page;
  await client.inbox.load();
  peer.answers.inbox = () => (happen(peer, client), page);
  await client.inbox.load();
  return { client, inbox: client.inbox, conversation: client.conversation(row.conversation_id) };
}

test('a page that was read before a message does not take its count away', async (t) => {
  const { inbox, conversation } = await overtaken(t, rowOf('c1'), {}, (peer) => peer.entry(2));
  assert.deepEqual([conversation.lastSeq, conversation.unreadCount, conversation.firstUnreadSeq], [2, 1, 2]);
  assert.deepEqual([inbox.totalUnread, inbox.unreadConversations], [1, 1]);
});

test('a page that was read before a read on another device does not bring the count back', async (t) => {
  const row = rowOf('c1', { last_seq: 3, unread_count: 2, first_unread_seq: 2 });
  const totals = { total_unread: 2, unread_conversations: 1 };
  const badges = [];
  const { client, inbox, conversation } = await overtaken(t, row, totals, (peer, one) => {
    peer.say({ type: 'read.synced', conversation_id: 'c1', read_seq: 3, unread_count: 0, total_unread: 0 });
    one.on('unread', ({ totalUnread }) => badges.push(totalUnread));
  });
  assert.deepEqual([conversation.readSeq, conversation.unreadCount, conversation.firstUnreadSeq], [3, 0, null]);
  assert.deepEqual([inbox.totalUnread, inbox.unreadConversations, badges.at(-1)], [0, 0, 0]);
  assert.equal(client.inbox.conversations.length, 1);
});

test('a page knows better where the unread messages of a conversation begin that was not known', async (t) => {
  const peer = new Peer();
  const client = peer.client();
  t.after(() => client.close());
  await client.connect();
  peer.answers.inbox = () => {
    peer.entry(9);
    return pageOf([rowOf('c1', { last_seq: 8, unread_count: 4, first_unread_seq: 5, read_seq: 4 })]);
  };
  await client.inbox.load();
  const { unreadCount, firstUnreadSeq, readSeq } = client.conversation('c1');
  assert.deepEqual([unreadCount, firstUnreadSeq, readSeq], [1, 5, 4]);
});

test('totals that are told while a page is asked for stay', async (t) => {
  const told = { type: 'read.synced', conversation_id: null, total_unread: 12, unread_conversations: 3 };
  const { inbox } = await overtaken(t, rowOf('c1'), {}, (peer) => peer.say(told));
  assert.deepEqual([inbox.totalUnread, inbox.unreadConversations], [12, 3]);
});

test('the count of threads that is told while a page is asked for stays, and the page tells the rest', async (t) => {
  const told = { type: 'read.synced', conversation_id: 'c1', thread_seq: 1, unread_count: 2, unread_threads: 4 };
  const { inbox } = await overtaken(t, rowOf('c1'), { total_unread: 6 }, (peer) => peer.say(told));
  assert.deepEqual([inbox.unreadThreads, inbox.totalUnread], [4, 6]);
});

test('a draft of another device that comes while a page is asked for stays', async (t) => {
  const draft = { type: 'draft', conversation_id: 'c1', text: 'half', version: 7 };
  const { conversation } = await overtaken(t, rowOf('c1'), {}, (peer) => peer.say(draft));
  assert.equal(conversation.draft?.text, 'half');
});

test('a mute and a name that come while a page is asked for stay', async (t) => {
  const row = rowOf('c1', { muted: true, name: 'new name', notify: 'none' });
  const { conversation } = await overtaken(t, rowOf('c1'), {}, (peer) => peer.say({ type: 'conversation.updated', ...row }));
  assert.deepEqual([conversation.muted, conversation.name, conversation.notify], [true, 'new name', 'none']);
});

test('an edit of the last message that comes while a page is asked for stays', async (t) => {
  const last = { seq: 1, sender_id: 'bob', kind: 'message', deleted: false, files: 0, text_preview: 't1' };
  const edit = { kind: 'edit', target_seq: 1, text: 'better', message_id: null };
  const { conversation } = await overtaken(t, rowOf('c1', { last_message: last }), {}, (peer) => peer.entry(2, edit));
  assert.deepEqual([conversation.lastMessagePreview, conversation.lastMessage.textPreview], ['better', 'better']);
});

test('a page that nothing overtook is taken as it is', async (t) => {
  let peer;
  const { inbox, conversation } = await overtaken(t, rowOf('c1'), {}, (one) => ((peer = one), one.entry(2)));
  peer.answers.inbox = () => pageOf([rowOf('c1', { last_seq: 2, name: 'other', read_seq: 2 })]);
  await inbox.load();
  assert.deepEqual([conversation.name, conversation.unreadCount, inbox.totalUnread], ['other', 0, 0]);
});

test('a conversation that begins while the top is read again comes with another read', async (t) => {
  const peer = new Peer();
  const client = peer.client();
  t.after(() => client.close());
  await client.connect();
  peer.answers.inbox = () => pageOf([]);
  await client.inbox.load();
  let asked = 0;
  peer.answers.inbox = () => {
    asked += 1;
    if (asked > 1) return pageOf([rowOf('c9')]);
    peer.entry(1, {}, 'c9'); // its first message comes after the server has read the page
    return pageOf([]);
  };
  client.inbox._changed(null); // as after the deletion of a last message
  await until('it is in the list', () => client.inbox.conversations.some((one) => one.id === 'c9'));
  assert.equal(asked, 2);
});
