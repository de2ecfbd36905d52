/** A bot reads every entry of every conversation once, in order, and goes on from its cursor. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
});
after(() => server.stop());

async function take(entries, count) {
  const found = [];
  while (found.length < count) found.push((await entries.next()).value);
  return found;
}

test('entries come once and in order, live and from a cursor on', async () => {
  const [ann, bot] = await Promise.all(['ann', 'bot'].map((user) => server.connected(user)));
  const direct = await ann.direct('bot');
  await direct.send('old');
  const entries = await bot.entries().begin();
  await direct.send('one');
  await direct.send('two');
  const texts = (await take(entries, 2)).map(({ entry }) => entry.text);
  assert.deepEqual(texts, ['one', 'two']);
  const { cursor } = entries;
  await entries.return();
  const group = await ann.createConversation({ kind: 'group', members: ['bot'], name: 'g' });
  await direct.send('three');
  await group.send('in the group');
  const again = (await take(bot.entries({ after: cursor }), 2)).map(({ entry }) => entry.text);
  assert.deepEqual(again.sort(), ['in the group', 'three']);
  const all = (await take(bot.entries({ after: 'start' }), 5)).filter(({ conversationId }) => conversationId === direct.id);
  assert.deepEqual(all.map(({ entry }) => entry.text), ['old', 'one', 'two', 'three']);
  assert.throws(() => bot.entries({ after: '{' }), /no cursor/);
  await Promise.all([ann.close(), bot.close()]);
});
