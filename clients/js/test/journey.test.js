/**
 * Several people in direct and group conversations over a network that is cut at random, and a server that is drained:
 * everybody gets exactly what was sent, once, in order; ticks and counts are right at the end.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Network, Server, until } from './server.js';

const MESSAGES = Number(process.env.JOURNEY_MESSAGES ?? 150);
const CUTS_MS = Number(process.env.JOURNEY_CUT_MS ?? 80);
const USERS = ['ann', 'bob', 'cem', 'dia'];

let server;
let network;
before(async () => {
  server = await Server.start();
  network = await Network.to(server);
});
after(async () => {
  await server.stop();
  await network.close();
});

test('exactly what was sent, once, in order, over a network that fails', async () => {
  const seen = new Map(); // user -> conversation -> entries in the order they were told
  const told = new Map(); // user -> keys of messages told
  const problems = [];
  const clients = await Promise.all(USERS.map(async (user) => {
    const client = await server.connected(user, { url: network.url, requestTimeoutMs: 60000 });
    const logs = new Map();
    const keys = [];
    seen.set(user, logs);
    told.set(user, keys);
    client.on('entry', ({ conversation, entry }) => {
      if (!logs.has(conversation.id)) logs.set(conversation.id, []);
      logs.get(conversation.id).push(entry);
    });
    client.on('message', ({ conversation, message }) => keys.push(`${conversation.id} ${message.key}`));
    client.on('error', ({ error }) => problems.push(error));
    return client;
  }));
  const [ann, bob] = clients;
  const direct = await ann.direct('bob');
  const group = await ann.createConversation({ kind: 'group', name: 'all', members: USERS.slice(1) });
  const trio = await bob.createConversation({ kind: 'group', name: 'trio', members: ['ann', 'cem'] });
  const places = [[direct, ['ann', 'bob']], [group, USERS], [trio, ['ann', 'bob', 'cem']]];
  await Promise.all(places.flatMap(([{ id }, members]) =>
    clients.filter((client) => members.includes(client.userId)).map((client) => client.conversation(id).open())));

  const cutting = setInterval(() => network.cut(0.4), CUTS_MS);
  const sent = [];
  const draining = drainInTheMiddle(sent);
  for (let number = 0; number < MESSAGES || network.cutCount < USERS.length; number += 1) {
    const [{ id }, members] = places[number % places.length];
    const user = members[Math.floor(number / places.length) % members.length];
    const text = `${user} ${number}`;
    const client = clients[USERS.indexOf(user)];
    sent.push({ id, user, text, done: client.conversation(id).send(text) });
    if (number % 4 === 3) await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
  }
  await draining;
  clearInterval(cutting);
  await Promise.all(sent.map(({ done }) => done));

  for (const [{ id }, members] of places) {
    const log = await server.log(members[0], id);
    const texts = log.filter((entry) => entry.kind === 'message').map((entry) => entry.text);
    assert.deepEqual([...texts].sort(), sent.filter((one) => one.id === id).map((one) => one.text).sort(), 'each is stored once');
    for (const user of members) {
      const mine = sent.filter((one) => one.id === id && one.user === user).map((one) => one.text);
      assert.deepEqual(texts.filter((text) => text.startsWith(`${user} `)), mine, `the order of ${user} is kept`);
      await until(`${user} has all of ${id}`, () => seen.get(user).get(id)?.at(-1)?.seq === log.at(-1).seq);
      const entries = seen.get(user).get(id);
      assert.deepEqual(entries.map((entry) => entry.seq), log.map((entry) => entry.seq), `${user} was told each once, in order`);
      assert.deepEqual(entries.map((entry) => entry.text), log.map((entry) => entry.text));
      const keys = told.get(user).filter((key) => key.startsWith(`${id} `));
      assert.equal(new Set(keys).size, keys.length, 'no message is told twice');
      assert.equal(keys.length, log.length);
      const shown = clients[USERS.indexOf(user)].conversation(id).messages;
      assert.deepEqual(shown.map((message) => message.text), log.map((entry) => entry.text), 'the screen shows the log');
    }
  }
  await everybodyReads(places, clients);
  assert.deepEqual(problems, []);
});

async function drainInTheMiddle(sent) {
  await until('half is sent', () => sent.length > MESSAGES / 2, 120000);
  await server.drain();
  await server.run();
}

/** Delivered ticks come by themselves; read ones when all have read; then nothing is unread. */
async function everybodyReads(places, clients) {
  const states = () => places.flatMap(([{ id }, members]) => clients.filter((client) => members.includes(client.userId))
    .flatMap((client) => client.conversation(id).messages.filter((message) => message.mine).map((message) => message.state)));
  await until('all are delivered', () => states().every((state) => state === 'delivered' || state === 'read'));
  assert.ok(states().every((state) => state === 'delivered'), 'nobody has read anything');
  for (const [{ id }, members] of places) {
    for (const client of clients.filter((one) => members.includes(one.userId))) await client.conversation(id).markRead();
  }
  await until('all are read', () => states().every((state) => state === 'read'));
  for (const client of clients) {
    const inbox = await client.inbox.load();
    assert.deepEqual(inbox.map((conversation) => conversation.unreadCount), inbox.map(() => 0));
    assert.equal(client.inbox.totalUnread, 0);
    assert.equal(client.unsentCount, 0);
  }
}
