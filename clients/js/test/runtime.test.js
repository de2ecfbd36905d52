import assert from 'node:assert/strict';
import { test } from 'node:test';

import { newId } from '../src/runtime.js';

test('ids are unique and in order of time, also where there is no global crypto', () => {
  const made = new Set([newId(), newId()]);
  const own = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  Object.defineProperty(globalThis, 'crypto', { value: undefined, configurable: true });
  try {
    for (let at = 0; at < 100; at += 1) made.add(newId());
  } finally {
    if (own) Object.defineProperty(globalThis, 'crypto', own);
    else delete globalThis.crypto;
  }
  assert.equal(made.size, 102);
  for (const id of made) assert.match(id, /^[0-9a-f]{32}$/);
});
