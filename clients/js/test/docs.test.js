/** The program of docs/use/sdk-javascript.md runs, and says what the page says it does. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import * as sdk from '../src/tidings.js';
import * as webhooks from '../src/webhooks.js';
import { Server } from './server.js';
import { NodeWebSocket } from './websocket.js';

const HERE = fileURLToPath(new URL('..', import.meta.url));
const PAGE = readFileSync(join(HERE, '../../docs/use/sdk-javascript.md'), 'utf8');
const TYPES = readFileSync(join(HERE, 'src/tidings.d.ts'), 'utf8');
const WEBHOOK_TYPES = readFileSync(join(HERE, 'src/webhooks.d.ts'), 'utf8');
const blocks = (text, language) => [...text.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, block]) => block);

let server;
let folder;
let programs = 0;
before(async () => {
  server = await Server.start({}, ['--dev']);
  folder = mkdtempSync(join(tmpdir(), 'tidings-docs-'));
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** What a page of the server has: its own origin, a WebSocket, localStorage. */
function bePage() {
  const items = new Map();
  const fetchIt = globalThis.fetch;
  Object.assign(globalThis, {
    location: { origin: server.url },
    WebSocket: NodeWebSocket,
    fetch: (path, options) => fetchIt(new URL(path, server.url), options),
    localStorage: { get length() { return items.size; }, key: (index) => [...items.keys()][index], getItem: (key) => items.get(key) ?? null,
      setItem: (key, value) => items.set(key, value), removeItem: (key) => items.delete(key) },
  });
}

/** A program made of the blocks; what it logs is given back, and its clients are closed. */
async function run(blocksOfPage) {
  const source = blocksOfPage.join('\n').replace(/from '\/sdk\/tidings\.js'/, `from '${pathToFileURL(join(HERE, 'src/tidings.js'))}'`);
  const file = join(folder, `program${(programs += 1)}.mjs`); // a module is loaded once per name
  const clients = [...source.matchAll(/const (\w+) = new TidingsClient/g)].map(([, name]) => name);
  writeFileSync(file, `${source}\nexport const clients = [${clients.join(', ')}];\n`);
  const said = [];
  const log = console.log;
  console.log = (...words) => said.push(words.map((word) => (typeof word === 'string' ? word : inspect(word))).join(' '));
  try {
    const program = await import(pathToFileURL(file));
    const lines = said.slice();
    await Promise.all(program.clients.map((client) => client.close()));
    return lines;
  } finally {
    console.log = log;
  }
}

test('every example of the guide runs from top to bottom, twice, and prints what is written there', async () => {
  for (const _ of ['first', 'second']) {
    bePage();
    const said = await run(blocks(PAGE, 'js'));
    assert.deepEqual(said, blocks(PAGE, 'text').join('').trim().split('\n'));
  }
});

test('the example of the README runs as it is', async () => {
  bePage();
  const readme = blocks(readFileSync(join(HERE, 'README.md'), 'utf8'), 'js');
  const source = readme.join('\n').replace("import('/sdk/tidings.js')", `import('${pathToFileURL(join(HERE, 'src/tidings.js'))}')`);
  const said = await run([source]); // the message that it sent; news of the guide's conversations may come meanwhile
  assert.ok(said.some((line) => /^\S+ ann hello$/.test(line)), said.join('\n'));
});

test('the package says what it exports, and its version is the server\'s', async () => {
  const { version, exports } = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8'));
  const { info } = await (await fetch(`${server.url}/openapi.json`)).json();
  assert.equal(version, info.version);
  assert.deepEqual(exports, {
    '.': { types: './src/tidings.d.ts', default: './src/tidings.js' },
    './webhooks': { types: './src/webhooks.d.ts', default: './src/webhooks.js' },
  });
});

test('every class, method and event of the types exists, and nothing public is left out of them', () => {
  for (const [types, entry] of [[TYPES, sdk], [WEBHOOK_TYPES, webhooks]]) {
    const exported = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, name]) => name);
    assert.deepEqual(exported.sort(), Object.keys(entry).sort());
  }
  const publicNames = (names) => names.filter((name) => !name.startsWith('_') && name !== 'constructor');
  for (const [, name, body] of TYPES.matchAll(/^export class (\w+)[^{]*\{\n(.*?)^\}/gms)) {
    const typed = [...body.matchAll(/^ {2}(\w+)(?:<[^(]*>)?\(/gm)].map(([, method]) => method);
    const chain = [sdk[name].prototype, Object.getPrototypeOf(sdk[name].prototype)].filter((one) => one !== Object.prototype && one !== Error.prototype);
    const real = chain.flatMap((one) => Object.getOwnPropertyNames(one).filter((method) => typeof Object.getOwnPropertyDescriptor(one, method).value === 'function'));
    assert.deepEqual([...new Set(publicNames(real))].sort(), [...new Set(publicNames(typed))].sort(), name);
  }
});

/** Names of fields and getters of an object that are public. */
function publicFields(one) {
  const names = new Set(Object.keys(one));
  for (let of = Object.getPrototypeOf(one); of !== Object.prototype; of = Object.getPrototypeOf(of)) {
    for (const [name, { get }] of Object.entries(Object.getOwnPropertyDescriptors(of))) if (get) names.add(name);
  }
  return [...names].filter((name) => !name.startsWith('_'));
}

test('every public field of the client, a conversation and the inbox has its type', async () => {
  const client = server.client('typed');
  await client.connect();
  const conversation = await client.createConversation({ kind: 'group', name: 'types', members: ['bob'] });
  await conversation.open();
  const shown = { TidingsClient: client, Conversation: conversation, Inbox: client.inbox };
  for (const [name, one] of Object.entries(shown)) {
    const [, body] = new RegExp(`^export (?:class|interface) ${name}\\b[^{]*\\{\\n(.*?)^\\}`, 'ms').exec(TYPES);
    const typed = [...body.matchAll(/^ {2}(?:readonly |get )?(\w+)\??:/gm)].map(([, field]) => field);
    assert.deepEqual(publicFields(one).filter((field) => !typed.includes(field)), [], name);
  }
});
