/** A server that takes few messages in a time: a burst is sent whole, in order, and nothing overtakes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, until } from './server.js';

let server;
let slow; // its time is so long that the sixth message of a burst is always refused
before(async () => {
  server = await Server.start({ TIDINGS_LIMITS_SEND: '5/1s' });
  slow = await Server.start({ TIDINGS_LIMITS_SEND: '5/10s' });
});
after(() => Promise.all([server.stop(), slow.stop()]));

test('a burst over the limit is stored in the order it was written', async () => {
  const ann = await server.connected('ann');
  const conversation = await ann.direct('bob');
  const texts = Array.from({ length: 14 }, (_, index) => `${index}`);
  const messages = await Promise.all(texts.map((text) => conversation.send(text)));
  assert.deepEqual(messages.map((message) => message.seq), texts.map((_, index) => index + 1));
  assert.deepEqual((await server.log('ann', conversation.id)).map((entry) => entry.text), texts);
});

test('a message that waits for the limit can be taken back, and the next ones pass', async () => {
  const cem = await slow.connected('cem');
  const conversation = await cem.direct('bob');
  const all = ['1', '2', '3', '4', '5', 'wrong', '6'].map((text) => conversation.send(text, { messageId: `id-${text}` }));
  await until('it was refused', () => conversation.retryAt !== null);
  await until('it was taken back', () => conversation.discard('id-wrong'));
  await assert.rejects(all[5], { code: 'discarded' });
  await all[6];
  assert.deepEqual((await slow.log('cem', conversation.id)).map((entry) => entry.text), ['1', '2', '3', '4', '5', '6']);
});
