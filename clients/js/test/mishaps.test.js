/** What networks, servers, clocks and programs do wrong, against a scripted server: the client comes back, or says why not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TidingsClient, memoryStorage } from '../src/tidings.js';
import { Locks } from './locks.js';
import { Peer, entryOf, movedClocks } from './scripted.js';
import { until } from './server.js';

const errorOf = (code, retryAfterMs = null) => ({ type: 'error', code, temporary: true, retry_after_ms: retryAfterMs, message: '' });
const tokenOf = (sub, exp) => `x.${Buffer.from(JSON.stringify({ sub, exp })).toString('base64url')}.x`;
const rowOf = (id, more = {}) => ({ conversation_id: id, kind: 'group', name: id, avatar_url: null, last_message_preview: 't1',
  last_seq: 1, last_message_ts: 5, unread_count: 0, unread_capped: false, read_seq: 1, first_unread_seq: null, muted: false,
  pinned: false, archived: false, ...more });
const pageOf = (...rows) => ({ type: 'ok', conversations: rows, next_cursor: null, total_unread: 0, unread_conversations: 0, stale: false });
/** Let everything run that waits for nothing outside. */
const settled = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};
const answerOf = (body, status = 200) => new Response(JSON.stringify(body), { status });

async function started(t, options, peer = new Peer()) {
  const client = peer.client(options);
  t.after(() => client.close());
  await client.connect();
  return { peer, client };
}

// --- clocks ---

test('a clock that is set ahead does not make the client pass over what it missed', async (t) => {
  const { pass, set } = movedClocks(t);
  const { peer } = await started(t);
  const hour = 3_600_000;
  set(2 * hour);
  peer.entry(1);
  await until('the line is asked', () => peer.of('ping').length === 1);
  await settled();
  for (let seq = 2; seq <= 6; seq += 1) {
    pass(10_000);
    peer.entry(seq);
  }
  peer.close(1006);
  await until('it came back', () => peer.of('connect').length === 2);
  assert.ok(peer.of('connect')[1].since < Date.now() - 2 * hour, 'by the clock of the server, which nobody set');
});

test('a clock that is set back does not hide that the server is silent', async (t) => {
  const { pass, set } = movedClocks(t);
  const peer = new Peer();
  peer.hello = { ...peer.hello, ping_interval_ms: 40 };
  peer.answers.ping = () => undefined;
  await started(t, {}, peer);
  set(-3_600_000);
  await until('it asks', () => peer.of('ping').length > 0);
  pass(11_000);
  await until('it came back', () => peer.of('connect').length === 2);
});

test('getToken is not asked in a loop when it gives the same old token again and again', async (t) => {
  const peer = new Peer();
  let asked = 0;
  const getToken = () => ((asked += 1), tokenOf('ann', Date.now() / 1000 - 3600));
  await started(t, { token: undefined, getToken }, peer);
  const at = performance.now();
  await until('it was asked again', () => asked >= 4); // for the connect, for the first renewal, and twice more
  assert.ok(performance.now() - at >= 1900, 'a second apart');
});

// --- coming back ---

test('a server that ends each connection at once is asked less and less often, however slow it is', async (t) => {
  const { pass } = movedClocks(t);
  t.mock.method(Math, 'random', () => 1);
  const peer = new Peer();
  peer.answers.connect = (frame, { socket }) => {
    pass(6000); // longer than a stable connection lasts
    queueMicrotask(() => peer.close(4004));
    return errorOf('unavailable');
  };
  const client = peer.client();
  t.after(() => client.close());
  const waits = [];
  client.on('state', ({ retryAt }) => retryAt !== null && (waits.push(retryAt - Date.now()), client.reconnectNow()));
  client.connect().catch(() => {});
  const wake = setInterval(() => client.reconnectNow(), 5);
  t.after(() => clearInterval(wake));
  await until('it tried five times', () => waits.length >= 5);
  assert.ok(waits[4] > waits[0] * 8, `it waits longer: ${waits}`);
});

test('a connect that is refused for now is tried again no sooner than the server asks', async (t) => {
  const peer = new Peer();
  peer.answers.connect = () => {
    queueMicrotask(() => peer.close(4013));
    return errorOf('rate_limited', 3_600_000);
  };
  const client = peer.client();
  t.after(() => client.close());
  client.connect().catch(() => {});
  await until('it waits', () => client.retryAt !== null);
  assert.ok(client.retryAt - Date.now() > 3_500_000);
});

test('a request that the server puts off for longer than the client waits is refused at once', async (t) => {
  const { peer, client } = await started(t);
  peer.answers.inbox = () => errorOf('rate_limited', 3_600_000);
  await assert.rejects(client.inbox.load(), { code: 'rate_limited', retryAfterMs: 3_600_000 });
});

test('frames that are no JSON objects change nothing', async (t) => {
  const { peer, client } = await started(t);
  for (const data of ['', '{"type":"mess', 'null', '7', '"x"', new Blob(['x'])]) peer.socket.onmessage({ data });
  peer.entry(1);
  assert.deepEqual([client.state, client.conversation('c1').lastSeq], ['connected', 1]);
});

test('the signs of open conversations are asked for again when the server could not say', async (t) => {
  const { peer, client } = await started(t);
  peer.answers.watch = () => (peer.of('watch').length === 1 ? errorOf('unavailable', 5) : { type: 'ok' });
  client.watch(['c1']);
  await until('it asked again', () => peer.of('watch').length === 2);
});

// --- the inbox ---

test('a conversation that was removed stays away when the answer to a mute comes late', async (t) => {
  const fetch = async () => {
    peer.say({ type: 'conversation.removed', conversation_id: 'c1' });
    return answerOf(rowOf('c1', { muted: true }));
  };
  const { peer, client } = await started(t, { fetch });
  peer.answers.inbox = () => pageOf(rowOf('c1'), rowOf('c2'));
  const [conversation] = await client.inbox.load();
  await conversation.mute();
  assert.deepEqual(client.inbox.conversations.map(({ id }) => id), ['c2']);
  assert.equal(conversation.removed, true);
});

test('a message that comes behind the removal of its conversation does not bring the row back', async (t) => {
  const { peer, client } = await started(t);
  peer.answers.inbox = () => pageOf(rowOf('c1'));
  await client.inbox.load();
  peer.answers.inbox = () => pageOf();
  peer.say({ type: 'conversation.removed', conversation_id: 'c1' });
  peer.entry(2);
  assert.deepEqual(client.inbox.conversations, []);
  await until('the list was read again', () => peer.of('inbox').length === 2);
  assert.deepEqual(client.inbox.conversations, []);
});

test('a conversation that begins while the server answers nothing is listed when it answers', async (t) => {
  const { peer, client } = await started(t, { requestTimeoutMs: 20 });
  peer.answers.inbox = () => pageOf();
  await client.inbox.load();
  peer.answers.inbox = () => (peer.of('inbox').length < 4 ? errorOf('unavailable', 30) : pageOf(rowOf('c1')));
  peer.entry(1);
  await until('it is listed', () => client.inbox.conversations.length === 1);
});

// --- files ---

/** A fetch that uploads, and that the test can stop before an answer: `held` says where. */
function uploading(held) {
  const heard = [];
  let letGo;
  const gate = new Promise((resolve) => (letGo = resolve));
  const fetch = async (url, { method }) => {
    heard.push(`${method} ${url.replace(/.*\//, '')}`);
    if (url.endsWith(held)) await gate;
    if (url.endsWith('/uploads')) return answerOf({ file_id: 'f1', parts: [{ url: '/part', headers: {}, from: 0, to: 2 }] });
    return answerOf({ file_id: 'f1', name: 'a', mime: 'b', bytes: 2 });
  };
  return { fetch, heard, letGo };
}

for (const held of ['/uploads', '/complete']) {
  test(`a message that is taken back while the server answers to ${held} is not sent, nor kept`, async (t) => {
    const { fetch, heard, letGo } = uploading(held);
    const storage = memoryStorage();
    const { peer, client } = await started(t, { fetch, storage });
    const conversation = client.conversation('c1');
    const sending = conversation.send('wrong', { messageId: 'w1', files: [new Blob(['hi'])] });
    await until('it waits there', () => heard.some((one) => one.endsWith(held.slice(1))));
    assert.equal(conversation.discard('w1'), true);
    await assert.rejects(sending, { code: 'discarded' });
    peer.answers['message.send'] = ({ message_id }) => ({ type: 'ok', message_id, seq: 1, sent_at: 1, duplicate: false });
    letGo();
    await settled();
    await conversation.send('right');
    assert.deepEqual(peer.of('message.send').map(({ text }) => text), ['right']);
    assert.deepEqual(await storage.all(), []);
  });
}

test('an upload ends with its client: the next one of the same storage sends the message once', async (t) => {
  const { fetch, heard, letGo } = uploading('/complete');
  const storage = memoryStorage();
  const { client } = await started(t, { fetch, storage });
  client.conversation('c1').send('once', { files: [new Blob(['hi'])] }).catch(() => {});
  await until('it waits there', () => heard.includes('POST complete'));
  await client.close();

  const peer = new Peer();
  peer.answers['message.send'] = ({ message_id }) => ({ type: 'ok', message_id, seq: 1, sent_at: 1, duplicate: false });
  await started(t, { fetch: uploading('nowhere').fetch, storage }, peer);
  await until('it is sent', () => storage.all().length === 0);
  letGo();
  await settled();
  assert.deepEqual([peer.of('message.send').length, storage.all()], [1, []]);
});

test('a part whose store never answers is sent again', async (t) => {
  let puts = 0;
  const { fetch: plain } = uploading('nowhere');
  const fetch = (url, init) => {
    if (init.method !== 'PUT' || (puts += 1) > 1) return plain(url, init);
    return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(new Error('aborted'))));
  };
  const { peer, client } = await started(t, { fetch });
  peer.answers['message.send'] = ({ message_id }) => ({ type: 'ok', message_id, seq: 1, sent_at: 1, duplicate: false });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let isSent = false;
  client.conversation('c1').send('look', { files: [new Blob(['hi'])] }).then(() => (isSent = true));
  for (let turn = 0; turn < 1000 && !isSent; turn += 1) {
    t.mock.timers.tick(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual([isSent, puts], [true, 2]);
});

// --- programs ---

test('a client that is closed while it begins leaves nothing that runs', async (t) => {
  const intervals = t.mock.method(globalThis, 'setInterval', () => 0);
  const locks = new Locks();
  const begun = t.mock.method(locks, 'request');
  const client = new Peer().client({ locks, token: tokenOf('ann', Date.now() / 1000 + 3600) });
  client.connect().catch(() => {});
  while (!begun.mock.callCount()) await Promise.resolve();
  await client.close();
  await settled();
  assert.equal(intervals.mock.callCount(), 0);
});

test('a mistake in the options is one line, and no password is in it', () => {
  const { WebSocket } = new Peer();
  const made = (options) => () => new TidingsClient({ url: 'http://here', token: 't', WebSocket, ...options });
  for (const url of ['localhost:8000', 'here', 'ws://here', 'https://ann:hush@here', 'http://ann:hush@here:x', 7]) {
    assert.throws(made({ url }), (error) => /^url must be http:\/\/host:port or https:\/\/host/.test(error.message) && !error.message.includes('hush'));
  }
  assert.throws(made({ token: () => 't' }), /getToken/);
  assert.throws(made({ token: undefined, getToken: 't' }), /token/);
  assert.equal(made({ url: 'https://here/chat/' })()._url, 'https://here/chat');
});

test('one file instead of a list of files is refused, and the text does not go without it', async (t) => {
  const { peer, client } = await started(t);
  const conversation = client.conversation('c1');
  await assert.rejects(conversation.send('look', { files: new Blob(['hi']) }), /files must be a list/);
  assert.deepEqual([peer.of('message.send').length, conversation.messages.length], [0, 0]);
});
