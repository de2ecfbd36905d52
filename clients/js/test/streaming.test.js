/** A message is written piece by piece, shown while it is written, and stored once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Peer } from './scripted.js';
import { Server, until } from './server.js';

let server;
before(async () => {
  server = await Server.start();
});
after(() => server.stop());

test('readers see the pieces, and the end is no edit', async () => {
  const [ann, bob] = await Promise.all(['ann', 'bob'].map((user) => server.connected(user)));
  const { id } = await ann.direct('bob');
  await bob.conversation(id).open();
  const pieces = [];
  bob.on('appended', ({ text }) => pieces.push(text));
  const out = await ann.conversation(id).stream({ messageId: 're-1' });
  out.write('Çtreams ');
  await until('the first piece', () => pieces.join('') === 'Çtreams ');
  out.write('flow.');
  await until('both pieces', () => bob.conversation(id).messages.at(-1)?.text === 'Çtreams flow.');
  assert.equal(bob.conversation(id).messages.at(-1).stream, 'streaming');
  const late = await ann.conversation(id).stream({ messageId: 're-1' });
  assert.equal(late.isDuplicate, true);
  await out.end();
  await until('the end', () => bob.conversation(id).messages.at(-1)?.stream === 'done');
  const { text, editedAt, seq } = bob.conversation(id).messages.at(-1);
  assert.deepEqual({ text, editedAt, seq }, { text: 'Çtreams flow.', editedAt: null, seq: out.seq });
  await Promise.all([ann.close(), bob.close()]);
});

test('a begin whose answer was lost is ones own', async () => {
  const ann = await server.connected('ann');
  const { id } = await ann.direct('bob');
  const { _link: link } = ann;
  const ask = link.request.bind(link);
  link.request = async (...given) => {
    await ask(...given);
    link.request = ask;
    throw Object.assign(new Error('lost'), { code: 'disconnected', temporary: true });
  };
  const out = await ann.conversation(id).stream({ messageId: 're-3' });
  assert.equal(out.isDuplicate, false);
  out.write('it is written');
  await out.end();
  const stored = await ann.rest('GET', `/v1/conversations/${id}/messages/${out.seq}`);
  assert.deepEqual([stored.text, stored.state], ['it is written', 'done']);
  await ann.close();
});

test('a reader who misses a piece reads the text so far', async () => {
  const [ann, bob] = await Promise.all(['ann', 'bob'].map((user) => server.connected(user)));
  const { id } = await ann.direct('bob');
  const out = await ann.conversation(id).stream({ messageId: 're-2' });
  await bob.conversation(id).open();
  const { _window: view } = bob.conversation(id);
  const { grow } = view;
  view.grow = () => {}; // the first piece is lost
  const first = bob.once('appended');
  out.write('one ');
  await first;
  view.grow = grow;
  out.write('two ');
  await until('the text so far', () => bob.conversation(id).messages.at(-1)?.text === 'one two ');
  out.write('three');
  await until('the next piece', () => bob.conversation(id).messages.at(-1)?.text === 'one two three');
  await out.end();
  await Promise.all([ann.close(), bob.close()]);
});

test('an end that is refused for now is sent again no sooner than asked', async (t) => {
  const peer = new Peer();
  const client = peer.client();
  t.after(() => client.close());
  await client.connect();
  peer.answers['message.begin'] = ({ conversation_id, message_id }) =>
    ({ type: 'ok', conversation_id, message_id, seq: 1, sent_at: 5, duplicate: false, offset: 0 });
  const heardAt = [];
  peer.answers['message.end'] = () => {
    heardAt.push(Date.now());
    return heardAt.length > 1 ? { type: 'ok' } : { type: 'error', code: 'unavailable', temporary: true, retry_after_ms: 200, message: '' };
  };
  const out = await client.conversation('c1').stream();
  await out.end();
  assert.equal(heardAt.length, 2);
  assert.ok(heardAt[1] - heardAt[0] >= 195, `after ${heardAt[1] - heardAt[0]} ms`); // timers may be early by a little
});
