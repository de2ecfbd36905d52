/** What a real server does rarely or never: gaps, another store, silence, refusals in the middle. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TidingsClient, localStorageOutbox, memoryStorage } from '../src/tidings.js';
import { Peer, entryOf, movedClocks } from './scripted.js';
import { until } from './server.js';

const RESUMED = { type: 'resumed', conversation_id: 'c1', complete: true, reset: false, read_seq: 0, unread_count: 0,
  delivered_all_seq: 0, read_all_seq: 0 };
const errorOf = (code, retryAfterMs = null) => ({ type: 'error', code, temporary: true, retry_after_ms: retryAfterMs, message: '' });
const okOf = ({ conversation_id, message_id }, seq) =>
  ({ type: 'ok', conversation_id, message_id, seq, sent_at: Date.now(), duplicate: false });

async function started(t, options) {
  const peer = new Peer();
  const client = peer.client(options);
  const seqs = [];
  client.on('entry', ({ entry }) => seqs.push(entry.seq));
  t.after(() => client.close());
  await client.connect();
  return { peer, client, seqs };
}

test('an entry that is not the next is held, and what lies between is read from the history', async (t) => {
  const { peer, client, seqs } = await started(t);
  peer.log = [1, 2, 3, 4, 5].map((seq) => entryOf(seq));
  peer.entry(1);
  peer.entry(4);
  peer.entry(5);
  assert.deepEqual(seqs, [1]);
  await until('the gap is filled', () => seqs.length === 5);
  assert.deepEqual(seqs, [1, 2, 3, 4, 5]);
  assert.deepEqual(peer.of('history').map((frame) => frame.after_seq), [1]);
});

test('a gap that closes by itself is not asked for, and what came before is ignored', async (t) => {
  const { peer, client, seqs } = await started(t);
  for (const seq of [1, 3, 2, 3, 1, 2, 4]) peer.entry(seq);
  assert.deepEqual(seqs, [1, 2, 3, 4]);
  assert.equal(peer.of('history').length, 0);
});

test('a kind, a field and an event of the future change nothing but the seq', async (t) => {
  const { peer, client, seqs } = await started(t);
  await client.conversation('c1').open();
  peer.entry(1);
  peer.entry(2, { kind: 'hologram', target_seq: 1, text: 'other', beam: { of_light: 1 } });
  peer.entry(3, { text: 'plain', mood: 'curious' });
  peer.say({ type: 'weather', conversation_id: 'c1', sky: 'clear' });
  assert.deepEqual(seqs, [1, 2, 3]);
  assert.deepEqual(client.conversation('c1').messages.map((message) => message.text), ['t1', 'plain']);
});

test('data comes as it was sent, a reply names its message, and a silent message leaves the row as it was', async (t) => {
  const { peer, client } = await started(t);
  const conversation = client.conversation('c1');
  await conversation.open();
  peer.entry(1);
  peer.entry(2, { text: '', data: { some_key: { in_side: 1 } }, silent: true, reply_to: 1 });
  const { data, silent, replyTo } = conversation.messages[1];
  assert.deepEqual({ data, silent, replyTo }, { data: { some_key: { in_side: 1 } }, silent: true, replyTo: 1 });
  assert.equal(conversation.lastMessagePreview, 't1');
  peer.answers['message.send'] = (frame) => okOf(frame, 3);
  const sent = await conversation.send('', { data: { a_b: 1 }, replyTo: 2 });
  assert.deepEqual([sent.data, sent.replyTo], [{ a_b: 1 }, 2]);
  const [{ text, data: wire, reply_to }] = peer.of('message.send');
  assert.deepEqual({ text, wire, reply_to }, { text: '', wire: { a_b: 1 }, reply_to: 2 });
});

test('an undecided number is waited for and never stepped over', async (t) => {
  const { peer, client, seqs } = await started(t);
  peer.log = [entryOf(1)];
  peer.entry(1);
  peer.entry(3);
  await until('it was asked for twice', () => peer.of('history').length >= 2);
  assert.deepEqual(seqs, [1]);
  peer.log = [entryOf(1), entryOf(2, { kind: 'void', message_id: null, sender_id: null, text: null }), entryOf(3)];
  await until('the void came', () => seqs.length === 3);
  assert.deepEqual(seqs, [1, 2, 3]);
});

test('the ok of a send takes its place in the order, also when it overtakes an entry', async (t) => {
  const { peer, client } = await started(t);
  peer.answers['message.send'] = (frame) => okOf(frame, 3);
  const conversation = client.conversation('c1');
  await conversation.open();
  peer.entry(1);
  const message = await conversation.send('mine');
  assert.deepEqual([message.seq, message.state], [3, 'sent']);
  assert.deepEqual(conversation.messages.map((one) => one.text), ['t1', 'mine']);
  peer.entry(2);
  assert.deepEqual(conversation.messages.map((one) => one.text), ['t1', 't2', 'mine']);
});

test('a send whose ok was lost is settled by its entry, and resent with the same id until then', async (t) => {
  const { peer, client } = await started(t);
  peer.answers['message.send'] = () => undefined;
  const conversation = client.conversation('c1');
  const events = [];
  client.on('message', ({ message }) => events.push(message.text));
  const sending = conversation.send('mine');
  await until('it was sent', () => peer.of('message.send').length === 1);
  peer.close(1006);
  await until('it was sent again', () => peer.of('message.send').length === 2);
  const [first, second] = peer.of('message.send');
  assert.equal(first.message_id, second.message_id);
  peer.entry(1, { sender_id: 'ann', message_id: first.message_id, text: 'mine' });
  assert.equal((await sending).seq, 1);
  assert.deepEqual([events, client.unsentCount], [['mine'], 0]);
});

test('after a refusal for the moment nothing overtakes, and all go again in order, no sooner than asked', async (t) => {
  const { peer, client } = await started(t);
  let stored = 0;
  let openAt = Infinity; // the first of the hold may pass from then on
  const passed = [];
  peer.answers['message.send'] = (frame) => {
    const { text } = frame;
    if (openAt === Infinity && text === 'b') openAt = Date.now() + 100;
    const isNext = text === 'abcde'[passed.length];
    if (text === 'b' && Date.now() < openAt - 5) return errorOf('unavailable', 100);
    if (!isNext || (text !== 'a' && Date.now() < openAt - 5)) return errorOf('held');
    passed.push(text);
    return okOf(frame, ++stored);
  };
  const conversation = client.conversation('c1');
  const sending = ['a', 'b', 'c', 'd'].map((text) => conversation.send(text));
  await until('all were answered', () => peer.of('message.send').length === 4);
  sending.push(conversation.send('e')); // is no reason to hurry
  const messages = await Promise.all(sending);
  assert.deepEqual(messages.map((message) => message.text + message.seq), ['a1', 'b2', 'c3', 'd4', 'e5']);
  assert.equal(peer.of('message.send').map((frame) => frame.text).join(''), 'abcdbcde');
});

test('a message that waits can be taken back, and the hold of the server is told', async (t) => {
  const { peer, client } = await started(t);
  peer.answers['message.send'] = () => undefined;
  const conversation = client.conversation('c1');
  const wrong = conversation.send('wrong', { messageId: 'w1' });
  const { id } = await until('it was sent', () => peer.of('message.send')[0]);
  assert.equal(conversation.discard('w1'), false, 'it is on its way');
  peer.say({ id, ...errorOf('rate_limited', 60000) });
  await until('it was refused', () => conversation.discard('w1'));
  await assert.rejects(wrong, { code: 'discarded' });
  assert.deepEqual(peer.of('message.abandon').map((frame) => frame.message_id), ['w1']);
  assert.equal(conversation.messages.length, 0);
});

test('an outbox that is full takes no more and gives nothing up: neither the new text nor a failed one', async (t) => {
  const { peer, client } = await started(t);
  peer.answers['message.send'] = (frame) => (frame.text === 'bad'
    ? { type: 'error', code: 'too_large', temporary: false, retry_after_ms: null, message: 'too long' } : null);
  const conversation = client.conversation('c1');
  await assert.rejects(conversation.send('bad'), { code: 'too_large' });
  for (let i = 0; i < 1000; i += 1) conversation.send(`m${i}`).catch(() => {});
  await assert.rejects(conversation.send('one more'), { code: 'outbox_full', temporary: true });
  const { messageId } = conversation.messages.find((one) => one.state === 'failed');
  await assert.rejects(conversation.retry(messageId), { code: 'outbox_full' });
  assert.equal(conversation.messages.filter((one) => one.state === 'failed').length, 1);
});

test('a send that is refused for good fails alone, survives a reload, and can be tried again', async (t) => {
  const storage = memoryStorage();
  const { peer, client } = await started(t, { storage });
  let isRefusing = true;
  peer.answers['message.send'] = (frame) => (frame.text === 'bad' && isRefusing
    ? { type: 'error', code: 'too_large', temporary: false, retry_after_ms: null, message: 'too long' }
    : okOf(frame, frame.text === 'good' ? 1 : 2));
  const conversation = client.conversation('c1');
  const states = [];
  client.on('updated', ({ message }) => states.push([message.text, message.state]));
  const bad = conversation.send('bad', { ttlS: 600 });
  await conversation.send('good');
  await assert.rejects(bad, { code: 'too_large' });
  assert.deepEqual(states, [['bad', 'failed'], ['good', 'sent']]);
  await client.close();

  const again = peer.client({ storage });
  t.after(() => again.close());
  await again.connect();
  const failed = await until('it is shown again', () => again.conversation('c1').messages[0]);
  assert.deepEqual([failed.text, failed.state, failed.error.code], ['bad', 'failed', 'too_large']);
  isRefusing = false;
  assert.equal((await again.conversation('c1').retry(failed.messageId)).seq, 2);
  assert.equal(peer.of('message.send').at(-1).ttl_s, 600); // it does not live longer than its author wanted
  assert.deepEqual(await storage.all(), []);
});

test('resume names the last contiguous seq, and reads on where the server has more', async (t) => {
  const { peer, client, seqs } = await started(t);
  for (const seq of [1, 2]) peer.entry(seq);
  peer.log = Array.from({ length: 7 }, (_, index) => entryOf(index + 1));
  peer.close(1006);
  await until('it came back', () => peer.of('connect').length === 2 && client.state === 'connected');
  assert.deepEqual(peer.of('connect')[1].resume, { c1: 2 });
  assert.ok(peer.of('connect')[1].since < Date.now());
  peer.entry(3);
  peer.say({ ...RESUMED, from_seq: 3, to_seq: 3, complete: false, unread_count: 7 });
  await until('the rest was read', () => seqs.length === 7);
  assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6, 7]);
  assert.equal(client.conversation('c1').unreadCount, 7);
});

test('a short connection does not move what is known, and a long one does', async (t) => {
  const { pass } = movedClocks(t);
  const { peer, client } = await started(t);
  const back = async (count) => {
    client.reconnectNow();
    await until('it came back', () => peer.of('connect').length === count && client.state === 'connected');
    return peer.of('connect').at(-1).since;
  };
  const bornAt = Date.now();
  peer.close(1006);
  pass(3600000); // an hour without a network
  const first = await back(2);
  assert.ok(first <= bornAt, 'since the first hello');
  peer.close(1006); // before it told what had changed
  assert.equal(await back(3), first);
  for (let seq = 1; seq <= 6; seq += 1) {
    pass(10000);
    peer.entry(seq);
  }
  peer.close(1006);
  const heardAt = Date.now();
  const third = await back(4);
  assert.ok(third > heardAt - 40000 && third <= heardAt - 30000, 'up to a moment before its end');
});

test('a conversation that was never seen begins with what was sent after the first hello', async (t) => {
  const { peer, client, seqs } = await started(t);
  const old = (seq) => entryOf(seq, { sent_at: Date.now() - 60000 });
  peer.log = [old(1), old(2), entryOf(3), entryOf(4)];
  peer.entry(4);
  await until('both are there', () => seqs.length === 2);
  assert.deepEqual(seqs, [3, 4]);
});

/** A page of the inbox with one conversation, whose last entry is `seq`. */
const pageOf = (seq, sentAt) => ({ type: 'ok', next_cursor: null, total_unread: 1, unread_conversations: 1, stale: false,
  conversations: [{ conversation_id: 'c1', kind: 'direct', name: 'bob', last_seq: seq, last_message_ts: sentAt, read_seq: 0,
    unread_count: 1, unread_capped: false, pinned: false, muted: false, archived: false }] });

test('a message of the moment before the first hello is no news, whoever reads the list', async (t) => {
  const { peer, client, seqs } = await started(t);
  const sentAt = client.hello.serverTime - 500;
  peer.log = [1, 2, 3].map((seq) => entryOf(seq, { sent_at: sentAt }));
  peer.answers.inbox = () => pageOf(3, sentAt);
  await client.inbox.load();
  peer.entry(4);
  await until('the next one is there', () => seqs.includes(4));
  assert.deepEqual(seqs, [4]);
});

test('an entry that was pushed is news, though a clock behind dates it before the first hello', async (t) => {
  const { peer, client, seqs } = await started(t);
  const sentAt = client.hello.serverTime - 500;
  peer.log = [1, 2, 3].map((seq) => entryOf(seq, { sent_at: sentAt }));
  peer.answers.inbox = () => pageOf(3, sentAt);
  peer.answers.history = () => undefined; // the list comes first
  peer.entry(3, { sent_at: sentAt });
  await client.inbox.load();
  await until('it is there', () => seqs.length === 1);
  assert.deepEqual(seqs, [3]);
});

test('so much was missed that it is not replayed: it is said, and the screen shows the newest', async (t) => {
  const { peer, client, seqs } = await started(t, { catchUpMax: 50 });
  const conversation = client.conversation('c1');
  peer.entry(1);
  await conversation.open();
  const skipped = client.once('skipped');
  peer.log = Array.from({ length: 300 }, (_, index) => entryOf(index + 1));
  peer.entry(300);
  const { fromSeq, toSeq } = await skipped;
  assert.deepEqual([fromSeq, toSeq], [2, 300]);
  await until('the newest are shown', () => conversation.messages.at(-1)?.seq === 300);
  peer.entry(301);
  assert.deepEqual(seqs, [1, 301]);
  assert.equal(conversation.messages.at(-1).seq, 301);
  assert.equal(conversation.hasOlder, true);
});

test('another store: everything that is known is forgotten', async (t) => {
  const { peer, client } = await started(t);
  const conversation = client.conversation('c1');
  peer.log = [1, 2, 3].map((seq) => entryOf(seq, { sent_at: 1 }));
  await conversation.open();
  peer.entry(4);
  assert.equal(conversation.messages.length, 4);
  peer.hello = { ...peer.hello, store_epoch: 'e2' };
  peer.log = [entryOf(1, { sent_at: 1, text: 'other' })];
  peer.close(1006);
  await until('the other log is shown', () => conversation.messages.length === 1);
  assert.equal(conversation.messages[0].text, 'other');
  assert.deepEqual(peer.of('connect').at(-1).resume, {});
});

test('reset: the seq named lies beyond the head', async (t) => {
  const { peer, client, seqs } = await started(t);
  for (const seq of [1, 2, 3]) peer.entry(seq);
  peer.say({ ...RESUMED, from_seq: 1, to_seq: 1, reset: true });
  peer.entry(2);
  assert.deepEqual(seqs, [1, 2, 3, 2]);
});

test('a line that went silent is noticed and left', async (t) => {
  const peer = new Peer();
  peer.hello = { ...peer.hello, ping_interval_ms: 40 };
  peer.answers.ping = () => undefined;
  const { pass } = movedClocks(t);
  const client = peer.client();
  t.after(() => client.close());
  await client.connect();
  await until('it asks', () => peer.of('ping').length > 0);
  pass(11000);
  await until('it came back', () => peer.of('connect').length === 2);
});

/** A client whose clock the test moves: `ahead(ms)`. */
async function clocked(t, peer, options) {
  const { pass: ahead } = movedClocks(t);
  const client = peer.client(options);
  t.after(() => client.close());
  await client.connect();
  return { client, ahead };
}

test('what lay in the socket while we slept does not count as heard', async (t) => {
  const peer = new Peer();
  peer.answers.ping = () => undefined;
  const { ahead } = await clocked(t, peer);
  for (let seq = 1; seq <= 6; seq += 1) {
    ahead(10_000);
    peer.entry(seq);
  }
  const knownAt = Date.now(); // the last that was heard in time
  ahead(3_600_000);
  peer.entry(7); // it was under way when the lid was closed
  assert.equal(peer.of('ping').length, 1);
  peer.close(1006);
  await until('it came back', () => peer.of('connect').length === 2);
  const { since } = peer.of('connect')[1];
  assert.ok(since > knownAt - 40_000 && since <= knownAt, 'what came while we slept is asked for');
});

test('after a sleep a line that answers is kept', async (t) => {
  const peer = new Peer();
  peer.hello = { ...peer.hello, ping_interval_ms: 40 };
  const { ahead } = await clocked(t, peer);
  ahead(120_000);
  await until('it asks', () => peer.of('ping').length > 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(peer.sockets.length, 1);
});

test('requests that need a new token at the same time ask for one', async (t) => {
  const claims = (sub, exp) => `x.${Buffer.from(JSON.stringify({ sub, exp })).toString('base64url')}.x`;
  const asked = [];
  const getToken = async ({ reason }) => (asked.push(reason), claims('ann', Date.now() / 1000 + 3600));
  const fetch = async () => new Response('{}');
  const client = new Peer().client({ token: claims('ann', Date.now() / 1000 - 60), getToken, fetch });
  t.after(() => client.close());
  await Promise.all([client.rest('GET', '/v1/unread'), client.rest('GET', '/v1/inbox'), client.connect()]);
  assert.deepEqual(asked, ['expiring']);
});

test('a token that never comes is asked for again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const asked = [];
  const client = new Peer().client({ token: undefined, getToken: ({ reason }) => (asked.push(reason), new Promise(() => {})) });
  t.after(() => client.close());
  client.connect().catch(() => {});
  for (let turn = 0; turn < 200 && asked.length < 3; turn += 1) {
    t.mock.timers.tick(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual([asked.length, client.state, client.error.code], [3, 'connecting', 'timeout']);
});

test('come back or stop, as the close code says', async (t) => {
  for (const code of [1006, 1009, 4004, 4008, 4012]) {
    const { peer, client } = await started(t);
    peer.close(code);
    assert.equal((await client.once('state')).state, 'connecting');
    await until(`back after ${code}`, () => client.state === 'connected');
    await client.close();
  }
  for (const code of [4500, 4501, 4502, 4503, 4504, 4505]) {
    const { peer, client } = await started(t);
    peer.close(code);
    await until(`stopped after ${code}`, () => client.state === 'disconnected');
    assert.deepEqual([client.error.code, client.error.closeCode, peer.sockets.length], ['stopped', code, 1]);
    await client.close();
  }
});

test('draining says when to come back', async (t) => {
  const { peer, client } = await started(t);
  const hourMs = 3_600_000; // it cannot pass: who comes back did so because it was asked to
  peer.say({ type: 'draining', reconnect_in_ms: hourMs });
  const at = Date.now();
  peer.close(4001);
  await until('it waits', () => client.retryAt !== null);
  assert.ok(client.retryAt >= at + hourMs && client.retryAt <= Date.now() + hourMs);
  client.reconnectNow();
  await until('it came back', () => client.state === 'connected');
});

test('after draining it comes back by itself', async (t) => {
  const { peer, client } = await started(t);
  peer.say({ type: 'draining', reconnect_in_ms: 30 });
  const at = Date.now();
  peer.close(4001);
  await until('it came back', () => peer.sockets.length === 2 && client.state === 'connected');
  assert.ok(Date.now() - at >= 25, 'not sooner than asked');
});

test('the outbox in localStorage has one key per message and skips what is not its own', async (t) => {
  const items = new Map([['other', 'x'], ['tidings:outbox:broken', '{']]);
  const storage = { get length() { return items.size; }, key: (index) => [...items.keys()][index], getItem: (key) => items.get(key),
    setItem: (key, value) => items.set(key, value), removeItem: (key) => items.delete(key) };
  const outbox = localStorageOutbox({ storage });
  outbox.put('a/b/c', { messageId: 'c' });
  assert.deepEqual(outbox.all(), [{ messageId: 'c' }]);
  outbox.delete('a/b/c');
  assert.deepEqual([outbox.all(), items.size], [[], 2]);
});

test('a listener that throws hinders nobody', async (t) => {
  const { peer, client, seqs } = await started(t);
  const problems = [];
  client.on('error', ({ error }) => problems.push(error.message));
  client.on('message', () => { throw new Error('mine'); });
  peer.entry(1);
  peer.entry(2);
  assert.deepEqual([seqs, problems], [[1, 2], ['mine', 'mine']]);
});

test('a burst is acknowledged in few words, up to the last contiguous seq', async (t) => {
  const { peer } = await started(t);
  for (let seq = 1; seq <= 100; seq += 1) peer.entry(seq);
  peer.entry(200);
  await until('it was acknowledged', () => peer.of('message.delivered').some((frame) => frame.acks.c1 === 100));
  assert.ok(peer.of('message.delivered').length <= 2);
});

test('a newer receipt does not wait for an answer, and one without an answer goes again', async (t) => {
  const { peer } = await started(t);
  const acks = () => peer.of('message.delivered').map((frame) => frame.acks);
  peer.answers['message.delivered'] = ({ acks: { c1 } }) => (c1 ? { type: 'ok' } : undefined);
  peer.entry(1, {}, 'c2');
  await until('the first', () => acks().length === 1);
  peer.entry(1);
  await until('the second', () => acks().length === 2);
  assert.deepEqual(acks(), [{ c2: 1 }, { c1: 1 }]);
  peer.close(4004);
  await until('again', () => acks().length === 3);
  assert.deepEqual(acks()[2], { c2: 1 }, 'what was answered is written');
});

test('reads that follow each other quickly are folded together', async (t) => {
  const { peer, client } = await started(t);
  const read = { type: 'ok', conversation_id: 'c1', unread_count: 0, unread_capped: false, first_unread_seq: null, total_unread: 0 };
  peer.answers['message.read'] = ({ up_to_seq }) => ({ ...read, read_seq: up_to_seq });
  const conversation = client.conversation('c1');
  for (let seq = 1; seq <= 20; seq += 1) peer.entry(seq);
  const states = await Promise.all(Array.from({ length: 20 }, (_, index) => conversation.markRead(index + 1)));
  assert.equal(states.at(-1).readSeq, 20);
  assert.deepEqual(peer.of('message.read').map((frame) => frame.up_to_seq), [1, 20]);
  await conversation.markRead();
  assert.equal(peer.of('message.read').length, 2, 'nothing new to say');
});

test('a text that cannot be read is not a deleted one, and an edit brings it back', async (t) => {
  const { peer, client } = await started(t);
  peer.log = [entryOf(1, { text: null, unavailable: true }), entryOf(2)];
  const conversation = client.conversation('c1');
  await conversation.open();
  const shown = () => conversation.messages.map(({ text, deleted, unavailable }) => [text, deleted, unavailable]);
  assert.deepEqual(shown(), [[null, false, true], ['t2', false, false]]);
  peer.entry(3, { kind: 'edit', target_seq: 1, text: 'again' });
  assert.deepEqual(shown()[0], ['again', false, false]);
});

test('a page that was read before an edit shows the edit', async (t) => {
  const { peer, client } = await started(t);
  const conversation = client.conversation('c1');
  peer.log = [1, 2, 3].map((seq) => entryOf(seq, { sent_at: 1 }));
  await conversation.open({ limit: 1 });
  peer.entry(4, { kind: 'edit', target_seq: 1, text: 'better', message_id: null });
  peer.entry(5, { kind: 'delete', target_seq: 2, text: null, message_id: null });
  await conversation.loadOlder(10);
  assert.deepEqual(conversation.messages.map((message) => message.text), ['better', null, 't3']);
});

test('a conversation that begins while the inbox is asked for is in it', async (t) => {
  const { peer, client } = await started(t);
  peer.answers.inbox = () => {
    peer.say({ type: 'conversation.added', conversation_id: 'c9', kind: 'direct', name: 'bob', last_seq: 1, last_message_ts: 5 });
    return { type: 'ok', conversations: [], next_cursor: null, total_unread: 0, unread_conversations: 0, stale: false };
  };
  await client.inbox.load();
  assert.deepEqual(client.inbox.conversations.map((one) => one.id), ['c9']);
});

test('a thousand messages of a page that ended are adopted in one write, and sent in order', async (t) => {
  const kept = new Map();
  const writes = [];
  const storage = {
    put: (key, record) => (writes.push(1), void kept.set(key, record)),
    putAll: (pairs) => (writes.push(pairs.length), pairs.forEach(([key, record]) => kept.set(key, record))),
    delete: (key) => void kept.delete(key),
    all: () => [...kept.values()].reverse(), // in no useful order
  };
  for (let order = 1; order <= 1000; order += 1) {
    const record = { userId: 'ann', owner: 'gone', conversationId: 'c1', messageId: `m${order}`, text: `t${order}`, ts: order, order, failed: null };
    kept.set(`ann/c1/m${order}`, record);
  }
  const sent = [];
  const { peer } = await started(t);
  peer.answers['message.send'] = ({ message_id }) => ({ type: 'ok', seq: sent.push(message_id), sent_at: 5, deduped: false });
  const client = peer.client({ storage });
  t.after(() => client.close());
  await client.connect();
  await until('all are sent', () => kept.size === 0);
  assert.deepEqual(writes, [1000]);
  assert.deepEqual(sent, Array.from({ length: 1000 }, (_, at) => `m${at + 1}`));
  assert.equal(client.unsentCount, 0);
});

for (const load of ['load', 'loadMore', 'loadArchived']) {
  test(`a conversation that ends while the inbox is asked for by ${load} is not in it`, async (t) => {
    const { peer, client } = await started(t);
    const row = (id) => ({ conversation_id: id, kind: 'group', name: id, last_seq: 1, last_message_ts: 5, unread_count: 0, unread_capped: false });
    const page = (ids, next_cursor) =>
      ({ type: 'ok', conversations: ids.map(row), next_cursor, total_unread: 0, unread_conversations: 0, stale: false });
    peer.answers.inbox = () => page(['c1'], 'more');
    await client.inbox.load();
    peer.answers.inbox = () => {
      peer.say({ type: 'conversation.removed', conversation_id: 'c1' });
      peer.say({ type: 'conversation.removed', conversation_id: 'c3' });
      peer.say({ type: 'conversation.added', ...row('c3') }); // and comes back
      return page(['c1', 'c2', 'c3'], null);
    };
    await client.inbox[load]();
    assert.deepEqual(client.inbox.conversations.map((one) => one.id).sort(), ['c2', 'c3']);
    assert.deepEqual(['c1', 'c2', 'c3'].map((id) => client.conversation(id).removed), [true, false, false]);
  });
}

test('after two hundred changed conversations the inbox is read again', async (t) => {
  const { peer, client } = await started(t);
  peer.answers.inbox = () => ({ type: 'ok', conversations: [], next_cursor: null, total_unread: 0, unread_conversations: 0, stale: false });
  await client.inbox.load();
  const row = { kind: 'group', name: 'g', avatar_url: null, last_message_preview: null, last_message_ts: 1, last_seq: 1, unread_count: 0,
    unread_capped: false, read_seq: 1, first_unread_seq: null, muted: false, pinned: false, archived: false };
  for (let number = 0; number < 199; number += 1) peer.say({ type: 'conversation.updated', conversation_id: `g${number}`, ...row });
  assert.deepEqual([peer.of('inbox').length, client.inbox.conversations.length], [1, 199]);
  peer.say({ type: 'conversation.updated', conversation_id: 'g199', ...row });
  await until('it was read again', () => peer.of('inbox').length === 2);
});

test('a hello without totals keeps the badge, and the totals follow', async (t) => {
  const peer = new Peer();
  peer.hello = { ...peer.hello, total_unread: null, unread_conversations: null };
  const client = peer.client();
  t.after(() => client.close());
  const badges = [];
  client.on('unread', ({ totalUnread, unreadConversations }) => badges.push([totalUnread, unreadConversations]));
  await client.connect();
  assert.deepEqual([badges, client.inbox.totalUnread], [[], 0]);
  peer.say({ type: 'read.synced', conversation_id: null, read_seq: null, unread_count: null, unread_capped: false,
    total_unread: 12, unread_conversations: 3 });
  assert.deepEqual(badges, [[12, 3]]);
  assert.deepEqual([client.inbox.totalUnread, client.inbox.unreadConversations], [12, 3]);
});

test('a send that waits for the limit says when it goes on, and why', async (t) => {
  const { peer, client } = await started(t);
  const told = [];
  client.on('waiting', ({ conversation, retryAt, code }) => told.push([conversation.id, code, retryAt === null]));
  let sends = 0;
  peer.answers['message.send'] = (frame) => (++sends === 1 ? errorOf('rate_limited', 50) : okOf(frame, 1));
  const conversation = client.conversation('c1');
  const before = Date.now();
  const sending = conversation.send('later');
  await until('it waits', () => conversation.retryAt !== null);
  assert.ok(conversation.retryAt >= before + 50);
  await sending;
  assert.deepEqual(told, [['c1', 'rate_limited', false], ['c1', null, true]]);
  assert.equal(conversation.retryAt, null);
});

test('an own message that waits brings its conversation to the top of the inbox', async (t) => {
  const { peer, client } = await started(t);
  const row = (id, ts) => ({ conversation_id: id, kind: 'direct', name: id, avatar_url: null, last_message_preview: 'x',
    last_message_ts: ts, last_seq: 1, unread_count: 0, unread_capped: false, read_seq: 1, first_unread_seq: null,
    muted: false, pinned: false, archived: false });
  const totals = { next_cursor: null, total_unread: 0, unread_conversations: 0, stale: false };
  peer.answers.inbox = () => ({ type: 'ok', conversations: [row('new', 2000), row('old', 1000)], ...totals });
  peer.answers['message.send'] = () => undefined;
  await client.inbox.load();
  assert.deepEqual(client.inbox.conversations.map((one) => one.id), ['new', 'old']);
  client.conversation('old').send('waits').catch(() => {});
  assert.deepEqual(client.inbox.conversations.map((one) => one.id), ['old', 'new']);
});

test('a runtime without a WebSocket is told what to install', () => {
  const known = globalThis.WebSocket;
  globalThis.WebSocket = undefined;
  try {
    assert.throws(() => new TidingsClient({ url: 'http://127.0.0.1:1', token: 't' }), /npm install ws[\s\S]*WebSocket \}\)/);
  } finally {
    globalThis.WebSocket = known;
  }
});

test('reactions and pins change the message that they name, and a page that holds them already is not changed twice', async (t) => {
  const { peer, client } = await started(t);
  const conversation = client.conversation('c1');
  await conversation.open();
  peer.entry(1);
  const react = (seq, reactions) => peer.entry(seq, { kind: 'reaction', text: null, target_seq: 1, reactions });
  react(2, [['thumbs_up', ['bob', client.userId], []], ['👎', ['carl'], []]]);
  const shown = () => conversation.messages[0];
  assert.deepEqual(shown().reactions, { thumbs_up: { count: 2, mine: true }, '👎': { count: 1, mine: false } });
  react(3, [['thumbs_up', [], [client.userId]], ['👎', [], ['carl']]]);
  assert.deepEqual(shown().reactions, { thumbs_up: { count: 1, mine: false } });
  peer.entry(4, { kind: 'pin', text: null, target_seq: 1, pinned: true });
  assert.equal(shown().pinned, true);
  const counts = { thumbs_up: { count: 1, mine: false } };
  peer.log = [entryOf(1, { reactions: counts, reactions_seq: 3, pinned: true })];
  await conversation.jumpTo('newest');
  assert.deepEqual([shown().reactions, shown().reactionsSeq, shown().pinned], [counts, 3, true]);
  peer.entry(5, { kind: 'delete', text: null, target_seq: 1 });
  assert.deepEqual([shown().reactions, shown().pinned, conversation.messages.length], [{}, false, 1]);
});
