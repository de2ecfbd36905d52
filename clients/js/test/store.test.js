/**
 * Files above one part, in an object store behind a network that cuts each upload once. STORE is the URL of the blobs, and
 * FILES the number of uploads: tests/clients/js/test_js.py starts the store and counts the parts that came.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { Server } from './server.js';

const THREE_PARTS = 11_000_000;
const { STORE, FILES = '6' } = process.env;

it('an upload that is cut goes on with the part that was cut', { skip: !STORE && 'STORE names no object store' }, async () => {
  const server = await Server.start({ TIDINGS_BLOBS: STORE });
  try {
    const mine = await (await server.connected('sharer')).direct('reader');
    const theirs = (await server.connected('reader')).conversation(mine.id);
    for (let number = 1; number <= Number(FILES); number += 1) {
      const bytes = randomBytes(THREE_PARTS);
      const sent = await mine.send({ files: [Object.assign(new Blob([bytes]), { name: `${number}.bin` })] });
      assert.equal(sent.seq, number);
      const answer = await fetch(await theirs.fileUrl(sent.files[0].fileId));
      assert.ok(bytes.equals(new Uint8Array(await answer.arrayBuffer())));
    }
    assert.equal((await server.log('reader', mine.id)).length, Number(FILES));
  } finally {
    await server.stop();
  }
});
