/** The client against a real server: what a user does, and what a connection goes through. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { TidingsError, memoryStorage } from '../src/tidings.js';
import { Locks } from './locks.js';
import { Network, Server, until } from './server.js';

const DOT = Buffer.from( // a picture of one pixel
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==', 'base64');

let server;
const networks = [];

let people = 0;
/** Names that no other test uses. */
const names = (count) => Array.from({ length: count }, () => `user${(people += 1)}`);

/** A network of its own, which a test may take down. */
async function failing() {
  networks.push(await Network.to(server));
  return networks.at(-1);
}

async function pair(options = {}) {
  const [a, b] = names(2);
  const [one, other] = await Promise.all([server.connected(a, options), server.connected(b)]);
  const mine = await one.direct(b);
  return { one, other, mine, theirs: other.conversation(mine.id) };
}

const textsOf = (conversation) => conversation.messages.map((message) => message.text);
const lastState = (conversation) => conversation.messages.at(-1)?.state;

describe('the client', { concurrency: 6 }, () => {
  before(async () => (server = await Server.start()));
  after(async () => {
    await server.stop();
    await Promise.all(networks.map((network) => network.close()));
  });

  it('a receipt that comes while the marks of a group are read makes them be read again', async () => {
    const [a, b, c] = names(3);
    const one = await server.connected(a);
    const group = await one.createConversation({ kind: 'group', name: 'three', members: [b, c] });
    await group.open();
    const answers = [];
    group.history = () => new Promise((resolve, reject) => answers.push({ resolve, reject }));
    const receipt = { userId: b, deliveredSeq: 1, readSeq: 0 };
    group._receipt(receipt);
    await until('the marks are read', () => answers.length === 1);
    group._receipt(receipt);
    await until('they are read again', () => answers.length === 2);
    answers[0].resolve();
    answers[1].reject(Object.assign(new Error('not now'), { temporary: true }));
    await until('and once more', () => answers.length === 3);
    answers[2].resolve();
  });

  it('a message, its ticks, and the badge on the other side', async () => {
    const { one, other, mine, theirs } = await pair();
    await other.inbox.load();
    await mine.open();
    const heard = other.once('message');
    const sending = mine.send('hello');
    assert.equal(lastState(mine), 'sending');
    const sent = await sending;
    assert.deepEqual([sent.seq, sent.state, sent.mine, sent.senderId], [1, 'sent', true, one.userId]);
    const { conversation, message } = await heard;
    assert.deepEqual([conversation, message.text, message.state], [theirs, 'hello', null]);
    await until('delivered', () => lastState(mine) === 'delivered');
    await until('listed', () => other.inbox.conversations[0] === theirs && theirs.kind === 'direct');
    assert.deepEqual([theirs.unreadCount, theirs.firstUnreadSeq, other.inbox.totalUnread, other.inbox.unreadConversations], [1, 1, 1, 1]);
    assert.equal(theirs.lastMessagePreview, 'hello');
    const state = await theirs.markRead();
    assert.deepEqual([state.unreadCount, state.readSeq, other.inbox.totalUnread, other.inbox.unreadConversations], [0, 1, 0, 0]);
    await until('read', () => lastState(mine) === 'read');
    const { times, ...lists } = await mine.receipts(1);
    assert.deepEqual(lists, { read: [other.userId], delivered: [], pending: [] });
    const { deliveredAt, readAt } = times[other.userId];
    assert.ok(deliveredAt > 0 && deliveredAt <= readAt, 'both times are known');
    const pages = [await mine.receipts(1, { limit: 1 })];
    pages.push(await mine.receipts(1, { cursor: pages[0].nextCursor }));
    assert.deepEqual(pages.flatMap((page) => page.read), lists.read, 'the same, member by member');
    assert.ok(!('nextCursor' in pages[1]));
  });

  it('an own message has the fields of any other, and the row follows its edit', async () => {
    const { mine, theirs } = await pair();
    await Promise.all([mine.open(), theirs.open()]);
    const { seq } = await mine.send('hello', { ttlS: 600 });
    await until('both have it', () => mine.messages.at(-1)?.seq === seq && theirs.messages.at(-1)?.seq === seq);
    assert.ok(!('ttlS' in mine.messages.at(-1)));
    assert.deepEqual(Object.keys(mine.messages.at(-1)).sort(), Object.keys(theirs.messages.at(-1)).sort());
    await mine.edit(seq, 'changed');
    await until('the row follows', () => theirs.lastMessage.textPreview === 'changed' && theirs.lastMessagePreview === 'changed');
  });

  it('a reaction is shown to everybody, is listed, and goes again', async () => {
    const { one, other, mine, theirs } = await pair();
    await Promise.all([mine.open(), theirs.open()]);
    const { seq } = await mine.send('hello');
    assert.deepEqual(await theirs.react(seq, '👍'), { '👍': { count: 1, mine: true } });
    await until('shown', () => mine.messages[0].reactions['👍']?.count === 1);
    assert.equal(mine.messages[0].reactions['👍'].mine, false);
    assert.deepEqual(await mine.reactions(seq), { '👍': [other.userId] });
    assert.deepEqual((await one.conversation(mine.id).history()).messages.at(-1).reactions, { '👍': { count: 1, mine: false } });
    assert.deepEqual(await theirs.unreact(seq, '👍'), {});
    await until('gone', () => !mine.messages[0].reactions['👍']);
  });

  it('a pinned message is shown to everybody, is listed, and is unpinned', async () => {
    const { one, mine, theirs } = await pair();
    await Promise.all([mine.open(), theirs.open()]);
    const { seq } = await mine.send('hello');
    await mine.pinMessage(seq);
    await until('shown', () => theirs.messages[0]?.pinned === true);
    const [{ pinnedBy, message }] = await theirs.pins();
    assert.deepEqual([pinnedBy, message.text], [one.userId, 'hello']);
    await theirs.pinMessage(seq, false);
    await until('gone', () => mine.messages[0].pinned === false);
    assert.deepEqual(await mine.pins(), []);
  });

  it('a message is saved for oneself, is listed, and goes again', async () => {
    const { one, other, mine } = await pair();
    const { seq } = await mine.send('hello');
    await other.saved.put(mine.id, seq);
    const { saved, nextCursor } = await other.saved.page();
    assert.deepEqual([saved[0].conversationId, saved[0].message.text, nextCursor], [mine.id, 'hello', null]);
    assert.deepEqual((await one.saved.page()).saved, []);
    await other.saved.remove(mine.id, seq);
    assert.deepEqual((await other.saved.page()).saved, []);
  });

  it('a thread counts for its followers, and not in the conversation', async () => {
    const { one, other, mine, theirs } = await pair();
    const { seq } = await mine.send('root');
    const told = [];
    one.on('thread', ({ threadSeq, unreadCount, unreadThreads }) => told.push([threadSeq, unreadCount, unreadThreads]));
    const reply = await theirs.send('reply', { threadSeq: seq });
    assert.deepEqual([reply.threadSeq, reply.alsoHere], [seq, false]);
    await until('told', () => told.length === 1);
    assert.deepEqual([told[0], mine.unreadCount, one.inbox.unreadThreads], [[seq, 1, 1], 0, 1]);
    assert.equal(mine.lastMessagePreview, 'root');
    const { threads, unreadThreads } = await one.threads.page({ filter: 'unread' });
    assert.deepEqual([threads[0].root.text, threads[0].unreadCount, unreadThreads], ['root', 1, 1]);
    const { messages } = await other.threads.replies(mine.id, seq);
    assert.deepEqual(messages.map(({ text }) => text), ['reply']);
    const state = await one.threads.markRead(mine.id, seq);
    assert.deepEqual([state.threadSeq, state.unreadCount], [seq, 0]);
    await until('told to every device', () => one.inbox.unreadThreads === 0);
    await one.threads.markUnread(mine.id, seq, 1);
    await one.threads.readAll(mine.id);
    await one.threads.unfollow(mine.id, seq);
    assert.deepEqual((await one.threads.page()).threads, []);
    assert.equal((await one.threads.follow(mine.id, seq)).unreadCount, 0);
  });

  it('a draft is on the other device, and an older one is refused with the newer', async () => {
    const { one, mine } = await pair();
    const phone = await server.connected(one.userId);
    const onPhone = phone.conversation(mine.id);
    assert.deepEqual(await mine.putDraft('hi'), { text: 'hi', version: 1 });
    await until('pushed', () => onPhone.draft?.text === 'hi');
    await onPhone.putDraft('hello');
    await until('pushed back', () => mine.draft?.text === 'hello');
    const other = (await server.connected(one.userId)).conversation(mine.id);
    await assert.rejects(other.putDraft('mine'), (error) => error.code === 'conflict' && error.draft.text === 'hello');
    assert.deepEqual(other.draft, { text: 'hello', version: 2 });
    const tablet = await server.connected(one.userId);
    await tablet.inbox.load();
    assert.equal(tablet.conversation(mine.id).draft.text, 'hello');
    assert.equal(await other.putDraft(''), null);
    await until('gone', () => mine.draft === null && tablet.conversation(mine.id).draft === null);
    assert.equal((await mine.putDraft('anew')).text, 'anew');
  });

  it('read on one device clears the other, and unread comes back on both', async () => {
    const { other, mine, theirs } = await pair();
    const phone = await server.connected(other.userId);
    const onPhone = phone.conversation(mine.id);
    for (const text of ['a', 'b', 'c']) await mine.send(text);
    await until('counted', () => theirs.unreadCount === 3 && onPhone.unreadCount === 3);
    await theirs.markRead(2);
    await until('synced', () => onPhone.unreadCount === 1);
    assert.equal(onPhone.readSeq, 2);
    await theirs.markUnread(1);
    await until('unread again', () => onPhone.unreadCount === 3 && onPhone.readSeq === 0);
    await Promise.all([theirs.markRead(1), theirs.markRead(3), theirs.markRead(2)]);
    assert.deepEqual([theirs.readSeq, theirs.unreadCount], [3, 0]);
    await theirs.markUnread(1);
    await theirs.markRead({ seqs: [2] });
    assert.equal(theirs.unreadCount, 2);
  });

  it('what is sent from another device of mine comes as a message of mine', async () => {
    const { one, mine } = await pair();
    const tablet = await server.connected(one.userId);
    const heard = tablet.once('message');
    await mine.send('from the laptop');
    assert.deepEqual([(await heard).message.mine, (await heard).message.state], [true, 'sent']);
  });

  it('pages backwards and forwards, a jump, and a window that stays small', async () => {
    const { one, mine } = await pair({ windowMax: 60 });
    await Promise.all(Array.from({ length: 150 }, (_, index) => mine.send(`${index + 1}`)));
    const seqs = () => mine.messages.map((message) => message.seq);
    await mine.open({ limit: 30 });
    assert.deepEqual([seqs()[0], seqs().at(-1), mine.hasOlder, mine.hasNewer], [121, 150, true, false]);
    assert.equal((await mine.loadOlder(30)).length, 30);
    await mine.loadOlder(30);
    assert.deepEqual([seqs()[0], seqs().at(-1), mine.hasNewer], [61, 120, true]);
    await mine.send('while away');
    assert.equal(seqs().at(-1), 120, 'a window in the past takes nothing new');
    while (mine.hasNewer) await mine.loadNewer(30);
    assert.deepEqual([seqs()[0], seqs().at(-1), seqs().length], [92, 151, 60]);
    await mine.jumpTo(10, { limit: 10 });
    assert.ok(seqs().includes(10) && mine.hasNewer);
    while (mine.hasOlder) await mine.loadOlder(5);
    assert.equal(seqs()[0], 1);
    assert.deepEqual(await mine.loadOlder(), []);
    await mine.jumpTo('newest');
    mine.follow = false;
    await Promise.all(Array.from({ length: 20 }, (_, index) => mine.send(`more ${index}`)));
    assert.deepEqual([mine.hasNewer, mine.messages.length], [true, 60]);
    await mine.jumpTo('newest');
    assert.equal(mine.messages.at(-1).text, 'more 19');
    mine.close();
    assert.deepEqual([mine.messages, one.unsentCount], [[], 0]);
  });

  it('opening at the oldest unread message', async () => {
    const { mine, theirs } = await pair();
    await Promise.all(Array.from({ length: 40 }, (_, index) => mine.send(`${index + 1}`)));
    await theirs.markRead(10);
    await theirs.open({ at: 'first_unread', limit: 10 });
    assert.equal(theirs.firstUnreadSeq, 11);
    assert.ok(theirs.messages.some((message) => message.seq === 11) && theirs.hasNewer && theirs.hasOlder);
  });

  it('an edit and a delete are seen by everybody', async () => {
    const { mine, theirs } = await pair();
    await Promise.all([mine.open(), theirs.open()]);
    await mine.send('first');
    await mine.send('secnod');
    await mine.edit(2, 'second');
    await until('edited', () => textsOf(theirs).at(-1) === 'second' && textsOf(mine).at(-1) === 'second');
    assert.ok(theirs.messages[1].editedAt > 0);
    await mine.delete(1);
    await until('deleted', () => theirs.messages[0].deleted && mine.messages[0].deleted);
    assert.deepEqual(textsOf(theirs), [null, 'second']);
    await assert.rejects(theirs.edit(2, 'not mine'), { code: 'forbidden', status: 403 });
  });

  it('a group: members come and go, it is renamed, muted, left and removed', async () => {
    const [a, b, c] = names(3);
    const [ann, bob, cem] = await Promise.all([a, b, c].map((name) => server.connected(name)));
    const added = bob.once('conversation');
    const group = await ann.createConversation({ kind: 'group', name: 'trip', members: [b] });
    assert.deepEqual([(await added).change, (await added).conversation.name], ['added', 'trip']);
    const joined = cem.once('conversation');
    assert.equal((await group.addMembers([c])).members.length, 3);
    assert.equal((await joined).conversation.id, group.id);
    await group.setRole(b, 'admin');
    const renamed = cem.once('conversation');
    await bob.conversation(group.id).update({ name: 'journey' });
    assert.deepEqual([(await renamed).change, (await renamed).conversation.name], ['updated', 'journey']);
    await cem.conversation(group.id).mute();
    assert.equal(cem.conversation(group.id).muted, true);
    await cem.conversation(group.id).pin();
    await cem.conversation(group.id).archive();
    await cem.inbox.load();
    const [row] = await cem.inbox.loadArchived();
    assert.deepEqual([row.muted, row.pinned, row.archived], [true, true, true]);
    await cem.conversation(group.id).leave();
    await until('cem is out', () => cem.conversation(group.id).removed);
    assert.deepEqual([cem.inbox.conversations, cem.conversation(group.id).removed], [[], true]);
    await group.removeMember(b);
    await until('bob is out', () => bob.conversation(group.id).removed);
    await group.destroy();
    await assert.rejects(group.details(), { code: 'not_found' });
  });

  it('ticks of a group mean everybody', async () => {
    const [a, b, c] = names(3);
    const [ann, bob] = await Promise.all([a, b].map((name) => server.connected(name)));
    const group = await ann.createConversation({ kind: 'group', members: [b, c] });
    await group.open();
    await group.send('hi');
    await bob.conversation(group.id).markRead(1);
    await until('bob has read it', async () => (await group.receipts(1)).read.includes(b));
    assert.equal(lastState(group), 'sent', 'cem has not even got it');
    const cem = await server.connected(c);
    await cem.conversation(group.id).open();
    await cem.conversation(group.id).markRead();
    await until('read by all', () => lastState(group) === 'read');
  });

  it('typing is seen while it lasts, and presence while somebody watches', async () => {
    const { one, other, mine, theirs } = await pair();
    await mine.send('hi');
    await mine.open();
    await until('they are here', () => one.presence(other.userId)?.online);
    theirs.keystroke();
    await until('typing', () => mine.typing.includes(other.userId));
    await theirs.send('done');
    await until('not typing', () => mine.typing.length === 0);
    await other.close();
    await until('they are gone', () => one.presence(other.userId)?.online === false);
    const [presence] = await one.fetchPresence(mine.id, [other.userId]);
    assert.deepEqual([presence.online, presence.lastSeen > 0], [false, true]);
  });

  it('the inbox, twenty by twenty, and the order in which they were last written to', async () => {
    const [me] = names(1);
    const client = await server.connected(me);
    const groups = [];
    for (let number = 0; number < 25; number += 1) {
      groups.push(await client.createConversation({ kind: 'group', name: `g${number}`, members: names(1) }));
      await groups[number].send(`in ${number}`);
    }
    await client.inbox.load();
    assert.deepEqual(client.inbox.conversations.map((one) => one.name), Array.from({ length: 20 }, (_, index) => `g${24 - index}`));
    assert.equal(client.inbox.hasMore, true);
    assert.equal((await client.inbox.loadMore()).length, 5);
    assert.equal(client.inbox.hasMore, false);
    await groups[3].send('up');
    assert.deepEqual([client.inbox.conversations[0], client.inbox.conversations.length], [groups[3], 25]);
    assert.equal(groups[3].lastMessagePreview, 'up');
  });

  it('offline: messages wait in order, and are sent once when the line is back', async () => {
    const network = await failing();
    const { one, mine, theirs } = await pair({ url: network.url });
    await Promise.all([mine.open(), theirs.open()]);
    network.down();
    await until('noticed', () => one.state === 'connecting' && one.retryAt !== null);
    const sending = ['a', 'b', 'c'].map((text) => mine.send(text));
    assert.deepEqual([textsOf(mine), one.unsentCount], [['a', 'b', 'c'], 3]);
    network.up();
    one.reconnectNow();
    assert.deepEqual((await Promise.all(sending)).map((message) => message.seq), [1, 2, 3]);
    await until('received', () => textsOf(theirs).length === 3);
    assert.deepEqual(textsOf(theirs), ['a', 'b', 'c']);
  });

  it('a message in a conversation that was never seen is not missed while the line is down', async () => {
    const network = await failing();
    const [a, b] = names(2);
    const [ann, bob] = await Promise.all([server.connected(a, { url: network.url }), server.connected(b)]);
    const heard = [];
    ann.on('message', ({ message }) => heard.push(message.text));
    network.down();
    await until('noticed', () => ann.state === 'connecting');
    const conversation = await bob.direct(a);
    await conversation.send('one');
    await conversation.send('two');
    network.up();
    ann.reconnectNow();
    await until('both came', () => heard.length === 2);
    assert.deepEqual(heard, ['one', 'two']);
  });

  it('the outbox survives a reload: what was written offline is sent by the next page, in order, once', async () => {
    const network = await failing();
    const storage = memoryStorage();
    const { one, mine, theirs } = await pair({ url: network.url, storage });
    network.down();
    await until('noticed', () => one.state === 'connecting');
    for (const text of ['a', 'b', 'c']) mine.send(text);
    await until('kept', async () => (await storage.all()).length === 3);
    await one.close();
    network.up();
    const next = server.client(one.userId, { storage });
    const again = next.conversation(mine.id);
    await next.connect();
    assert.deepEqual(textsOf(again), ['a', 'b', 'c'], 'shown at once');
    await until('sent', async () => next.unsentCount === 0 && (await storage.all()).length === 0);
    await theirs.open();
    assert.deepEqual(textsOf(theirs), ['a', 'b', 'c']);
  });

  it('two tabs share an outbox: each sends its own, and what a closed one left is sent by the other, once', async () => {
    const network = await failing();
    const storage = memoryStorage();
    const locks = new Locks();
    const [a, b] = names(2);
    const left = await server.connected(a, { storage, locks, url: network.url });
    const right = await server.connected(a, { storage, locks });
    const conversation = await left.direct(b);
    network.down();
    await until('noticed', () => left.state === 'connecting');
    for (const text of ['a', 'b']) left.conversation(conversation.id).send(text);
    await until('kept', async () => (await storage.all()).length === 2);
    await right._outbox.adopt(); // what it does every few seconds
    await right.conversation(conversation.id).send('mine');
    assert.equal(right.unsentCount, 0, 'a living tab keeps what it has');
    assert.deepEqual((await server.log(a, conversation.id)).map((entry) => entry.text), ['mine']);
    await left.close();
    network.up();
    await until('taken over', async () => (await storage.all()).length === 0);
    await until('sent', () => right.unsentCount === 0);
    assert.deepEqual((await server.log(a, conversation.id)).map((entry) => entry.text), ['mine', 'a', 'b']);
  });

  it('a token is renewed before it ends, and the connection stays', async () => {
    const [name] = names(1);
    const reasons = [];
    const client = server.client(name, { getToken: ({ reason }) => (reasons.push(reason), server.token(name, reasons.length < 2 ? 20 : 3600)) });
    const states = [];
    client.on('state', ({ state }) => states.push(state));
    await client.connect();
    await until('renewed', () => reasons.length === 2);
    assert.deepEqual(reasons, ['start', 'expiring']);
    assert.ok((await client.inbox.load()).length === 0);
    assert.deepEqual(states, ['connecting', 'connected']);
  });

  it('a token that ended all the same is replaced, and the client comes back', async () => {
    const [name] = names(1);
    let isDown = false;
    let asked = 0;
    const client = server.client(name, {
      getToken() {
        asked += 1;
        if (isDown) throw new Error('the identity server is down');
        return server.token(name, asked === 1 ? 10 : 3600); // a slow connect is faster than that
      },
    });
    client.on('error', () => {}); // the refresh that failed
    await client.connect();
    isDown = true;
    const { error } = await new Promise((resolve) => client.on('state', (event) => event.state === 'connecting' && resolve(event)));
    assert.equal(error.closeCode, 4005);
    isDown = false;
    await until('back', () => client.state === 'connected');
  });

  it('a bad token, a user turned away by getToken, and a device that is somewhere else: it stops', async () => {
    const [name] = names(1);
    const bad = server.client(name, { getToken: undefined, token: 'nonsense' });
    await assert.rejects(bad.connect(), { code: 'stopped', closeCode: 4500 });
    assert.equal(bad.state, 'disconnected');
    const away = server.client(name, { getToken: () => { throw Object.assign(new Error('signed out'), { permanent: true }); } });
    await assert.rejects(away.connect(), { message: 'signed out' });
    const first = await server.connected(name, { device: 'phone' });
    await server.connected(name, { device: 'phone' });
    await until('replaced', () => first.state === 'disconnected');
    assert.equal(first.error.closeCode, 4505);
  });

  it('members see each other\'s names', async () => {
    const [ann, bob, cem] = names(3);
    const [first, second] = [await server.connected(ann), await server.connected(bob)];
    await second.putProfile({ name: 'Bob' });
    const group = await first.createConversation({ kind: 'group', members: [bob] });
    const profileOf = (userId, name) => ({ userId, name, avatarUrl: null });
    assert.deepEqual(await group.profiles([bob, cem]), [profileOf(bob, 'Bob')]);
    const { members, nextCursor } = await group.members({ limit: 1 });
    assert.deepEqual([members[0].userId, members[0].role, nextCursor], [ann, 'owner', ann]);
    assert.deepEqual((await group.members({ cursor: ann })).members.map((one) => one.userId), [bob]);
    assert.deepEqual(await group.profiles(), [profileOf(ann, null), profileOf(bob, 'Bob')]);
    assert.deepEqual(await first.findPeople(`${bob}`.toUpperCase()), [{ ...profileOf(bob, 'Bob'), online: true }]);
  });

  it('an error says what it is', async () => {
    const [name] = names(1);
    const client = await server.connected(name);
    await assert.rejects(client.conversation('nowhere').open(), (error) => error instanceof TidingsError && error.code === 'not_found' && !error.temporary);
    await assert.rejects(client.conversation('nowhere').send('x'), { code: 'not_found' });
    const [failed] = client.conversation('nowhere').messages;
    assert.deepEqual([failed.state, failed.error.code], ['failed', 'not_found']);
    assert.equal(client.conversation('nowhere').discard(failed.messageId), true);
    await assert.rejects(client.rest('GET', '/v1/nothing'), { status: 404 });
    assert.deepEqual(await client.putProfile({ name: 'Ann' }), { userId: name, name: 'Ann', avatarUrl: null });
    assert.equal((await client.getProfile(name)).name, 'Ann');
    await assert.rejects(client.putPicture(new Blob(['no image'], { type: 'image/png' })), { code: 'bad_request' });
    assert.match((await client.putPicture(new Blob([DOT], { type: 'image/png' }))).avatarUrl, /^\/v1\/pictures\//u);
    assert.ok((await client.rateLimits()).http.limit > 0);
    await client.close();
    await assert.rejects(client.inbox.load(), { code: 'closed' });
  });
});
