// Names and pictures of people, by user id. The server shows them to people who share a conversation. Missing profiles
// are read together, each person once, and kept for a while. Until a name is known the page shows the id.

import { folded, listOf } from '../parts/format.js';

export const TOGETHER_MAX = 100; // the server's limit per request
const KEPT_MAX = 5000; // people, and requests
const ASKING_MAX = 4; // groups whose members are read at once; the next ones follow when these are drawn
const FRESH_MS = 600_000; // a person who appears again after this long may have another name
const AGAIN_MS = 10_000; // the pause after a request that failed

export class Profiles {
  constructor(client) {
    this._client = client;
    this._known = new Map(); // user id -> { name, url, at }
    this._quiet = new Map(); // conversation and user id -> no request before this time
    this._members = new Map(); // conversation id -> its other members
    this._asking = 0;
    this._listeners = new Set();
    client.on('entry', ({ conversation, entry }) => entry.kind === 'member' && this._doubt(conversation));
  }

  /** The name and picture to show for a person. */
  of(id) {
    const { name = null, url = null } = this._known.get(id) ?? {};
    return { id, name: name || id, url };
  }

  nameOf(id) {
    return this.of(id).name;
  }

  /** A text with the names of the people that it mentions by id, where they are known. */
  named(text) {
    return text.replace(/@([\w.|+:=~-]*\w)/gu, (whole, id) => (this._known.get(id)?.name ? `@${this.nameOf(id)}` : whole));
  }

  /** Call `run` when a name or picture changes. Returns the function that ends it. */
  onChange(run) {
    this._listeners.add(run);
    return () => this._listeners.delete(run);
  }

  learn(...profiles) {
    const before = profiles.map(({ userId }) => JSON.stringify(this.of(userId)));
    for (const { userId, name, avatarUrl } of profiles) {
      this._known.delete(userId); // the latest stands last, and the first one makes room
      put(this._known, userId, { name, url: avatarUrl, at: performance.now() });
    }
    const isChanged = profiles.some(({ userId }, place) => JSON.stringify(this.of(userId)) !== before[place]);
    if (isChanged) this._tell();
  }

  _tell() {
    for (const run of [...this._listeners]) run();
  }

  /** Read unknown profiles. People who cannot be read now are read when they are drawn again. */
  async want(conversation, ids) {
    const missing = [...new Set(ids)].filter((id) => id && this._isMissing(conversation, id));
    if (!missing.length) return;
    for (const id of missing) this._hush(keyOf(conversation, id), FRESH_MS);
    const answers = await Promise.all(inPieces(missing).map((some) => this._ask(conversation, some)));
    this.learn(...answers.flat());
  }

  /** Name a group without a name by its members; null until they are known. */
  titleOf(conversation) {
    const others = this._members.get(conversation.id);
    this._askMembers(conversation);
    return others?.length ? listOf(others.map((id) => this.nameOf(id)), 3) : null;
  }

  /** People by a part of their name or id: those of the directory, then those that the page knows. */
  async search(text, most) {
    const query = new URLSearchParams({ query: text, limit: String(most) });
    const listed = await this._client.rest('GET', `/v1/users?${query}`).then(({ users }) => users, () => []);
    this.learn(...listed);
    const found = new Map(listed.map(({ userId, online }) => [userId, { ...this.of(userId), isOnline: online }]));
    const wanted = folded(text);
    for (const [id, { name }] of this._known) {
      if (found.size >= most) break;
      const isMatch = folded(id).includes(wanted) || folded(name ?? '').includes(wanted);
      if (isMatch && !found.has(id)) found.set(id, { ...this.of(id), isOnline: this._client.presence(id)?.online });
    }
    return [...found.values()];
  }

  /** The other side of a direct conversation, where it is known: who wrote last, or its member. */
  peerOf(conversation) {
    const { senderId = null } = conversation.lastMessage ?? {};
    if (senderId !== null && senderId !== this._client.userId) return senderId;
    return this._members.get(conversation.id)?.[0] ?? null;
  }

  setMembers(conversation, others) {
    put(this._members, conversation.id, others);
    this._hush(keyOf(conversation, ''), FRESH_MS);
  }

  /** Note a change of members: the group is read again when drawn, and keeps its name until then. */
  _doubt(conversation) {
    if (this._quiet.delete(keyOf(conversation, ''))) this._tell();
  }

  async _askMembers(conversation) {
    const key = keyOf(conversation, '');
    if (this._asking >= ASKING_MAX || this._isQuiet(key)) return;
    this._hush(key, FRESH_MS);
    this._asking += 1;
    try {
      const found = await conversation.profiles();
      put(this._members, conversation.id, found.map((one) => one.userId).filter((id) => id !== this._client.userId));
      this.learn(...found);
    } catch (error) {
      if (error.temporary) this._hush(key, AGAIN_MS); // otherwise there are too many members
    }
    this._asking -= 1;
    this._tell();
  }

  async _ask(conversation, ids) {
    try {
      return await conversation.profiles(ids);
    } catch {
      for (const id of ids) this._hush(keyOf(conversation, id), AGAIN_MS);
      return [];
    }
  }

  _isMissing(conversation, id) {
    return !isFresh(this._known.get(id)?.at) && !this._isQuiet(keyOf(conversation, id));
  }

  _hush(key, ms) {
    put(this._quiet, key, performance.now() + ms);
  }

  _isQuiet(key) {
    return performance.now() < (this._quiet.get(key) ?? 0);
  }
}

const keyOf = (conversation, id) => `${conversation.id} ${id}`;
const isFresh = (at) => at !== undefined && performance.now() - at < FRESH_MS;

function put(map, key, value) {
  map.set(key, value);
  if (map.size > KEPT_MAX) map.delete(map.keys().next().value);
}

export function inPieces(ids) {
  const count = Math.ceil(ids.length / TOGETHER_MAX);
  return Array.from({ length: count }, (_, at) => ids.slice(at * TOGETHER_MAX, (at + 1) * TOGETHER_MAX));
}
