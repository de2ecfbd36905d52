/** Files in messages, against a real server: uploaded once, in order, over cuts and reloads. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { memoryStorage } from '../src/tidings.js';
import { Network, Server, until } from './server.js';

let server;
let people = 0;
const name = () => `sharer${(people += 1)}`;
const fileOf = (bytes, called = 'photo.png', type = 'image/png') => Object.assign(new Blob([bytes], { type }), { name: called });
const noise = (size) => Uint8Array.from({ length: size }, (_, at) => (at * 31) % 251);

async function pair(options = {}) {
  const [a, b] = [name(), name()];
  const [one, other] = await Promise.all([server.connected(a, options), server.connected(b)]);
  const mine = await one.direct(b);
  return { one, other, mine, theirs: other.conversation(mine.id), names: [a, b] };
}

describe('files', { concurrency: 4 }, () => {
  before(async () => (server = await Server.start()));
  after(() => server.stop());

  it('a message carries its files to the other side', async () => {
    const { mine, theirs } = await pair();
    const bytes = noise(6_000_000);
    const told = [];
    const onProgress = ({ sent, size }) => told.push([sent, size]);
    const sent = await mine.send({ text: 'look', files: [fileOf(bytes)], onProgress });
    assert.deepEqual(told, [[5242880, 6000000], [6000000, 6000000]]);
    await theirs.open?.();
    const page = await theirs.files({ kind: 'image' });
    assert.equal(page.files.length, 1);
    const [file] = page.files;
    assert.deepEqual([file.name, file.mime, file.bytes, file.seq], ['photo.png', 'image/png', 6000000, sent.seq]);
    assert.equal(sent.files[0].fileId, file.fileId);
    const answer = await fetch(await theirs.fileUrl(file.fileId));
    assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), bytes);
  });

  it('a scheduled message carries its files, its mentions and its thread', async () => {
    const { one, mine, theirs, names } = await pair();
    const root = await mine.send('root');
    const told = new Promise((resolve) => theirs.on('entry', ({ entry }) => entry.files?.length && resolve(entry)));
    const options = { files: [fileOf(noise(10))], mentions: [names[1]], threadSeq: root.seq, alsoHere: true };
    const waiting = await one.scheduled.put(mine.id, '', { sendAt: Date.now() + 3_600_000, mention: 'all', ...options });
    assert.deepEqual(
      [waiting.files.length, waiting.mentions, waiting.mention, waiting.threadSeq, waiting.alsoHere],
      [1, [names[1]], 'all', root.seq, true],
    );
    await one.scheduled.remove(waiting.messageId);
    const now = await one.scheduled.put(mine.id, 'look', { sendAt: 1, ...options });
    const message = await told;
    assert.deepEqual([message.messageId, message.mentions], [now.messageId, [names[1]]]);
    assert.deepEqual([message.threadSeq, message.files[0].fileId], [root.seq, now.files[0]]);
  });

  it('the message behind a file waits for it', async () => {
    const { mine } = await pair();
    const [first, second] = await Promise.all([mine.send({ files: [fileOf(noise(2_000_000))] }), mine.send('after')]);
    assert.deepEqual([first.seq, second.seq], [1, 2]);
  });

  it('a message is taken back while its file is uploaded', async () => {
    const abort = new AbortController();
    const stuck = (url, init) => (init.method === 'PUT' && String(url).includes('/v1/uploads/')
      ? new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(new Error('aborted'))))
      : fetch(url, init));
    const { mine } = await pair({ fetch: stuck });
    const sending = mine.send({ files: [fileOf(noise(10))], signal: abort.signal });
    const behind = mine.send('after');
    await until('it waits', () => mine.messages.length === 2);
    setTimeout(() => abort.abort(), 50);
    await assert.rejects(sending, { code: 'discarded' });
    assert.equal((await behind).seq, 1);
  });

  it('a reload in the middle of an upload sends one message', async () => {
    const storage = memoryStorage();
    const [a, b] = [name(), name()];
    let isStuck = true;
    const sometimes = (url, init) => (isStuck && init?.method === 'PUT' ? new Promise(() => {}) : fetch(url, init));
    const first = await server.connected(a, { storage, fetch: sometimes });
    const mine = await first.direct(b);
    mine.send({ text: 'once', files: [fileOf(noise(10))] }).catch(() => {});
    await until('it is kept', () => storage.all().length === 1);
    first.close();
    isStuck = false;
    const second = await server.connected(a, { storage, fetch: sometimes });
    await until('it is sent', () => storage.all().length === 0);
    const other = await server.connected(b);
    const page = await other.conversation(mine.id).files();
    assert.equal(page.files.length, 1);
    second.close();
  });

  it('a part that a store puts off is sent again', async () => {
    const late = '<Error><Code>RequestTimeout</Code></Error>';
    const answers = [[408, ''], [429, 'slower'], [400, late]].map(([status, text]) => new Response(text, { status }));
    let puts = 0;
    const busy = async (url, init) => (init?.method === 'PUT' && (puts += 1) && answers.shift()) || fetch(url, init);
    const { mine } = await pair({ fetch: busy });
    assert.equal((await mine.send({ files: [fileOf(noise(10))] })).seq, 1);
    assert.equal(puts, 4);
  });

  it('an upload goes on after the network was cut', async () => {
    const network = await Network.to(server);
    try {
      let cuts = 0;
      const cutting = async (url, init) => {
        if (init?.method === 'PUT' && (cuts += 1) === 2) throw new TypeError('cut');
        return fetch(url, init);
      };
      const { mine } = await pair({ fetch: cutting });
      const sent = await mine.send({ files: [fileOf(noise(6_000_000))] });
      assert.equal(sent.seq, 1);
      assert.equal(cuts, 3); // two parts, and the one that was cut again
    } finally {
      await network.close();
    }
  });
});
