/**
 * A real server for the tests: `tidings serve` on a free port with a folder of its own, and a network in front of it that
 * can be cut. The command is in TIDINGS, words separated by spaces.
 */
import { createHmac } from 'node:crypto';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TidingsClient } from '../src/tidings.js';
import { NodeWebSocket } from './websocket.js';

const SECRET = 'a-secret-of-the-tests-that-is-long-enough';
const COMMAND = (process.env.TIDINGS ?? 'tidings').split(' ');

export async function until(what, isTrue, withinMs = 60_000) {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const value = await isTrue();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export class Server {
  static async start(env = {}, words = []) {
    const server = new Server(env, words);
    server.port = await freePort();
    await server.run();
    return server;
  }

  constructor(env, words) {
    this._folder = mkdtempSync(join(tmpdir(), 'tidings-js-'));
    this._env = { TIDINGS_LIMITS_SEND: 'off', TIDINGS_LIMITS_READ: 'off', TIDINGS_LIMITS_CONNECT: 'off', TIDINGS_LIMITS_CREATE: 'off', TIDINGS_AUTH_SECRET: SECRET, ...env };
    this._words = words;
    this._clients = [];
    this._said = '';
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Again on the same port and folder, after `drain`. */
  async run() {
    const words = [...COMMAND.slice(1), 'serve', '--port', String(this.port), '--data', join(this._folder, 'data'), ...this._words];
    this._process = spawn(COMMAND[0], words, { env: { ...process.env, ...this._env }, cwd: this._folder });
    for (const output of [this._process.stdout, this._process.stderr]) output.on('data', (data) => (this._said += data));
    this._process.on('error', (error) => (this._said += `${error.message}; TIDINGS names the command`));
    this._exited = new Promise((resolve) => this._process.on('exit', resolve));
    await until('the server is ready', async () => {
      if (this._process.exitCode !== null || !this._process.pid) throw new Error(`the server ended: ${this._said}`);
      return fetch(`${this.url}/readyz`).then((answer) => answer.ok, () => false);
    });
  }

  /** SIGTERM: clients are told, what is under way is finished. */
  async drain() {
    this._process.kill('SIGTERM');
    const code = await this._exited;
    if (code !== 0) throw new Error(`the server ended with ${code}: ${this._said}`);
  }

  async stop() {
    await Promise.all(this._clients.map((client) => client.close()));
    if (this._process.exitCode === null) await this.drain();
    rmSync(this._folder, { recursive: true, force: true });
  }

  token(userId, ttlS = 3600) {
    const now = Date.now() / 1000;
    const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: userId, iat: Math.floor(now), exp: Math.ceil(now + ttlS) })}`;
    return `${text}.${createHmac('sha256', SECRET).update(text).digest('base64url')}`;
  }

  /** A client of this user, closed with the server; not connected yet. */
  client(userId, options = {}) {
    const client = new TidingsClient({ url: this.url, getToken: () => this.token(userId), WebSocket: NodeWebSocket, locks: null,
      requestTimeoutMs: 60_000, ...options });
    this._clients.push(client);
    return client;
  }

  async connected(userId, options = {}) {
    const client = this.client(userId, options);
    await client.connect();
    return client;
  }

  /** Every entry of a conversation, oldest first, as the server has it. */
  async log(userId, conversationId) {
    const entries = [];
    for (let after = 0; after !== null; ) {
      const path = `/v1/conversations/${conversationId}/messages?after_seq=${after}&limit=100`;
      const answer = await fetch(this.url + path, { headers: { authorization: `Bearer ${this.token(userId)}` } });
      const page = await answer.json();
      if (!answer.ok) throw new Error(JSON.stringify(page));
      entries.push(...page.messages.reverse());
      after = page.next_after_seq;
    }
    return entries;
  }
}

/** A way to the server that fails on demand: connections are cut at once, in both directions, with whatever is in them. */
export class Network {
  static async to(server) {
    const network = new Network();
    network._pairs = new Set();
    Object.assign(network, { isDown: false, cutCount: 0 });
    network._listener = net.createServer((near) => network._join(near, server));
    await new Promise((resolve) => network._listener.listen(0, '127.0.0.1', resolve));
    network.url = `http://127.0.0.1:${network._listener.address().port}`;
    return network;
  }

  _join(near, server) {
    if (this.isDown) return near.destroy();
    const far = net.connect(server.port, '127.0.0.1');
    const pair = { near, far };
    this._pairs.add(pair);
    for (const [one, other] of [[near, far], [far, near]]) {
      one.setNoDelay(true);
      one.on('data', (data) => other.write(data));
      one.on('error', () => {});
      one.on('close', () => (this._pairs.delete(pair), other.destroy()));
    }
  }

  /** Each connection with this probability. */
  cut(probability = 1) {
    for (const { near, far } of this._pairs) {
      if (Math.random() >= probability) continue;
      near.destroy();
      far.destroy();
      this.cutCount += 1;
    }
  }

  down() {
    this.isDown = true;
    this.cut();
  }

  up() {
    this.isDown = false;
  }

  async close() {
    this.cut();
    await new Promise((resolve) => this._listener.close(resolve));
  }
}

const [PORT_FIRST, PORT_END, BLOCK] = [20_000, 32_000, 100]; // as proof/src/tidings_proof/world/ports.py has them
let block; // the ports of this process: it listens on the first one to keep them

/** The server that listens on this port, or null where somebody else does. */
const listening = (port) => new Promise((resolve) => {
  const listener = net.createServer();
  listener.once('error', () => resolve(null));
  listener.listen(port, '127.0.0.1', () => resolve(listener));
});

async function takeBlock() {
  const count = (PORT_END - PORT_FIRST) / BLOCK;
  for (let step = 0; step < count; step += 1) {
    const first = PORT_FIRST + ((process.pid + step) % count) * BLOCK;
    const guard = await listening(first);
    if (guard) return guard.unref(), { last: first };
  }
  throw new Error('no ports are left');
}

/** A port for a server that listens later: the system gives it to nobody, and no other process of the tests has it. */
async function freePort() {
  block ??= await takeBlock();
  const probe = await listening((block.last += 1));
  if (!probe) return freePort();
  await new Promise((resolve) => probe.close(resolve));
  return block.last;
}
